//! The store of one process, correct or with a broken rule.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use carnet_base::{Call, CellKey, Error, ErrorKind, Timestamp, Version, WallTime};
use carnet_store::{
    At, BeginKind, Begun, CandidatePage, CellStore, CommitLog, CommitRequest, Context, Outcome,
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
    fn get<'a>(
        &'a self,
        context: &'a Context,
        key: &'a CellKey,
        at: At,
    ) -> Call<'a, Option<Version>> {
        self.inner.get(context, key, At { read: self.read(at.read), ..at })
    }

    fn get_many<'a>(
        &'a self,
        context: &'a Context,
        keys: &'a [CellKey],
        at: At,
        bytes_max: usize,
    ) -> Call<'a, Vec<Option<Version>>> {
        self.inner.get_many(context, keys, At { read: self.read(at.read), ..at }, bytes_max)
    }

    fn range<'a>(
        &'a self,
        context: &'a Context,
        request: &'a RangeRequest,
    ) -> Call<'a, CandidatePage> {
        let request = RangeRequest { read: self.read(request.read), ..request.clone() };
        Call::boxed(async move { self.inner.range(context, &request).await })
    }
}

impl CommitLog for Store {
    fn takes_delta(&self, key: &CellKey) -> bool {
        self.inner.takes_delta(key)
    }

    fn begin<'a>(&'a self, context: &'a Context, kind: BeginKind) -> Call<'a, Begun> {
        self.inner.begin(context, kind)
    }

    fn end(&self, begun: Begun) {
        self.inner.end(begun);
    }

    fn commit<'a>(&'a self, context: &'a Context, request: CommitRequest) -> Call<'a, Timestamp> {
        Call::boxed(async move {
            let start = request.start;
            let mut commit = pin!(self.inner.commit(context, request));
            let result = poll_fn(|waker| {
                let polled = commit.as_mut().poll(waker);
                match self.known.commit_of(start) {
                    Some(decided)
                        if polled.is_pending()
                            && self.breaks(Mutant::AcknowledgedBeforePublished) =>
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
        })
    }

    fn spill(&self, start: Timestamp) -> Option<Arc<dyn Spill>> {
        // A spill's commit would bypass the broken rule.
        if self.mutant.is_some() { None } else { self.inner.spill(start) }
    }

    fn outcome<'a>(&'a self, context: &'a Context, start: Timestamp) -> Call<'a, Outcome> {
        Call::boxed(async move {
            let outcome = self.inner.outcome(context, start).await?;
            if self.breaks(Mutant::EntriesDeletedAboveMark)
                && matches!(outcome, Outcome::Committed(commit) if commit > self.inner.swept(context).await?)
            {
                return Ok(Outcome::Aborted);
            }
            Ok(outcome)
        })
    }

    fn published(&self) -> Timestamp {
        self.inner.published()
    }

    fn timestamp_at<'a>(&'a self, context: &'a Context, wall: WallTime) -> Call<'a, Timestamp> {
        self.inner.timestamp_at(context, wall)
    }

    fn wall_time_of<'a>(&'a self, context: &'a Context, commit: Timestamp) -> Call<'a, WallTime> {
        Call::boxed(async move {
            let wall = self.inner.wall_time_of(context, commit).await?;
            Ok(if self.breaks(Mutant::WallTimesDecrease) { WallTime(-wall.0) } else { wall })
        })
    }

    fn swept<'a>(&'a self, context: &'a Context) -> Call<'a, Timestamp> {
        self.inner.swept(context)
    }
}
