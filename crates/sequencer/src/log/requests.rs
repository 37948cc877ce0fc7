//! Sends requests to the leader.

use std::time::Duration;

use carnet_base::{Error, ErrorKind, Moment, Result};
use carnet_store::Context;
use carnet_store::cluster::Cluster;

use super::inner::Inner;
use crate::futures::{First, first};
use crate::leader::unknown;
use crate::message::{LeaderRequest, Response};
use crate::node::Role;
use crate::transport::Transport;

/// Delay before a leader is looked for again.
pub(super) const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// No leader answered in time.
pub(super) struct GaveUp;

impl<C: Cluster, T: Transport> Inner<C, T> {
    /// Sends a request to the leader, and to its successors, until one answers.
    pub(super) async fn ask(
        &self,
        context: &Context,
        request: &LeaderRequest,
    ) -> Result<Response, GaveUp> {
        let timeout = self.now().after(self.node.options().leader_timeout);
        let until = context.deadline().map_or(timeout, |deadline| deadline.min(timeout));
        let mut is_again = false;
        loop {
            let notified = self.node.changed().count();
            if let Role::Stopped(why) = self.node.role() {
                let message = format!("this process stopped: {why}");
                return Ok(Response::Refused(Error::corrupted(message)));
            }
            match self.ask_once(request, until, notified).await {
                Some(Response::NotLeading) | None => is_again = true,
                Some(Response::Refused(error)) if is_again => {
                    return Ok(Response::Refused(refused_again(request, error)));
                }
                Some(answer) => return Ok(answer),
            }
            if self.now() >= until {
                return Err(GaveUp);
            }
            self.node.look();
            let changed = self.node.changed().notified_after(notified);
            first(changed, self.node.environment().timer.wait(LOOK_AGAIN)).await;
        }
    }

    /// Sends a request to the leader once. The wait ends early when the role changes, that is, when
    /// its notification count exceeds `notified`.
    pub(super) async fn ask_once(
        &self,
        request: &LeaderRequest,
        until: Moment,
        notified: u64,
    ) -> Option<Response> {
        let left = until.since(self.now());
        let over = |wait| async move {
            let changed = self.node.changed().notified_after(notified);
            first(self.node.environment().timer.wait(wait), changed).await;
        };
        let answered = match self.node.role() {
            Role::Unknown | Role::Stopped(_) => return None,
            Role::Leading(leader) => first(leader.answer(request.clone()), over(left)).await,
            Role::Following(address, _) => {
                let call = async {
                    let called = self.transport.call(&address, request.clone()).await;
                    called.unwrap_or(Response::NotLeading)
                };
                first(call, over(left.min(self.node.options().call_timeout))).await
            }
        };
        match answered {
            First::Left(answer) => Some(answer),
            First::Right(()) => None,
        }
    }

    /// Returns the error of a request that no leader answered within the leader's timeout, or before the deadline of
    /// its statement, which says nothing about the cluster.
    pub(super) fn unanswered(&self, context: &Context) -> Error {
        match context.deadline() {
            Some(deadline) if self.now() >= deadline => {
                Error::new(ErrorKind::Timeout, "the deadline passed before a leader answered")
            }
            _ => self.no_leader(),
        }
    }

    pub(super) fn no_leader(&self) -> Error {
        let why = match self.node.role() {
            Role::Following(address, _) => format!("{address} leads and cannot be reached"),
            Role::Unknown | Role::Leading(_) | Role::Stopped(_) => {
                "the cluster cannot be reached, or its lease is being taken over".into()
            }
        };
        let timeout = self.node.options().leader_timeout;
        Error::unavailable(format!("no leader answered within {timeout:?}: {why}"))
    }
}

/// Returns the error for a request that does not fit the wire: it is invalid, and was not sent. But
/// a commit may be in flight nevertheless, from an earlier try while this process led itself.
fn refused_again(request: &LeaderRequest, why: Error) -> Error {
    match request {
        LeaderRequest::Commit { claim, .. } if why.kind() == ErrorKind::Invalid => {
            unknown(claim.start, why)
        }
        _ => why,
    }
}

pub(super) fn unexpected(response: &Response) -> Error {
    Error::unavailable(format!("the leader gave an answer of the wrong kind: {response:?}"))
}
