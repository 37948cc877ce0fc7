//! The seams between the layers, as they are or with a rule broken.

use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;

use carnet_base::{CellKey, Error, ErrorKind, Result, Timestamp, Version};
use carnet_store::{
    At, BeginKind, Begun, CellStore, Claim, CommitLog, CommitOrder, CommitRequest, Context,
    Outcome, Page, RangeRequest,
};
use carnet_store_local::LocalStore;

use crate::mutant::Mutant;

/// What both seams of one store know.
#[derive(Default)]
pub(super) struct Known(Mutex<BTreeMap<Timestamp, Timestamp>>);

impl Known {
    fn starts(&self) -> MutexGuard<'_, BTreeMap<Timestamp, Timestamp>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The commit of a start that was decided.
    fn commit_of(&self, start: Timestamp) -> Option<Timestamp> {
        self.starts().get(&start).copied()
    }

    /// The last commit that was decided.
    fn newest(&self) -> Timestamp {
        self.starts().values().max().copied().unwrap_or_default()
    }
}

/// The rules of order.
pub(super) struct Rules {
    pub(super) inner: Box<dyn CommitOrder>,
    pub(super) known: Arc<Known>,
    pub(super) mutant: Option<Mutant>,
}

impl Rules {
    fn breaks(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }
}

impl CommitOrder for Rules {
    fn begin(&self, kind: BeginKind) -> Result<Begun> {
        let begun = self.inner.begin(kind)?;
        if kind == BeginKind::ReadOnly && self.breaks(Mutant::SnapshotNotRegistered) {
            self.inner.end(begun);
        }
        if self.breaks(Mutant::StartDrawnBeforeSnapshot) && begun.start.is_some() {
            // What is decided meanwhile lies above S and below R.
            let later = self.inner.begin(BeginKind::ReadWrite)?;
            self.inner.end(later);
            return Ok(Begun { read: later.start.unwrap_or(later.read), ..begun });
        }
        Ok(begun)
    }

    fn end(&self, begun: Begun) {
        if begun.start.is_some() || !self.breaks(Mutant::SnapshotNotRegistered) {
            self.inner.end(begun);
        }
    }

    fn decide(&self, claim: &mut Claim) -> Result<Timestamp> {
        match self.mutant {
            Some(Mutant::ReadPointsIgnored) => claim.reads.points.clear(),
            Some(Mutant::ReadRangesIgnored) => claim.reads.ranges.clear(),
            Some(Mutant::BlindWritesUnchecked)
                if claim.reads.points.is_empty() && claim.reads.ranges.is_empty() =>
            {
                claim.read = self.inner.latest();
            }
            _ => {}
        }
        let commit = self.inner.decide(claim)?;
        self.known.starts().insert(claim.start, commit);
        if self.breaks(Mutant::PublishedBeforeResolved) {
            self.inner.publish(commit);
        }
        Ok(commit)
    }

    fn publish(&self, commit: Timestamp) {
        if !self.breaks(Mutant::PublishedBeforeResolved) {
            self.inner.publish(commit);
        }
    }

    fn published(&self) -> Timestamp {
        self.inner.published()
    }

    fn latest(&self) -> Timestamp {
        self.inner.latest()
    }

    fn is_running(&self, start: Timestamp) -> bool {
        self.inner.is_running(start)
    }

    fn raise_mark(&self, wanted: Timestamp) -> Timestamp {
        let mark = self.inner.raise_mark(wanted);
        if self.breaks(Mutant::MarkAheadOfSnapshots) { self.inner.published() } else { mark }
    }

    fn headroom(&self) -> u64 {
        self.inner.headroom()
    }

    fn extend(&self, bound: Timestamp) {
        self.inner.extend(bound);
    }
}

/// The store.
pub(super) struct Store {
    pub(super) inner: LocalStore,
    pub(super) known: Arc<Known>,
    pub(super) mutant: Option<Mutant>,
}

impl Store {
    fn breaks(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }

    fn read(&self, read: Timestamp) -> Timestamp {
        if self.breaks(Mutant::UndecidedVersionsRead) {
            read.max(self.known.newest())
        } else {
            read
        }
    }
}

impl CellStore for Store {
    async fn get(&self, context: &Context, key: &CellKey, at: At) -> Result<Option<Version>> {
        let at = At { read: self.read(at.read), ..at };
        self.inner.get(context, key, at).await
    }

    async fn range(&self, context: &Context, request: &RangeRequest) -> Result<Page> {
        let request = RangeRequest { read: self.read(request.read), ..request.clone() };
        self.inner.range(context, &request).await
    }
}

impl CommitLog for Store {
    async fn begin(&self, context: &Context, kind: BeginKind) -> Result<Begun> {
        self.inner.begin(context, kind).await
    }

    fn end(&self, begun: Begun) {
        self.inner.end(begun);
    }

    async fn commit(&self, context: &Context, request: CommitRequest) -> Result<Timestamp> {
        let start = request.start;
        let mut commit = pin!(self.inner.commit(context, request));
        let result = poll_fn(|waker| {
            let polled = commit.as_mut().poll(waker);
            match self.known.commit_of(start) {
                Some(decided)
                    if polled.is_pending() && self.breaks(Mutant::AcknowledgedBeforePublished) =>
                {
                    Poll::Ready(Ok(decided))
                }
                _ => polled,
            }
        })
        .await;
        result.map_err(|error| match error.kind() {
            ErrorKind::Unknown { .. } if self.breaks(Mutant::UnknownReportedAsRefused) => {
                Error::conflict("the store stopped").with_source(error)
            }
            _ => error,
        })
    }

    async fn outcome(&self, context: &Context, start: Timestamp) -> Result<Outcome> {
        self.inner.outcome(context, start).await
    }

    fn published(&self) -> Timestamp {
        self.inner.published()
    }
}
