//! Outcomes of transactions, as a leader knows or settles them.

use carnet_base::sync::lock;
use carnet_base::{CommitEntry, Error, ErrorKind, Result, Timestamp};
use carnet_store::cluster::Cluster;
use carnet_store::{Outcome, check_handed_out};

use super::state::Decided;
use super::term::Leader;
use crate::message::Response;
use crate::sweep::VersionOutcome;

impl<C: Cluster> Leader<C> {
    /// Returns the outcome of a version's transaction and makes it final.
    pub(crate) async fn version_outcome(&self, start: Timestamp) -> Result<VersionOutcome> {
        let latest = self.order.latest();
        let known = lock(&self.state).known_outcome(start, latest);
        match known {
            Some(outcome) => Ok(outcome),
            None => Ok(self.table.settle_for_reader(start).await?.into()),
        }
    }

    /// Settles a start that this term did not decide from the commit table; if there is no entry,
    /// the start is aborted for good. If the table cannot be read, the outcome is unknown.
    pub(super) async fn settled(&self, start: Timestamp) -> Result<Response> {
        // Boxed: the future is large and rarely needed, so commits should not carry it.
        let settled = Box::pin(self.table.settle(start)).await;
        answer_of(start, settled.map_err(|error| unknown(start, error))?)
    }

    /// Aborts a transaction of any process unless its commit was decided, and returns its outcome:
    /// pending if its commit is being written.
    ///
    /// The start is closed here first, so that this term decides no commit of it, and then the abort
    /// marker is put unless an entry exists. A later commit of its process finds the marker.
    pub(super) async fn abort(&self, start: Timestamp) -> Result<Outcome> {
        check_handed_out(&*self.order, start)?;
        {
            let mut state = lock(&self.state);
            match state.decided.get(&start) {
                Some(Decided::Pending(_)) => return Ok(Outcome::Pending),
                Some(Decided::Known(CommitEntry::Committed(commit))) => {
                    return Ok(Outcome::Committed(*commit));
                }
                Some(Decided::Known(CommitEntry::Aborted)) | None => {
                    state.clients.decided(start);
                }
            }
        }
        Ok(match Box::pin(self.table.settle(start)).await? {
            CommitEntry::Committed(commit) => Outcome::Committed(commit),
            CommitEntry::Aborted => Outcome::Aborted,
        })
    }

    pub(super) async fn outcome(&self, start: Timestamp) -> Result<Outcome> {
        check_handed_out(&*self.order, start)?;
        let known = {
            let state = lock(&self.state);
            match state.decided.get(&start) {
                Some(Decided::Pending(_)) => return Ok(Outcome::Pending),
                Some(Decided::Known(entry)) => Some(*entry),
                None if state.clients.is_open(start) => return Ok(Outcome::Pending),
                None => None,
            }
        };
        let entry = match known {
            Some(entry) => entry,
            None => Box::pin(self.table.settle(start)).await?,
        };
        Ok(match entry {
            CommitEntry::Committed(commit) => Outcome::Committed(commit),
            CommitEntry::Aborted => Outcome::Aborted,
        })
    }
}

/// Returns the error for an unknown outcome of a commit, with its reason.
pub(crate) fn unknown(start: Timestamp, why: Error) -> Error {
    if matches!(why.kind(), ErrorKind::Unknown { .. }) {
        return why;
    }
    let message = format!(
        "whether the transaction that started at {start} committed is not known; ask for its outcome"
    );
    Error::new(ErrorKind::Unknown { start }, message).with_source(why)
}

pub(super) fn answer_of(start: Timestamp, entry: CommitEntry) -> Result<Response> {
    match entry {
        CommitEntry::Committed(commit) => Ok(Response::Committed(commit)),
        CommitEntry::Aborted => Err(Error::conflict(format!(
            "the transaction that started at {start} was aborted: its leader changed, or it was \
             given up; nothing was written, run it again"
        ))),
    }
}
