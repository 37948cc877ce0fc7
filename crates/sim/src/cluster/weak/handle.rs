//! The cluster, as one process reaches it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use carnet_base::sync::lock;
use carnet_base::{CommitEntry, Timer, Timestamp};
use carnet_store::cluster::{Fault, Faulty};

use super::fault_rates::FaultRates;
use super::replica::{Blind, Replica};
use super::state::{QUORUM, REPLICAS, Round, TIMEOUT, WeakState};
use crate::cluster::agreed::{Agreed, Doubt, Partition};
use crate::executor::{Process, SimTimer};
use crate::random::Random;

/// A cluster, as one process reaches it. Clones for other processes share it.
#[derive(Clone)]
pub(crate) struct WeakCluster {
    shared: Arc<Mutex<WeakState>>,
    timer: SimTimer,
    pub(super) process: Process,
}

impl WeakCluster {
    pub(crate) fn new(mut random: Random, timer: SimTimer, forgets: bool) -> Self {
        let state = WeakState {
            agreed: Agreed::default(),
            fault_rates: FaultRates::default(),
            replicas: std::array::from_fn(|_| Replica::default()),
            arrivals: BTreeMap::new(),
            sent: random.below(2),
            collected: BTreeMap::new(),
            swept: BTreeMap::new(),
            forgets,
            cut: BTreeSet::new(),
            down: BTreeSet::new(),
            random,
        };
        Self { shared: Arc::new(Mutex::new(state)), timer, process: Process(0) }
    }

    /// Returns the cluster as another process reaches it.
    pub(crate) fn seen_by(&self, process: Process) -> Self {
        Self { process, ..self.clone() }
    }

    pub(crate) fn set_fault_rates(&self, fault_rates: FaultRates) {
        self.lock().fault_rates = fault_rates;
    }

    /// Cuts a process off from a replica.
    pub(crate) fn cut(&self, process: Process, replica: usize) {
        self.lock().cut.insert((process, replica % REPLICAS));
    }

    /// Takes a replica down: messages to it are lost.
    pub(crate) fn take_down(&self, replica: usize) {
        self.lock().down.insert(replica % REPLICAS);
    }

    /// Ends all cuts and outages.
    pub(crate) fn heal(&self) {
        let mut state = self.lock();
        state.cut.clear();
        state.down.clear();
    }

    pub(super) fn now(&self) -> Duration {
        self.timer.now().0
    }

    /// Locks the cluster, and advances it to the current time.
    pub(super) fn lock(&self) -> MutexGuard<'_, WeakState> {
        let now = self.now();
        let mut state = lock(&self.shared);
        state.advance(now);
        state
    }

    pub(super) async fn wait(&self) {
        let delay = self.lock().delay();
        self.timer.wait(delay).await;
    }

    /// Returns the value of a swept entry.
    pub(crate) fn swept(&self, start: Timestamp) -> Option<CommitEntry> {
        self.lock().swept.get(&start).copied()
    }

    pub(super) async fn blind(&self, what: &str, message: Blind) -> Faulty<()> {
        self.blind_at(what, message, QUORUM).await
    }

    pub(super) async fn blind_at(&self, what: &str, message: Blind, awaited: usize) -> Faulty<()> {
        let now = self.now();
        let sent = self.lock().send(self.process, now, &message, awaited);
        if let Some(at) = sent {
            self.timer.wait(at.saturating_sub(now)).await;
            return Ok(());
        }
        self.timer.wait(TIMEOUT).await;
        Err(Fault::timed_out(what))
    }

    pub(super) async fn read<T>(
        &self,
        read: impl FnOnce(&mut WeakState, [usize; QUORUM]) -> T,
    ) -> Faulty<T> {
        self.wait().await;
        let result = {
            let mut state = self.lock();
            let quorum = state.quorum(self.process);
            quorum.map(|quorum| read(&mut state, quorum))
        };
        if result.is_some() {
            self.wait().await;
        } else {
            self.timer.wait(TIMEOUT).await;
        }
        result.ok_or_else(|| Fault::timed_out("a read"))
    }

    /// Runs a round on a partition. From the agreed value, `decide` computes the next value, if
    /// any, and the answer.
    pub(super) async fn round<P: Partition, T>(
        &self,
        name: &P::Name,
        decide: impl FnOnce(&P) -> (Option<P>, T),
    ) -> Faulty<T> {
        self.wait().await;
        let now = self.now();
        let answer = {
            let state = &mut *self.lock();
            let round = state.draw_round(self.process);
            let ends = state.random.micros(500, 50_000);
            let replica = state.random.count(0, REPLICAS - 1);
            match round {
                Round::Failed => Some(Err(Fault::failed("the round was not begun"))),
                Round::Nothing => None,
                Round::Agreed { is_answered } => {
                    let agreed = P::all_mut(&mut state.agreed).entry(name.clone()).or_default();
                    let passed = agreed.settle(&mut state.random).filter(|_| state.forgets);
                    let (next, answer) = decide(&agreed.value);
                    agreed.agree(next, passed);
                    is_answered.then_some(Ok(answer))
                }
                Round::Doubt => {
                    let agreed = P::all_mut(&mut state.agreed).entry(name.clone()).or_default();
                    // Its first half is a round like any other.
                    let passed = agreed.settle(&mut state.random).filter(|_| state.forgets);
                    agreed.agree(None, passed);
                    if let (Some(value), _) = decide(&agreed.value) {
                        let ends = state.random.percent(30).then_some(now + ends);
                        agreed.doubt = Some(Doubt { value, replica, ends });
                    }
                    None
                }
            }
        };
        match answer {
            Some(answer) => {
                self.wait().await;
                answer
            }
            None => {
                self.timer.wait(TIMEOUT).await;
                Err(Fault::timed_out("a conditional write"))
            }
        }
    }
}
