//! Announcements of this process.

use std::sync::Arc;

use bytes::Bytes;
use carnet_base::sync::lock;
use carnet_base::{Error, Result};
use carnet_store::cluster::Cluster;

use super::cluster_log::ClusterLog;
use super::inner::Inner;
use crate::members::{self, ANNOUNCE_EVERY};
use crate::message::{LeaderRequest, Response};
use crate::transport::Transport;

impl<C: Cluster, T: Transport> ClusterLog<C, T> {
    /// Announces this process to the others, until the announcement is replaced or withdrawn, or
    /// the process leaves. Returns when the leader has received it, or does not answer in time; the
    /// announcement is repeated in any case.
    ///
    /// # Errors
    ///
    /// `Invalid` if it is empty or longer than
    /// [`ANNOUNCEMENT_BYTES_MAX`](crate::ANNOUNCEMENT_BYTES_MAX).
    pub async fn announce(&self, what: Bytes) -> Result<()> {
        members::check(&what)?;
        if what.is_empty() {
            return Err(Error::invalid("an announcement must not be empty"));
        }
        lock(&self.inner.announced).own.clone_from(&what);
        self.inner.announce(what).await;
        self.inner.go_on_announcing();
        Ok(())
    }

    /// Withdraws this process's announcement, without waiting.
    pub fn withdraw(&self) {
        let inner = Arc::clone(&self.inner);
        let withdraw = async move { inner.withdraw().await };
        self.inner.node.environment().tasks.spawn(Box::pin(withdraw));
    }

    /// Returns the announcements of all live processes, at most some seconds old. It is empty until
    /// this process announces something itself.
    #[must_use]
    pub fn announced(&self) -> Vec<Bytes> {
        lock(&self.inner.announced).all()
    }
}

impl<C: Cluster, T: Transport> Inner<C, T> {
    async fn announce(&self, what: Bytes) {
        let request = LeaderRequest::Announce { client: self.client, what };
        let until = self.now().after(self.node.options().call_timeout);
        match self.ask_once(&request, until, self.node.changed().count()).await {
            Some(Response::Members(members)) => lock(&self.announced).received(members),
            // The next one follows soon; by then the leader may be known.
            _ => self.node.look(),
        }
    }

    pub(super) async fn withdraw(&self) {
        if !std::mem::take(&mut lock(&self.announced).own).is_empty() {
            self.announce(Bytes::new()).await;
        }
    }

    /// Repeats the announcement until there is none.
    fn go_on_announcing(self: &Arc<Self>) {
        if std::mem::replace(&mut lock(&self.announced).is_driven, true) {
            return;
        }
        let weak = Arc::downgrade(self);
        let timer = Arc::clone(&self.node.environment().timer);
        self.node.environment().tasks.spawn(Box::pin(async move {
            loop {
                timer.wait(ANNOUNCE_EVERY).await;
                let Some(inner) = weak.upgrade() else { return };
                let Some(own) = lock(&inner.announced).next() else { return };
                inner.announce(own).await;
            }
        }));
    }
}
