//! Both stores in memory, as inconvenient as a network can make them.
//!
//! * Nodes have two copies. A put reaches one at once and the other later; a get asks either.
//! * A request takes its time, and so does its answer: what was sent first may arrive last.
//! * A request is lost, or its answer is, or it arrives long after the caller was told that the
//!   time is up. The caller cannot tell these apart.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use carnet_base::{Bytes, Error, Moment, Result, Rng, SeededRng, Timer};

use crate::id::NodeId;
use crate::job::lock;
use crate::store::{NodeStore, RootPointer, Swap};

/// What goes wrong, and how often.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// A request and its answer each take a random time up to this.
    pub latency_max: Duration,
    /// The second copy of a node is there after a random time up to this.
    pub lateness_max: Duration,
    /// How many of 1000 requests are lost.
    pub lost_requests: u64,
    /// How many of 1000 answers are lost.
    pub lost_answers: u64,
    /// How many of 1000 requests arrive up to ten times [`Faults::timeout`] later.
    pub delayed_requests: u64,
    /// After this time the caller of a request without an answer gets an error.
    pub timeout: Duration,
}

/// Nodes and a root in memory. Clones share them.
#[derive(Clone)]
pub struct Memory(Arc<Shared>);

struct Shared {
    timer: Arc<dyn Timer>,
    state: Mutex<State>,
}

struct State {
    rng: SeededRng,
    faults: Faults,
    nodes: HashMap<NodeId, Copies>,
    root: Option<Bytes>,
    /// Requests that have not arrived yet.
    underway: BTreeMap<(Moment, u64), Request>,
    requests: u64,
    /// What the requests that arrived have done, until their callers ask.
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

/// What happens to one request.
struct Fate {
    number: u64,
    arrives: Option<Duration>,
    answer: Option<Duration>,
}

impl Memory {
    /// Makes an empty store without faults.
    #[must_use]
    pub fn new(timer: Arc<dyn Timer>, seed: u64) -> Self {
        let state = State {
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

    /// Sets what goes wrong from now on.
    pub fn set_faults(&self, faults: Faults) {
        lock(&self.0.state).faults = faults;
    }

    /// Returns how many nodes there are.
    #[must_use]
    pub fn node_count(&self) -> usize {
        lock(&self.0.state).nodes.len()
    }

    /// Returns the root as it is now.
    #[must_use]
    pub fn root(&self) -> Option<Bytes> {
        lock(&self.0.state).root.clone()
    }

    async fn call(&self, request: Request) -> Result<Reply> {
        let timer = &self.0.timer;
        let (fate, timeout) = {
            let mut state = lock(&self.0.state);
            let fate = state.fate();
            if let Some(arrives) = fate.arrives {
                let arrival = (timer.now().after(arrives), fate.number);
                state.underway.insert(arrival, request);
            }
            (fate, state.faults.timeout)
        };
        let (Some(arrives), Some(answer)) = (fate.arrives, fate.answer) else {
            timer.wait(timeout).await;
            return Err(Error::unavailable("no answer came in time"));
        };
        if !arrives.is_zero() {
            timer.wait(arrives).await;
        }
        let reply = {
            let mut state = lock(&self.0.state);
            state.arrive(timer.now());
            state.done.remove(&fate.number).expect("a request that arrived was done")
        };
        if !answer.is_zero() {
            timer.wait(answer).await;
        }
        reply
    }
}

impl State {
    fn fate(&mut self) -> Fate {
        self.requests += 1;
        let latency = |state: &mut Self| state.below(state.faults.latency_max);
        let mut fate = Fate {
            number: self.requests,
            arrives: Some(latency(self)),
            answer: Some(latency(self)),
        };
        if self.rng.chance(self.faults.lost_requests) {
            fate.arrives = None;
        } else if self.rng.chance(self.faults.lost_answers) {
            fate.answer = None;
        } else if self.rng.chance(self.faults.delayed_requests) {
            fate.arrives = Some(self.below(self.faults.timeout * 10));
            fate.answer = None;
        }
        fate
    }

    fn below(&mut self, limit: Duration) -> Duration {
        Duration::from_nanos(self.rng.below(u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX)))
    }

    /// Does what has arrived by now, in the order of arrival.
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
                    return Err(Error::corrupted(format!("node {id} is put twice, and differs")));
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

/// A reply of another kind than its request cannot be.
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
