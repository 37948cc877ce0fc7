//! Begins, commits and outcomes of transactions.

use std::sync::atomic::Ordering;

use carnet_base::sync::lock;
use carnet_base::{Call, CellKey, Error, ErrorKind, KeyRange, Timestamp};
use carnet_store::cluster::{Cluster, VersionWrite};
use carnet_store::{BeginKind, Begun, CommitLog, CommitRequest, Context, Outcome};

use super::cluster_log::ClusterLog;
use super::requests::{GaveUp, unexpected};
use super::snapshots::Asked;
use crate::cells::{CHANGES_MAX, CellCache};
use crate::leader::unknown;
use crate::message::{LeaderRequest, Response};
use crate::node::Role;
use crate::statements::WRITTEN;
use crate::transport::Transport;

impl<C: Cluster, T: Transport> CommitLog for ClusterLog<C, T> {
    fn begin<'a>(&'a self, context: &'a Context, kind: BeginKind) -> Call<'a, Begun> {
        Call::boxed(async move {
            let inner = &self.inner;
            inner.check(context)?;
            let token = lock(&inner.open).ask();
            let mut asked = Asked { inner, token: Some(token) };
            let is_strict = !context.accepts_stale();
            let known = inner.cells.as_ref().and_then(CellCache::known);
            let request =
                LeaderRequest::Begin { client: inner.client, token, kind, is_strict, known };
            match inner.ask(context, &request).await {
                Ok(Response::Released(released, changes)) => {
                    asked.token = None;
                    Ok(inner.released(token, &released, &changes))
                }
                Ok(Response::Refused(error)) => Err(error),
                Ok(other) => Err(unexpected(&other)),
                Err(GaveUp) => Err(inner.unanswered(context)),
            }
        })
    }

    fn takes_delta(&self, key: &CellKey) -> bool {
        self.inner.row_tables().has_deltas(key.table())
    }

    fn end(&self, begun: Begun) {
        let token = lock(&self.inner.open).slots.remove(&begun.slot);
        if let Some(token) = token {
            self.inner.give_back(token);
        }
    }

    fn commit<'a>(&'a self, context: &'a Context, request: CommitRequest) -> Call<'a, Timestamp> {
        Call::boxed(async move {
            let inner = &self.inner;
            inner.check(context)?;
            let start = request.start;
            let token = lock(&inner.open).slots.get(&request.slot).copied().unwrap_or_default();
            let version = |write: carnet_store::Write| {
                let carnet_store::Write { key, payload } = write;
                VersionWrite { key, start, statement: WRITTEN, payload }
            };
            let (mut claim, writes) = request.into_parts();
            let writes: Vec<VersionWrite> = writes.into_vec().into_iter().map(version).collect();
            // The check is free on the leader, and cells that are never written need not be skipped by
            // readers.
            if let Role::Leading(leader) = inner.node.role() {
                leader.check(&claim)?;
            }
            for table in &claim.drops {
                Box::pin(inner.drop_table(context, *table, start)).await?;
                // A cell written by another transaction before C, and not there yet to be hidden, is a
                // conflict.
                claim.reads.ranges.push(KeyRange::table(*table));
            }
            if !writes.is_empty() {
                inner.write(context, &writes).await?;
            }
            // The leader does not list the cells of larger transactions, so the cache will be emptied
            // anyway.
            let are_kept =
                inner.cells.is_some() && writes.len() <= CHANGES_MAX && claim.drops.is_empty();
            let written = if are_kept { writes } else { Vec::new() };
            let request = LeaderRequest::Commit { client: inner.client, token, claim };
            let unknown = |error: Error| unknown(start, error);
            match inner.ask(context, &request).await {
                Ok(Response::Committed(commit)) => {
                    inner.saw(commit);
                    inner.keep_written(start, commit, written);
                    Ok(commit)
                }
                Ok(Response::Refused(error)) => Err(match error.kind() {
                    ErrorKind::Unavailable | ErrorKind::Timeout | ErrorKind::Corrupted => {
                        unknown(error)
                    }
                    _ => error,
                }),
                Ok(other) => Err(unknown(unexpected(&other))),
                Err(GaveUp) => Err(unknown(inner.unanswered(context))),
            }
        })
    }

    fn outcome<'a>(&'a self, context: &'a Context, start: Timestamp) -> Call<'a, Outcome> {
        Call::boxed(async move {
            self.inner.check(context)?;
            match self.inner.ask(context, &LeaderRequest::Outcome { start }).await {
                Ok(Response::Outcome(outcome)) => Ok(outcome),
                Ok(Response::Refused(error)) => Err(error),
                Ok(other) => Err(unexpected(&other)),
                Err(GaveUp) => Err(self.inner.unanswered(context)),
            }
        })
    }

    fn abort<'a>(&'a self, context: &'a Context, start: Timestamp) -> Call<'a, Outcome> {
        Call::boxed(async move {
            self.inner.check(context)?;
            match self.inner.ask(context, &LeaderRequest::Abort { start }).await {
                Ok(Response::Outcome(outcome)) => Ok(outcome),
                Ok(Response::Refused(error)) => Err(error),
                Ok(other) => Err(unexpected(&other)),
                Err(GaveUp) => Err(self.inner.unanswered(context)),
            }
        })
    }

    fn outcome_for_reader<'a>(
        &'a self,
        context: &'a Context,
        start: Timestamp,
        read: Timestamp,
    ) -> Call<'a, Outcome> {
        Call::boxed(async move {
            match self.inner.epoch_of(read) {
                Some(first) => self.inner.node.table().outcome_for_reader(start, read, first).await,
                None => self.outcome(context, start).await,
            }
        })
    }

    fn look_up_outcomes<'a>(
        &'a self,
        context: &'a Context,
        starts: &'a [Timestamp],
        read: Timestamp,
    ) -> Call<'a, ()> {
        // A leader that released the snapshot knows most outcomes, and other snapshots are rare.
        let Some(_) = self.inner.epoch_of(read) else { return Call::ready(Ok(())) };
        Call::boxed(async move {
            self.inner.check(context)?;
            self.inner.node.table().look_up_many(starts, read).await
        })
    }

    fn published(&self) -> Timestamp {
        let seen = self.inner.published.load(Ordering::Acquire);
        let seen = Timestamp::new(seen).expect("only timestamps are seen");
        match self.inner.node.role() {
            Role::Leading(leader) => seen.max(leader.published()),
            Role::Unknown | Role::Following(..) | Role::Stopped(_) => seen,
        }
    }
}
