//! State that all requests of the HTTP port share.

use std::sync::Arc;

use tokio::sync::watch;

use crate::connection::Shared;

/// The HTTP port's part of a server.
pub(super) struct Site<B> {
    pub(super) shared: Arc<Shared<B>>,
    pub(super) draining: watch::Receiver<bool>,
}

impl<B> Site<B> {
    pub(super) fn is_draining(&self) -> bool {
        *self.draining.borrow()
    }
}
