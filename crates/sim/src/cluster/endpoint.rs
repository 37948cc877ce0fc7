//! The server's side of a process, correct or with a broken rule of leaders.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};

use carnet_base::sync::lock;
use carnet_base::{Error, ErrorKind, Timestamp};
use carnet_sequencer::Handler;
use carnet_sequencer::message::{Changes, ClientId, LeaderRequest, Response, Token};
use carnet_store::Claim;

use crate::mutant::Mutant;

/// First timestamp of the last term in which a process led.
#[derive(Clone, Default)]
pub(super) struct Term(Arc<AtomicU64>);

impl Term {
    pub(super) fn begin(&self, first: Timestamp) {
        self.0.store(first.get(), Ordering::Relaxed);
    }

    fn is_older(&self, start: Timestamp) -> bool {
        start.get() < self.0.load(Ordering::Relaxed)
    }
}

/// A process, as its clients see it.
pub(super) struct Endpoint {
    handler: Weak<dyn Handler>,
    term: Term,
    mutant: Option<Mutant>,
    /// Starts whose commit was requested.
    asked: Mutex<BTreeSet<Timestamp>>,
}

impl Endpoint {
    /// Creates the server's side of a process; it lives as long as the handler.
    pub(super) fn new(handler: &Arc<dyn Handler>, term: Term, mutant: Option<Mutant>) -> Self {
        Self { handler: Arc::downgrade(handler), term, mutant, asked: Mutex::default() }
    }

    /// Answers a request; `None` if the process is gone.
    pub(super) async fn answer(&self, request: LeaderRequest) -> Option<Response> {
        let handler = self.handler.upgrade()?;
        let breaks = match &request {
            LeaderRequest::Commit { client, claim, .. } => {
                self.breaks(&handler, *client, claim).await
            }
            _ => None,
        };
        let keeps_cells = matches!(request, LeaderRequest::Begin { known: Some(_), .. });
        match breaks {
            None => Some(self.conceals(keeps_cells, handler.handle(request).await)),
            Some(error) => Some(Response::Refused(error)),
        }
    }

    /// Hides changes from a process with a cell cache.
    fn conceals(&self, keeps_cells: bool, response: Response) -> Response {
        match (self.mutant, response) {
            (Some(Mutant::ChangesUntold), Response::Released(released, Changes::Cells(_))) => {
                Response::Released(released, Changes::Cells(Vec::new()))
            }
            (Some(Mutant::ChangesGuessed), Response::Released(released, Changes::Unknown))
                if keeps_cells =>
            {
                Response::Released(released, Changes::Cells(Vec::new()))
            }
            (_, response) => response,
        }
    }

    /// Returns the answer to a commit for which a correct leader reads the commit table, or its
    /// memory.
    async fn breaks(
        &self,
        handler: &Arc<dyn Handler>,
        by: ClientId,
        claim: &Claim,
    ) -> Option<Error> {
        let start = claim.start;
        match self.mutant? {
            // Its rules begin with its term: every earlier snapshot is too old for them.
            Mutant::OlderStartsDecided if self.term.is_older(start) && leads(handler, by).await => {
                Some(Error::new(ErrorKind::TooOld, format!("start {start} is older than the term")))
            }
            // The transaction conflicts with its own first commit.
            Mutant::DecidedTwice if !self.term.is_older(start) && leads(handler, by).await => {
                let mut asked = lock(&self.asked);
                let is_first = asked.insert(start);
                (!is_first).then(|| Error::conflict(format!("start {start} meets itself")))
            }
            _ => None,
        }
    }
}

/// Asks a process whether it leads, by a keep-alive of the client.
async fn leads(handler: &Arc<dyn Handler>, client: ClientId) -> bool {
    let alive = LeaderRequest::Alive { client, oldest: Token::default() };
    matches!(Arc::clone(handler).handle(alive).await, Response::Done)
}
