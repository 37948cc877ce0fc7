//! Answers the requests of processes.

use std::sync::Arc;

use bytes::Bytes;
use carnet_base::sync::lock;
use carnet_base::{Error, Result};
use carnet_store::Claim;
use carnet_store::cluster::Cluster;

use super::state::Ended;
use super::term::Leader;
use crate::message::{ClientId, LeaderRequest, Response};

impl<C: Cluster> Leader<C> {
    /// Returns the error with which a transaction would be refused, as far as is known. If its
    /// start is not open here, nothing is known (I6): it may have committed, in this term or an
    /// older one.
    pub(crate) fn check(&self, claim: &Claim) -> Result<()> {
        let is_open = lock(&self.state).clients.is_open(claim.start);
        if is_open { self.order.check(claim) } else { Ok(()) }
    }

    /// Answers a request.
    pub(crate) async fn answer(self: Arc<Self>, request: LeaderRequest) -> Response {
        let answered = match request {
            LeaderRequest::Begin { client, token, kind, is_strict, known } => {
                self.begin(client, token, kind, is_strict, known).await
            }
            LeaderRequest::End { client, token } => {
                self.give_back(client, token);
                Ok(Response::Done)
            }
            LeaderRequest::Commit { client, token, claim } => {
                self.commit(client, token, claim).await
            }
            LeaderRequest::Outcome { start } => self.outcome(start).await.map(Response::Outcome),
            LeaderRequest::Abort { start } => self.abort(start).await.map(Response::Outcome),
            LeaderRequest::Alive { client, oldest } => {
                self.seen(client, oldest);
                Ok(Response::Done)
            }
            LeaderRequest::Announce { client, what } => self.announce(client, what),
            // The node answers it, whether it leads or not.
            LeaderRequest::Forward { .. } => Ok(Response::NotLeading),
        };
        let answer = answered.unwrap_or_else(Response::Refused);
        match &lock(&self.state).ended {
            Some(Ended::Deposed) => Response::NotLeading,
            Some(Ended::Broken(what)) => Response::Refused(Error::corrupted(what.clone())),
            None => answer,
        }
    }

    fn announce(&self, client: ClientId, what: Bytes) -> Result<Response> {
        let now = self.environment.timer.now();
        lock(&self.state).announcements.announce(client, what, now).map(Response::Members)
    }
}
