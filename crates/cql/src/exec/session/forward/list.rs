//! Open transactions of the other servers.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use carnet::cluster::Address;
use carnet::{Bytes, Uuid};
use carnet_base::{Moment, concurrent};

use crate::exec::executor::Executor;
use crate::forward::{Answer, Caller, Request, Task};
use crate::result::Response;
use crate::system::{self, Cell};

/// Timeout for the answer of another server.
const TIMEOUT: Duration = Duration::from_secs(1);
/// Maximum number of servers that are asked at the same time.
const ASKED_MAX: usize = 64;

impl Executor {
    /// Returns the rows of open transactions of the other servers. The rows of a server that does
    /// not answer within a second, or before the deadline, are missing.
    pub(in crate::exec) async fn open_elsewhere(&self, deadline: Option<Moment>) -> Vec<Vec<Cell>> {
        if self.shared.db.forward_address().is_none() {
            return Vec::new();
        }
        let left = deadline.map_or(TIMEOUT, |deadline| deadline.since(self.shared.db.now()));
        let left = left.min(TIMEOUT);
        let (call, transaction) = (self.shared.forward.name(), Uuid::nil());
        let (caller, task) = (Caller::default(), Task::Transactions);
        let request = Request { call, transaction, caller, left: Some(left), task }.encode();
        let addresses = self.peers().iter().filter_map(|peer| peer.forward.clone()).collect();
        let asked = Vec::into_iter(addresses).map(|to| {
            let request = request.clone();
            async move { Ok::<_, Infallible>(self.ask(to, request, left).await) }
        });
        let Ok(found) = concurrent::join(asked, ASKED_MAX).await;
        found.into_iter().flatten().flatten().collect()
    }

    /// Asks a server for its open transactions; returns `None` if it does not answer in time.
    async fn ask(&self, to: Address, request: Bytes, left: Duration) -> Option<Vec<Vec<Cell>>> {
        let db = &self.shared.db;
        let mut asking = pin!(db.forward(&to, request));
        let mut limit = db.wait(left);
        let answer = poll_fn(|context| match asking.as_mut().poll(context) {
            Poll::Ready(answer) => Poll::Ready(Some(answer)),
            Poll::Pending => limit.as_mut().poll(context).map(|()| None),
        });
        let answer = answer.await?.ok()?.ok()?;
        match Answer::decode(answer).ok()? {
            Answer::Done { result: Ok(Response::Rows(rows)), .. } => {
                Some(system::rows_of_open_transactions(&rows))
            }
            // Servers of earlier versions refuse the request.
            Answer::Done { .. } | Answer::NotHeld | Answer::Refused(_) => None,
        }
    }
}
