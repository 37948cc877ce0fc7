//! The store of one process, correct or with a broken rule.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use carnet_base::{CellKey, CellPage, Error, ErrorKind, Result, Timestamp, Version, WallTime};
use carnet_store::{
    At, BeginKind, Begun, CellStore, CommitLog, CommitRequest, Context, Outcome, Page,
    RangeRequest, Spill,
};
use carnet_store_local::LocalStore;

use crate::mutant::Mutant;
use crate::rules::Known;

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

    async fn get_many(
        &self,
        context: &Context,
        keys: &[CellKey],
        at: At,
        bytes_max: usize,
    ) -> Result<Vec<Option<Version>>> {
        let at = At { read: self.read(at.read), ..at };
        self.inner.get_many(context, keys, at, bytes_max).await
    }

    async fn range(&self, context: &Context, request: &RangeRequest) -> Result<Page> {
        let request = RangeRequest { read: self.read(request.read), ..request.clone() };
        self.inner.range(context, &request).await
    }

    async fn page(&self, context: &Context, request: &RangeRequest) -> Result<Option<CellPage>> {
        let request = RangeRequest { read: self.read(request.read), ..request.clone() };
        self.inner.page(context, &request).await
    }
}

impl CommitLog for Store {
    fn takes_delta(&self, key: &CellKey) -> bool {
        self.inner.takes_delta(key)
    }

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

    fn spill(&self, start: Timestamp) -> Option<Arc<dyn Spill>> {
        // A spill's commit would bypass the broken rule.
        if self.mutant.is_some() { None } else { self.inner.spill(start) }
    }

    async fn outcome(&self, context: &Context, start: Timestamp) -> Result<Outcome> {
        let outcome = self.inner.outcome(context, start).await?;
        if self.breaks(Mutant::EntriesDeletedAboveMark)
            && matches!(outcome, Outcome::Committed(commit) if commit > self.inner.swept(context).await?)
        {
            return Ok(Outcome::Aborted);
        }
        Ok(outcome)
    }

    fn published(&self) -> Timestamp {
        self.inner.published()
    }

    async fn timestamp_at(&self, context: &Context, wall: WallTime) -> Result<Timestamp> {
        self.inner.timestamp_at(context, wall).await
    }

    async fn wall_time_of(&self, context: &Context, commit: Timestamp) -> Result<WallTime> {
        let wall = self.inner.wall_time_of(context, commit).await?;
        Ok(if self.breaks(Mutant::WallTimesDecrease) { WallTime(-wall.0) } else { wall })
    }

    async fn swept(&self, context: &Context) -> Result<Timestamp> {
        self.inner.swept(context).await
    }
}
