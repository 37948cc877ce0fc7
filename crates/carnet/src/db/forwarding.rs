//! Bytes that one process of a database over a cluster forwards to another one.
//!
//! The façade gives them no meaning. Servers forward statements of transactions that another server
//! holds.

use std::sync::Arc;

use carnet_base::{Bytes, Error, Result};

use super::database::Db;
use crate::cluster::{Address, ClusterStore, ForwardHandler, Unanswered};

impl Db {
    /// Returns the address by which other processes of a database over a cluster reach this one;
    /// `None` for an embedded database.
    #[must_use]
    pub fn forward_address(&self) -> Option<Address> {
        self.inner.store.cluster().map(ClusterStore::address)
    }

    /// Sets the handler of the bytes that other processes [forward](Self::forward) to this one, as
    /// long as the handler lives. Has no effect on an embedded database.
    pub fn serve_forwarded(&self, handler: &Arc<dyn ForwardHandler>) {
        if let Some(store) = self.inner.store.cluster() {
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
    /// [`Unanswered`] if no answer arrived; if the request was lost, the handler may have acted. The inner error
    /// says that the handler did not act: `Invalid` for more than
    /// [`FORWARD_BYTES_MAX`](crate::cluster::FORWARD_BYTES_MAX) bytes, `Unsupported` for an embedded
    /// database, or the reason of the other process.
    pub async fn forward(&self, to: &Address, what: Bytes) -> Result<Result<Bytes>, Unanswered> {
        match self.inner.store.cluster() {
            Some(store) => store.forward(to, what).await,
            None => Ok(Err(Error::unsupported("processes of an embedded database"))),
        }
    }
}
