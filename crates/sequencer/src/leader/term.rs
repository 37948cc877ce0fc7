//! A leader: its term, its standing, and its end.

use std::sync::{Arc, Mutex};

use carnet_base::sync::lock;
use carnet_base::{Epoch, Moment, Timer, Timestamp};
use carnet_store::cluster::Cluster;
use carnet_store::{CommitOrder, RowTables};

use super::state::{Decided, Ended, LeaderState};
use crate::candidate::{Standing, Term};
use crate::commit_table::CommitTable;
use crate::environment::Environment;
use crate::futures::Notify;
use crate::message::Response;
use crate::options::Options;
use crate::proof::{self, Proof};
use crate::shared_read::SharedRead;
use crate::sweep::{Holder, Sample, Sweep};

/// A leader, for one term.
pub(crate) struct Leader<C> {
    pub(super) term: Term,
    pub(super) table: Arc<CommitTable<C>>,
    pub(super) order: Box<dyn CommitOrder>,
    pub(super) environment: Environment,
    pub(super) options: Options,
    pub(super) proof: Arc<SharedRead<Proof>>,
    pub(super) state: Mutex<LeaderState>,
    sweep: Sweep,
    /// Notified when the node has something to look at.
    pub(super) notify: Arc<Notify>,
}

impl<C: Cluster> Leader<C> {
    pub(crate) fn new(
        term: Term,
        table: Arc<CommitTable<C>>,
        order: Box<dyn CommitOrder>,
        environment: Environment,
        options: Options,
        notify: Arc<Notify>,
    ) -> Arc<Self> {
        order.extend(term.bound);
        let proof = proof::new_shared_read(table.cluster(), Arc::clone(&environment.tasks), &term);
        let state = Mutex::new(LeaderState::new(&term, environment.timer.now()));
        let began = Sample {
            at: environment.timer.now(),
            wall: environment.clock.wall(),
            // All snapshots of this term are released later, from its first timestamp on.
            published: term.first.previous().unwrap_or(Timestamp::ZERO),
            last_commit: term.first,
        };
        let sweep = Sweep::new(options.sweep, began);
        Arc::new(Self { term, table, order, environment, options, proof, state, sweep, notify })
    }

    pub(crate) fn extend(&self, bound: Timestamp) {
        self.order.extend(bound);
    }

    pub(crate) fn published(&self) -> Timestamp {
        self.order.published()
    }

    /// Moves P beyond the last commit, if no commit is in flight: later snapshots differ from all
    /// that were released up to now. All commits up to the latest timestamp are resolved.
    pub(crate) fn publish_idle(&self) {
        const TIMESTAMPS: u64 = 4;
        let state = lock(&self.state);
        let is_busy = state.ended.is_some() || state.prefix.starts().next().is_some();
        if is_busy || self.order.headroom() < TIMESTAMPS {
            return;
        }
        let latest = self.order.latest();
        if latest == self.order.published() {
            self.order.skip_to(Timestamp::new(latest.get() + 2).unwrap_or(Timestamp::MAX));
        }
        let latest = self.order.latest();
        if latest > self.order.published() {
            self.order.publish(latest);
        }
    }

    /// Returns the current sample of P.
    pub(crate) fn sample(&self) -> Sample {
        let (at, wall) = (self.environment.timer.now(), self.environment.clock.wall());
        let last_commit = lock(&self.state).last_commit;
        Sample { at, wall, published: self.published(), last_commit }
    }

    /// Returns `true` if the leader has found out that its term is over.
    pub(crate) fn is_over(&self) -> bool {
        lock(&self.state).ended.is_some()
    }

    pub(crate) const fn sweep(&self) -> &Sweep {
        &self.sweep
    }

    pub(crate) const fn epoch(&self) -> Epoch {
        self.term.epoch
    }

    pub(crate) const fn table(&self) -> &Arc<CommitTable<C>> {
        &self.table
    }

    pub(crate) fn row_tables(&self) -> &RowTables {
        &self.environment.row_tables
    }

    pub(crate) const fn timer(&self) -> &Arc<dyn Timer> {
        &self.environment.timer
    }

    /// Raises the sweep mark as far as the snapshots of this term allow.
    pub(crate) fn raise_mark(&self, wanted: Timestamp) -> Timestamp {
        self.order.raise_mark(wanted).min(wanted)
    }

    pub(crate) fn oldest_snapshot(&self) -> Option<Holder> {
        let (client, begun, since) = lock(&self.state).clients.oldest()?;
        let since = self.environment.timer.now().since(since);
        Some(Holder { client, read: begun.read, start: begun.start, since })
    }

    /// Returns the oldest start that may still commit, or the latest timestamp if there is none.
    pub(crate) fn oldest_undecided(&self) -> Timestamp {
        let latest = self.order.latest();
        let state = lock(&self.state);
        let unresolved = state.prefix.starts().min();
        state.clients.oldest_start().into_iter().chain(unresolved).min().unwrap_or(latest)
    }

    /// Returns the invariant that was found broken, if any.
    pub(crate) fn broken(&self) -> Option<String> {
        match &lock(&self.state).ended {
            Some(Ended::Broken(what)) => Some(what.clone()),
            Some(Ended::Deposed) | None => None,
        }
    }

    /// Returns the leader's standing, and gives up the snapshots of expired processes.
    pub(crate) fn standing(&self, now: Moment) -> Standing {
        let mut state = lock(&self.state);
        let given_up = state.clients.expire(now, self.options.client_timeout);
        drop(state);
        given_up.into_iter().for_each(|begun| self.order.end(begun));
        Standing {
            fence_from: self.oldest_undecided(),
            latest: self.order.latest(),
            wall: self.environment.clock.wall(),
            headroom: self.order.headroom(),
        }
    }

    /// Ends the term: waiting requests are answered that this process does not lead.
    pub(crate) fn depose(&self) {
        self.end(Ended::Deposed);
    }

    pub(super) fn end(&self, why: Ended) {
        let mut state = lock(&self.state);
        if state.ended.is_some() {
            return;
        }
        if let Ended::Broken(what) = &why {
            tracing::error!(%what, "the leader stopped: an invariant of the commit table is broken");
        }
        state.ended = Some(why);
        let decided = std::mem::take(&mut state.decided);
        drop(state);
        for (_, decided) in decided {
            if let Decided::Pending(waiting) = decided {
                waiting.into_iter().for_each(|waiter| waiter.send(Response::NotLeading));
            }
        }
        self.notify.notify_all();
    }
}
