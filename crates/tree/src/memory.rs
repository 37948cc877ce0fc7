//! Both stores in memory, with the faults of a network.
//!
//! * Nodes have two copies. A put reaches one at once and the other later; a get reads either.
//! * Requests and answers take random times, so requests may be reordered.
//! * A request or its answer is lost, or the request arrives long after the caller's timeout. The
//!   caller cannot distinguish these.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use carnet_base::sync::lock;
use carnet_base::{Bytes, Error, Moment, Result, Rng, SeededRng, Timer};

use crate::id::NodeId;
use crate::store::{NodeStore, RootPointer, Swap};

/// Faults and their frequencies.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// Maximum latency of a request and of an answer; each is random.
    pub latency_max: Duration,
    /// Maximum time until the second copy of a node is available.
    pub lateness_max: Duration,
    /// Lost requests per 1000.
    pub lost_requests: u64,
    /// Lost answers per 1000.
    pub lost_answers: u64,
    /// Requests per 1000 that arrive up to ten times [`Faults::timeout`] later.
    pub delayed_requests: u64,
    /// Time after which the caller of an unanswered request gets an error.
    pub timeout: Duration,
}

/// Nodes and a root in memory. Clones share them.
#[derive(Clone)]
pub struct Memory(Arc<Shared>);

struct Shared {
    timer: Arc<dyn Timer>,
    state: Mutex<MemoryState>,
}

struct MemoryState {
    rng: SeededRng,
    faults: Faults,
    nodes: HashMap<NodeId, Copies>,
    root: Option<Bytes>,
    /// Requests in flight.
    underway: BTreeMap<(Moment, u64), Request>,
    requests: u64,
    /// Results of arrived requests, until their callers take them.
    done: HashMap<u64, Result<Reply>>,
}

struct Copies {
    bytes: Bytes,
    since: [Moment; 2],
}

enum Request {
    Put(NodeId, Bytes),
    Get(NodeId),
    Read,
    Swap(Option<Bytes>, Bytes),
}

enum Reply {
    Put,
    Got(Option<Bytes>),
    Swapped(Swap),
}

/// Outcome of one request.
struct Outcome {
    number: u64,
    arrives: Option<Duration>,
    answer: Option<Duration>,
}

impl Memory {
    /// Makes an empty store without faults.
    #[must_use]
    pub fn new(timer: Arc<dyn Timer>, seed: u64) -> Self {
        let state = MemoryState {
            rng: SeededRng::new(seed),
            faults: Faults::default(),
            nodes: HashMap::new(),
            root: None,
            underway: BTreeMap::new(),
            requests: 0,
            done: HashMap::new(),
        };
        Self(Arc::new(Shared { timer, state: Mutex::new(state) }))
    }

    /// Sets the faults for later requests.
    pub fn set_faults(&self, faults: Faults) {
        lock(&self.0.state).faults = faults;
    }

    /// Returns the number of nodes.
    #[must_use]
    pub fn node_count(&self) -> usize {
        lock(&self.0.state).nodes.len()
    }

    /// Returns the current root.
    #[must_use]
    pub fn root(&self) -> Option<Bytes> {
        lock(&self.0.state).root.clone()
    }

    async fn call(&self, request: Request) -> Result<Reply> {
        let timer = &self.0.timer;
        let (outcome, timeout) = {
            let mut state = lock(&self.0.state);
            let outcome = state.outcome();
            if let Some(arrives) = outcome.arrives {
                let arrival = (timer.now().after(arrives), outcome.number);
                state.underway.insert(arrival, request);
            }
            (outcome, state.faults.timeout)
        };
        let (Some(arrives), Some(answer)) = (outcome.arrives, outcome.answer) else {
            timer.wait(timeout).await;
            return Err(Error::unavailable("the store did not answer in time"));
        };
        if !arrives.is_zero() {
            timer.wait(arrives).await;
        }
        let reply = {
            let mut state = lock(&self.0.state);
            state.arrive(timer.now());
            state.done.remove(&outcome.number).expect("each arrived request has a result")
        };
        if !answer.is_zero() {
            timer.wait(answer).await;
        }
        reply
    }
}

impl MemoryState {
    fn outcome(&mut self) -> Outcome {
        self.requests += 1;
        let latency = |state: &mut Self| state.below(state.faults.latency_max);
        let mut outcome = Outcome {
            number: self.requests,
            arrives: Some(latency(self)),
            answer: Some(latency(self)),
        };
        if self.rng.chance(self.faults.lost_requests) {
            outcome.arrives = None;
        } else if self.rng.chance(self.faults.lost_answers) {
            outcome.answer = None;
        } else if self.rng.chance(self.faults.delayed_requests) {
            outcome.arrives = Some(self.below(self.faults.timeout * 10));
            outcome.answer = None;
        }
        outcome
    }

    fn below(&mut self, limit: Duration) -> Duration {
        Duration::from_nanos(self.rng.below(u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX)))
    }

    /// Executes requests that have arrived, in the order of arrival.
    fn arrive(&mut self, now: Moment) {
        while let Some(first) = self.underway.first_entry()
            && first.key().0 <= now
        {
            let ((moment, number), request) = first.remove_entry();
            let reply = self.serve(request, moment);
            self.done.insert(number, reply);
        }
    }

    fn serve(&mut self, request: Request, now: Moment) -> Result<Reply> {
        Ok(match request {
            Request::Put(id, bytes) => {
                let mut since = [now, now.after(self.below(self.faults.lateness_max))];
                if self.rng.chance(500) {
                    since.swap(0, 1);
                }
                let copies =
                    self.nodes.entry(id).or_insert_with(|| Copies { bytes: bytes.clone(), since });
                if copies.bytes != bytes {
                    return Err(Error::corrupted(format!(
                        "node {id} was put twice with different bytes"
                    )));
                }
                Reply::Put
            }
            Request::Get(id) => {
                let copy = usize::from(self.rng.chance(500));
                let found = self.nodes.get(&id).filter(|copies| copies.since[copy] <= now);
                Reply::Got(found.map(|copies| copies.bytes.clone()))
            }
            Request::Read => Reply::Got(self.root.clone()),
            Request::Swap(from, to) => Reply::Swapped(if self.root == from {
                self.root = Some(to);
                Swap::Done
            } else {
                Swap::Mismatch
            }),
        })
    }
}

/// Makes the error for a reply of the wrong kind, which does not occur.
fn other() -> Error {
    Error::corrupted("the reply does not fit the request")
}

impl NodeStore for Memory {
    async fn put(&self, id: NodeId, bytes: Bytes) -> Result<()> {
        self.call(Request::Put(id, bytes)).await.map(drop)
    }

    async fn get(&self, id: NodeId) -> Result<Option<Bytes>> {
        match self.call(Request::Get(id)).await? {
            Reply::Got(found) => Ok(found),
            _ => Err(other()),
        }
    }
}

impl RootPointer for Memory {
    async fn read(&self) -> Result<Option<Bytes>> {
        match self.call(Request::Read).await? {
            Reply::Got(found) => Ok(found),
            _ => Err(other()),
        }
    }

    async fn compare_and_set(&self, from: Option<Bytes>, to: Bytes) -> Result<Swap> {
        match self.call(Request::Swap(from, to)).await? {
            Reply::Swapped(swap) => Ok(swap),
            _ => Err(other()),
        }
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Memory({} nodes)", self.node_count())
    }
}
