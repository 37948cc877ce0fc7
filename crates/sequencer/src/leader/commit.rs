//! Decides commits.

use std::sync::Arc;

use carnet_base::sync::lock;
use carnet_base::{CommitEntry, Result};
use carnet_store::Claim;
use carnet_store::cluster::Cluster;

use super::fold::has_deltas;
use super::outcome::answer_of;
use super::state::{Decided, Entry};
use super::term::Leader;
use crate::cells::ChangeLog;
use crate::message::{ClientId, Response, Token};
use crate::oneshot::channel;

impl<C: Cluster> Leader<C> {
    pub(super) async fn commit(
        self: &Arc<Self>,
        client: ClientId,
        token: Token,
        claim: Claim,
    ) -> Result<Response> {
        let start = claim.start;
        if start < self.term.first {
            return self.settled(start).await;
        }
        let waiting = match self.submit(client, token, claim)? {
            Submitted::Waits(waiting) => waiting,
            Submitted::Known(entry) => return answer_of(start, entry),
            Submitted::Settle => return self.settled(start).await,
        };
        match waiting.await {
            Some(response) => Ok(response),
            None => Ok(Response::NotLeading),
        }
    }

    /// Decides a start, once.
    fn submit(self: &Arc<Self>, client: ClientId, token: Token, claim: Claim) -> Result<Submitted> {
        let start = claim.start;
        let (sender, receiver) = channel();
        let mut state = lock(&self.state);
        if state.ended.is_some() {
            sender.send(Response::NotLeading);
            return Ok(Submitted::Waits(receiver));
        }
        state.clients.seen(client, self.environment.timer.now());
        match state.decided.get_mut(&start) {
            Some(Decided::Pending(waiting)) => {
                waiting.push(sender);
                return Ok(Submitted::Waits(receiver));
            }
            Some(Decided::Known(entry)) => return Ok(Submitted::Known(*entry)),
            None => {}
        }
        let begun = state.clients.get(client, token);
        let is_open = state.clients.is_open(start);
        let Some(begun) = begun.filter(|begun| is_open && begun.start == Some(start)) else {
            if start > self.order.latest() {
                // A later leader handed the start out, and knows its outcome.
                sender.send(Response::NotLeading);
                return Ok(Submitted::Waits(receiver));
            }
            return Ok(Submitted::Settle);
        };
        let mut claim = Claim { slot: begun.slot, read: begun.read, ..claim };
        let place = self.table.known_place(start)?;
        // A refused start counts as decided, too: the process that was refused may have run the
        // transaction again before a repetition of the same request arrives.
        state.clients.decided(start);
        let cells = ChangeLog::takes(&claim).then(|| claim.cells.hashes().collect::<Vec<_>>());
        let deltas = has_deltas(&claim).then(|| claim.cells.clone());
        let commit = self.order.decide(&mut claim)?;
        if let Some(cells) = deltas {
            self.count_deltas(&mut state, commit, &cells);
        }
        match cells {
            Some(cells) => state.changes.wrote(commit, cells.into_iter()),
            None => state.changes.wrote_any(commit),
        }
        state.prefix.decided(start, commit);
        state.last_commit = commit;
        state.decided.insert(start, Decided::Pending(vec![sender]));
        let row = place.row.clone();
        let group = state.groups.push(&row, Entry { start, commit, place });
        let waiting = state.groups.waiting(&row);
        state.row_allocator.waiting(start, waiting);
        drop(state);
        if let Some(group) = group {
            self.send(row, group);
        }
        Ok(Submitted::Waits(receiver))
    }
}

enum Submitted {
    Waits(crate::oneshot::Receiver<Response>),
    Known(CommitEntry),
    Settle,
}
