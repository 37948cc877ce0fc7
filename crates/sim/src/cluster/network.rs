//! The network between processes: it loses, delays, repeats and reorders requests and answers.

use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Poll, Waker};
use std::time::Duration;

use carnet_base::sync::lock;
use carnet_base::{Tasks, Timer};
use carnet_sequencer::message::{LeaderRequest, Response};
use carnet_sequencer::{Address, Transport, Unanswered};

use super::endpoint::Endpoint;
use crate::executor::{Process, SimTasks, SimTimer};
use crate::random::Random;

/// Timeout for an answer.
const TIMEOUT: Duration = Duration::from_millis(30);

/// A network, as one process reaches it.
#[derive(Clone)]
pub(super) struct Network {
    shared: Arc<Mutex<NetworkState>>,
    timer: SimTimer,
    process: Process,
}

struct NetworkState {
    random: Random,
    /// Rate of lost messages, in thousandths.
    lost: u64,
    /// Rate of late messages, in hundredths.
    late: u64,
    listeners: BTreeMap<Address, Listener>,
    cut: BTreeSet<(Process, Process)>,
}

#[derive(Clone)]
struct Listener {
    process: Process,
    tasks: SimTasks,
    endpoint: Arc<Endpoint>,
}

/// Slot for an answer.
#[derive(Default)]
struct ReplySlot(Mutex<(Option<Response>, Option<Waker>)>);

impl ReplySlot {
    fn lock(&self) -> MutexGuard<'_, (Option<Response>, Option<Waker>)> {
        lock(&self.0)
    }

    fn put(&self, response: Response) {
        let waker = {
            let mut slot = self.lock();
            slot.0.get_or_insert(response);
            slot.1.take()
        };
        waker.into_iter().for_each(Waker::wake);
    }
}

impl Network {
    pub(super) fn new(random: Random, timer: SimTimer) -> Self {
        let (listeners, cut) = (BTreeMap::new(), BTreeSet::new());
        let state = NetworkState { random, lost: 0, late: 0, listeners, cut };
        Self { shared: Arc::new(Mutex::new(state)), timer, process: Process(0) }
    }

    /// Returns the network as another process reaches it.
    pub(super) fn seen_by(&self, process: Process) -> Self {
        Self { process, ..self.clone() }
    }

    /// Registers a process at an address.
    pub(super) fn listen(&self, address: Address, tasks: SimTasks, endpoint: Endpoint) {
        let listener = Listener { process: self.process, tasks, endpoint: Arc::new(endpoint) };
        self.lock().listeners.insert(address, listener);
    }

    pub(super) fn set_fault_rates(&self, lost: u64, late: u64) {
        let mut state = self.lock();
        (state.lost, state.late) = (lost, late);
    }

    /// Cuts the connection between two processes, in one direction.
    pub(super) fn cut(&self, from: Process, to: Process) {
        self.lock().cut.insert((from, to));
    }

    pub(super) fn heal(&self) {
        self.lock().cut.clear();
    }

    fn lock(&self) -> MutexGuard<'_, NetworkState> {
        lock(&self.shared)
    }

    /// Draws the latency of a message; `None` if it is lost.
    fn travel(&self, from: Process, to: Process) -> Option<Duration> {
        let mut state = self.lock();
        let (lost, late) = (state.lost, state.late);
        if state.random.below(1000) < lost || state.cut.contains(&(from, to)) {
            return None;
        }
        Some(if state.random.percent(late) {
            state.random.micros(1_000, 50_000)
        } else {
            state.random.micros(20, 300)
        })
    }

    fn deliver(&self, listener: &Listener, request: LeaderRequest, reply: Arc<ReplySlot>) {
        let Some(there) = self.travel(self.process, listener.process) else { return };
        let back = self.travel(listener.process, self.process);
        let (timer, endpoint) = (self.timer.clone(), Arc::clone(&listener.endpoint));
        listener.tasks.spawn(Box::pin(async move {
            timer.wait(there).await;
            let Some(response) = endpoint.answer(request).await else { return };
            if let Some(back) = back {
                timer.wait(back).await;
                reply.put(response);
            }
        }));
    }
}

impl Transport for Network {
    async fn call(&self, to: &Address, request: LeaderRequest) -> Result<Response, Unanswered> {
        let reply = Arc::new(ReplySlot::default());
        let (listener, repeats) = {
            let mut state = self.lock();
            (state.listeners.get(to).cloned(), state.random.percent(3))
        };
        if let Some(listener) = listener {
            if repeats {
                self.deliver(&listener, request.clone(), Arc::clone(&reply));
            }
            self.deliver(&listener, request, Arc::clone(&reply));
        }
        let mut timeout = self.timer.wait(TIMEOUT);
        poll_fn(|context| {
            let mut slot = reply.lock();
            if let Some(response) = slot.0.take() {
                return Poll::Ready(Ok(response));
            }
            slot.1 = Some(context.waker().clone());
            drop(slot);
            timeout.as_mut().poll(context).map(|()| Err(Unanswered::Lost))
        })
        .await
    }
}
