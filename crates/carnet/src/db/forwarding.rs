//! Bytes that one process of a database over a cluster forwards to another one.
//!
//! The façade gives them no meaning. Servers forward statements of transactions that another server
//! holds.

use std::sync::Arc;

use carnet_base::{Bytes, Error, Result};

use super::database::Db;
use crate::cluster::{Address, ForwardHandler, Unanswered};
use crate::stores::AnyStore;

impl Db {
    /// Returns the address by which other processes of a database over a cluster reach this one;
    /// `None` for an embedded database.
    #[must_use]
    pub fn forward_address(&self) -> Option<Address> {
        match &*self.inner.store {
            AnyStore::Cluster(store) => Some(store.address()),
            AnyStore::Local(_) | AnyStore::Memory(_) => None,
        }
    }

    /// Sets the handler of the bytes that other processes [forward](Self::forward) to this one, as
    /// long as the handler lives. Has no effect on an embedded database.
    pub fn serve_forwarded(&self, handler: &Arc<dyn ForwardHandler>) {
        if let AnyStore::Cluster(store) = &*self.inner.store {
            store.serve_forwarded(handler);
        }
    }

    /// Forwards bytes to the handler of another process, once, and waits for its answer. The bytes
    /// are sent when the future is polled first. The handler goes on if the future is dropped.
    ///
    /// The connections are those of the processes of a database: each side has proved that it
    /// belongs to them, as far as the URL asks for it.
    ///
    /// # Errors
    ///
    /// [`Unanswered`] if the handler may have acted, and its answer did not arrive. The inner error
    /// says that the handler did not act: `Invalid` for more than
    /// [`FORWARD_BYTES_MAX`](crate::cluster::FORWARD_BYTES_MAX) bytes, `Unsupported` for an embedded
    /// database, or the reason of the other process.
    pub async fn forward(&self, to: &Address, what: Bytes) -> Result<Result<Bytes>, Unanswered> {
        match &*self.inner.store {
            AnyStore::Cluster(store) => store.forward(to, what).await,
            AnyStore::Local(_) | AnyStore::Memory(_) => {
                Ok(Err(Error::unsupported("processes of an embedded database")))
            }
        }
    }
}
