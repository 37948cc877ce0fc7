//! Where a process takes requests of others, as it is or with a rule of leaders broken.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use carnet_base::{Error, ErrorKind, Timestamp};
use carnet_sequencer::Handler;
use carnet_sequencer::message::{Changes, ClientId, Request, Response, Token};
use carnet_store::Claim;

use crate::mutant::Mutant;

/// The first timestamp of the term in which a process led last.
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

/// A process, for those who ask it.
pub(super) struct Desk {
    handler: Weak<dyn Handler>,
    term: Term,
    mutant: Option<Mutant>,
    /// The starts whose commit was asked for.
    asked: Mutex<BTreeSet<Timestamp>>,
}

impl Desk {
    /// Takes requests as long as somebody holds the handler.
    pub(super) fn of(handler: &Arc<dyn Handler>, term: Term, mutant: Option<Mutant>) -> Self {
        Self { handler: Arc::downgrade(handler), term, mutant, asked: Mutex::default() }
    }

    /// Answers a request; `None` where there is nobody any more.
    pub(super) async fn answer(&self, request: Request) -> Option<Response> {
        let handler = self.handler.upgrade()?;
        let breaks = match &request {
            Request::Commit { client, claim, .. } => self.breaks(&handler, *client, claim).await,
            _ => None,
        };
        let keeps_cells = matches!(request, Request::Begin { known: Some(_), .. });
        match breaks {
            None => Some(self.conceals(keeps_cells, handler.handle(request).await)),
            Some(error) => Some(Response::Refused(error)),
        }
    }

    /// Keeps back what a process that keeps cells should be told.
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

    /// What a leader says of a commit for which it should ask the commit table, or its memory.
    async fn breaks(
        &self,
        handler: &Arc<dyn Handler>,
        by: ClientId,
        claim: &Claim,
    ) -> Option<Error> {
        let start = claim.start;
        match self.mutant? {
            // Its rules begin with its term: whatever was read before is too old for them.
            Mutant::OlderStartsDecided if self.term.is_older(start) && leads(handler, by).await => {
                Some(Error::new(ErrorKind::TooOld, format!("start {start} is older than the term")))
            }
            // What it wrote the first time, it finds written since its snapshot.
            Mutant::DecidedTwice if !self.term.is_older(start) && leads(handler, by).await => {
                let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
                let is_first = asked.insert(start);
                (!is_first).then(|| Error::conflict(format!("start {start} meets itself")))
            }
            _ => None,
        }
    }
}

/// Asks a process whether it leads, by a sign of life of whoever asks it for more.
async fn leads(handler: &Arc<dyn Handler>, client: ClientId) -> bool {
    let alive = Request::Alive { client, oldest: Token::default() };
    matches!(Arc::clone(handler).handle(alive).await, Response::Done)
}
