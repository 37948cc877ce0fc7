//! Keeps the leader informed of the snapshots of this process.

use std::sync::Arc;
use std::task::{Context as TaskContext, Waker};

use carnet_base::Timestamp;
use carnet_base::sync::lock;
use carnet_store::Begun;
use carnet_store::cluster::Cluster;

use super::inner::Inner;
use crate::message::{Changes, LeaderRequest, Released, Response, Token};
use crate::node::Role;
use crate::transport::Transport;

/// Number of epochs whose first timestamp is remembered; for snapshots of older ones the leader is
/// asked.
const EPOCHS_MAX: usize = 1024;

impl<C: Cluster, T: Transport> Inner<C, T> {
    pub(super) async fn keep_alive(&self) {
        let oldest = {
            let open = lock(&self.open);
            let oldest = open.oldest();
            // A process without snapshots goes silent only once the leader knows that. The leader
            // may hold a snapshot whose end was lost, or arrived before its begin.
            if open.asked.is_empty() && open.reported == oldest {
                return;
            }
            oldest
        };
        let request = LeaderRequest::Alive { client: self.client, oldest };
        let until = self.now().after(self.node.options().call_timeout);
        // No retry: the next keep-alive follows soon.
        let answer = self.ask_once(&request, until, self.node.changed().count()).await;
        if matches!(answer, Some(Response::Done)) {
            lock(&self.open).reported = oldest;
        }
    }

    /// Tells the leader that a snapshot is no longer needed.
    pub(super) fn give_back(self: &Arc<Self>, token: Token) {
        lock(&self.open).asked.remove(&token);
        match self.node.role() {
            Role::Leading(leader) => leader.give_back(self.client, token),
            Role::Following(address, _) => {
                let this = Arc::clone(self);
                let mut call = Box::pin(async move {
                    let request = LeaderRequest::End { client: this.client, token };
                    // If it is lost, the next keep-alive repeats it.
                    let _ = this.transport.call(&address, request).await;
                });
                // Send it now, so that later requests follow it.
                let mut context = TaskContext::from_waker(Waker::noop());
                if call.as_mut().poll(&mut context).is_pending() {
                    self.node.environment().tasks.spawn(call);
                }
            }
            Role::Unknown | Role::Stopped(_) => {}
        }
    }

    pub(super) fn released(&self, token: Token, released: &Released, changes: &Changes) -> Begun {
        self.saw(released.read);
        if let Some(cells) = &self.cells {
            cells.apply(changes, released.read);
        }
        let mut epochs = lock(&self.epochs);
        epochs.insert(released.epoch_first, ());
        if epochs.len() > EPOCHS_MAX {
            epochs.pop_first();
        }
        drop(epochs);
        let slot = lock(&self.open).keep(token);
        let Released { read, start, schema, .. } = *released;
        Begun { read, start, slot, schema }
    }

    /// Returns the first timestamp of the epoch that released a snapshot.
    pub(super) fn epoch_of(&self, read: Timestamp) -> Option<Timestamp> {
        lock(&self.epochs).range(..=read).next_back().map(|(first, ())| *first)
    }
}

/// Gives back the snapshot of a begin that was dropped or failed.
pub(super) struct Asked<'a, C: Cluster, T: Transport> {
    pub(super) inner: &'a Arc<Inner<C, T>>,
    pub(super) token: Option<Token>,
}

impl<C: Cluster, T: Transport> Drop for Asked<'_, C, T> {
    fn drop(&mut self) {
        if let Some(token) = self.token {
            self.inner.give_back(token);
        }
    }
}
