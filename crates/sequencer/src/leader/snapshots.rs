//! Begins and ends snapshots.

use std::sync::Arc;
use std::time::Duration;

use carnet_base::commit_encoding::v2::ROWS_PER_QUANTUM;
use carnet_base::sync::lock;
use carnet_base::{Error, Result, Timestamp};
use carnet_store::BeginKind;
use carnet_store::cluster::Cluster;

use super::term::Leader;
use crate::futures::{First, first};
use crate::message::{ClientId, Released, Response, Token};
use crate::proof::Proof;

/// Time to wait for a group to prove leadership before the lease is read.
const GROUP_WAIT: Duration = Duration::from_millis(50);

impl<C: Cluster> Leader<C> {
    pub(super) async fn begin(
        self: &Arc<Self>,
        client: ClientId,
        token: Token,
        kind: BeginKind,
        is_strict: bool,
        known: Option<Timestamp>,
    ) -> Result<Response> {
        // A snapshot that this leader does not know yet may belong to a later leader.
        let is_unknown = matches!(kind, BeginKind::ReadOnlyAt(read) if read > self.published());
        if is_strict || is_unknown {
            match self.prove().await {
                Proof::Leads => {}
                Proof::Deposed => {
                    self.depose();
                    return Ok(Response::NotLeading);
                }
                Proof::Unknown(why) => {
                    return Err(Error::unavailable(format!("the lease cannot be read: {why}")));
                }
            }
        }
        let mut state = lock(&self.state);
        state.clients.seen(client, self.environment.timer.now());
        let begun = match state.clients.get(client, token) {
            Some(begun) => begun,
            None => {
                // Skipping timestamps must leave enough for later starts.
                if kind == BeginKind::ReadWrite && self.has_headroom(ROWS_PER_QUANTUM) {
                    let latest = self.order.latest();
                    self.order.skip_to(state.row_allocator.next(latest, self.options.row_starts));
                }
                let begun = self.order.begin(kind)?;
                state.clients.opened(client, token, begun, self.environment.timer.now());
                begun
            }
        };
        let changes = state.changes.between(known, begun.read);
        drop(state);
        if !self.has_headroom(0) {
            self.notify.notify_all();
        }
        let (epoch_first, schema) = (self.term.first, begun.schema);
        let released = Released { read: begun.read, start: begun.start, epoch_first, schema };
        Ok(Response::Released(released, changes))
    }

    /// Proves that this process led after the request arrived.
    ///
    /// A conditional write that was applied was behind this term's fence, and a later leader raises
    /// the fence on every row before it serves. If such a write is about to begin, the lease need
    /// not be read, which saves a round of Paxos.
    async fn prove(&self) -> Proof {
        if lock(&self.state).groups.another_follows() {
            let wait = self.environment.timer.wait(GROUP_WAIT);
            if let First::Left(proof) = first(self.proof.fresh_from_elsewhere(), wait).await {
                return proof;
            }
        }
        self.proof.fresh().await
    }

    /// Returns `true` if `timestamps` can be skipped without raising the bound.
    fn has_headroom(&self, timestamps: u64) -> bool {
        self.order.headroom() >= self.options.lease.bound_step / 2 + timestamps
    }

    pub(super) fn seen(&self, client: ClientId, oldest: Token) {
        let mut state = lock(&self.state);
        state.clients.seen(client, self.environment.timer.now());
        let forgotten = state.clients.close_older(client, oldest);
        drop(state);
        forgotten.into_iter().for_each(|begun| self.order.end(begun));
    }

    /// Gives a snapshot back at once, without waiting.
    pub(crate) fn give_back(&self, client: ClientId, token: Token) {
        let begun = lock(&self.state).clients.close(client, token);
        if let Some(begun) = begun {
            self.order.end(begun);
        }
    }
}
