//! Bytes that this process forwards to another one, whether either leads or not.

use std::sync::Arc;

use bytes::Bytes;
use carnet_base::{Error, Result};
use carnet_store::cluster::Cluster;

use super::cluster_log::ClusterLog;
use crate::lease::Address;
use crate::message::{LeaderRequest, Response};
use crate::transport::{FORWARD_BYTES_MAX, ForwardHandler, Transport, Unanswered};

impl<C: Cluster, T: Transport> ClusterLog<C, T> {
    /// Returns the address by which other processes reach this one.
    #[must_use]
    pub fn address(&self) -> Address {
        self.inner.node.address().clone()
    }

    /// Sets the handler of the bytes that other processes forward, as long as the handler lives.
    pub fn serve_forwarded(&self, handler: &Arc<dyn ForwardHandler>) {
        self.inner.node.serve_forwarded(handler);
    }

    /// Forwards bytes to the handler of another process, once, and waits for its answer. The bytes
    /// are sent when the future is polled first. The handler goes on if the future is dropped.
    ///
    /// # Errors
    ///
    /// [`Unanswered`] if no answer arrived; if the request was lost, the handler may have acted. The inner error
    /// says that the handler did not act: `Invalid` for more than [`FORWARD_BYTES_MAX`] bytes, or the
    /// reason of the other process.
    pub async fn forward(&self, to: &Address, what: Bytes) -> Result<Result<Bytes>, Unanswered> {
        if what.len() > FORWARD_BYTES_MAX {
            return Ok(Err(Error::invalid(format!(
                "the statement takes {} bytes; at most {FORWARD_BYTES_MAX} are forwarded to another \
                 process",
                what.len()
            ))));
        }
        match self.inner.transport.call(to, LeaderRequest::Forward { what }).await? {
            Response::Forwarded(answer) => Ok(Ok(answer)),
            Response::Refused(error) => Ok(Err(error)),
            _ => Err(Unanswered::Lost),
        }
    }
}
