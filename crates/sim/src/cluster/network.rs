//! The network between processes: it loses, delays, repeats and reorders requests and answers.

use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

use carnet_base::{Tasks, Timer};
use carnet_sequencer::message::{Request, Response};
use carnet_sequencer::{Address, Transport, Unanswered};

use super::desk::Desk;
use crate::dice::Dice;
use crate::executor::{Process, SimTasks, SimTimer};

/// After so long nobody waits for an answer.
const TIMEOUT: Duration = Duration::from_millis(30);

/// A network, as one process reaches it.
#[derive(Clone)]
pub(super) struct Network {
    shared: Arc<Mutex<State>>,
    timer: SimTimer,
    process: Process,
}

struct State {
    dice: Dice,
    /// Of messages that are lost, in parts of a thousand.
    lost: u64,
    /// Of those that come late, in parts of a hundred.
    late: u64,
    stations: BTreeMap<Address, Station>,
    cut: BTreeSet<(Process, Process)>,
}

#[derive(Clone)]
struct Station {
    process: Process,
    tasks: SimTasks,
    desk: Arc<Desk>,
}

/// Where an answer is laid down.
#[derive(Default)]
struct Letterbox(Mutex<(Option<Response>, Option<Waker>)>);

impl Letterbox {
    fn lock(&self) -> MutexGuard<'_, (Option<Response>, Option<Waker>)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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
    pub(super) fn new(dice: Dice, timer: SimTimer) -> Self {
        let (stations, cut) = (BTreeMap::new(), BTreeSet::new());
        let state = State { dice, lost: 0, late: 0, stations, cut };
        Self { shared: Arc::new(Mutex::new(state)), timer, process: Process(0) }
    }

    /// Returns the network as another process reaches it.
    pub(super) fn seen_by(&self, process: Process) -> Self {
        Self { process, ..self.clone() }
    }

    /// Has a process answer at an address.
    pub(super) fn listen(&self, address: Address, tasks: SimTasks, desk: Desk) {
        let station = Station { process: self.process, tasks, desk: Arc::new(desk) };
        self.lock().stations.insert(address, station);
    }

    pub(super) fn set_weather(&self, lost: u64, late: u64) {
        let mut state = self.lock();
        (state.lost, state.late) = (lost, late);
    }

    /// Cuts two processes off from each other, in one direction.
    pub(super) fn cut(&self, from: Process, to: Process) {
        self.lock().cut.insert((from, to));
    }

    pub(super) fn heal(&self) {
        self.lock().cut.clear();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Draws how long a message takes; `None` where it is lost.
    fn travel(&self, from: Process, to: Process) -> Option<Duration> {
        let mut state = self.lock();
        let (lost, late) = (state.lost, state.late);
        if state.dice.below(1000) < lost || state.cut.contains(&(from, to)) {
            return None;
        }
        Some(if state.dice.percent(late) {
            state.dice.micros(1_000, 50_000)
        } else {
            state.dice.micros(20, 300)
        })
    }

    fn deliver(&self, station: &Station, request: Request, letterbox: Arc<Letterbox>) {
        let Some(there) = self.travel(self.process, station.process) else { return };
        let back = self.travel(station.process, self.process);
        let (timer, desk) = (self.timer.clone(), Arc::clone(&station.desk));
        station.tasks.spawn(Box::pin(async move {
            timer.wait(there).await;
            let Some(response) = desk.answer(request).await else { return };
            if let Some(back) = back {
                timer.wait(back).await;
                letterbox.put(response);
            }
        }));
    }
}

impl Transport for Network {
    async fn call(&self, to: &Address, request: Request) -> Result<Response, Unanswered> {
        let letterbox = Arc::new(Letterbox::default());
        let (station, repeats) = {
            let mut state = self.lock();
            (state.stations.get(to).cloned(), state.dice.percent(3))
        };
        if let Some(station) = station {
            if repeats {
                self.deliver(&station, request.clone(), Arc::clone(&letterbox));
            }
            self.deliver(&station, request, Arc::clone(&letterbox));
        }
        let mut timeout = self.timer.wait(TIMEOUT);
        poll_fn(|context| {
            let mut slot = letterbox.lock();
            if let Some(response) = slot.0.take() {
                return Poll::Ready(Ok(response));
            }
            slot.1 = Some(context.waker().clone());
            drop(slot);
            timeout.as_mut().poll(context).map(|()| Err(Unanswered))
        })
        .await
    }
}
