//! What this process tells the others of itself.

use std::sync::Arc;

use bytes::Bytes;
use carnet_base::{Error, Result};
use carnet_store::cluster::Cluster;

use super::{ClusterLog, Inner};
use crate::members::{self, ANNOUNCE_EVERY};
use crate::message::{Request, Response};
use crate::oneshot::lock;
use crate::transport::Transport;

impl<C: Cluster, T: Transport> ClusterLog<C, T> {
    /// Tells the other processes something of this one, until it tells something else, withdraws that
    /// or leaves. Returns when the leader has heard it, or does not answer in time: it is told again.
    ///
    /// # Errors
    ///
    /// `Invalid` for more than [`ANNOUNCEMENT_BYTES_MAX`](crate::ANNOUNCEMENT_BYTES_MAX), or nothing.
    pub async fn announce(&self, what: Bytes) -> Result<()> {
        members::check(&what)?;
        if what.is_empty() {
            return Err(Error::invalid("an empty announcement: it would tell nothing"));
        }
        lock(&self.inner.announced).own.clone_from(&what);
        self.inner.announce(what).await;
        self.inner.go_on_announcing();
        Ok(())
    }

    /// Takes back what this process announces, without waiting for anybody.
    pub fn withdraw(&self) {
        let inner = Arc::clone(&self.inner);
        let withdraw = async move { inner.withdraw().await };
        self.inner.node.doors().tasks.spawn(Box::pin(withdraw));
    }

    /// Returns what all processes announce, as this one was told last: within seconds, of those that
    /// live. Nothing before this one announces something.
    #[must_use]
    pub fn announced(&self) -> Vec<Bytes> {
        lock(&self.inner.announced).all()
    }
}

impl<C: Cluster, T: Transport> Inner<C, T> {
    async fn announce(&self, what: Bytes) {
        let request = Request::Announce { client: self.client, what };
        let until = self.now().after(self.node.options().call_timeout);
        match self.ask_once(&request, until, self.node.changed().count()).await {
            Some(Response::Members(members)) => lock(&self.announced).heard(members),
            // The next one comes soon; by then it may know who leads.
            _ => self.node.look(),
        }
    }

    pub(super) async fn withdraw(&self) {
        if !std::mem::take(&mut lock(&self.announced).own).is_empty() {
            self.announce(Bytes::new()).await;
        }
    }

    /// Announces again and again what there is to announce, until there is nothing.
    fn go_on_announcing(self: &Arc<Self>) {
        if std::mem::replace(&mut lock(&self.announced).is_driven, true) {
            return;
        }
        let weak = Arc::downgrade(self);
        let timer = Arc::clone(&self.node.doors().timer);
        self.node.doors().tasks.spawn(Box::pin(async move {
            loop {
                timer.wait(ANNOUNCE_EVERY).await;
                let Some(inner) = weak.upgrade() else { return };
                let Some(own) = lock(&inner.announced).next() else { return };
                inner.announce(own).await;
            }
        }));
    }
}
