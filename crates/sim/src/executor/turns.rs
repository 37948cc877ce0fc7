//! Processes events, one after the other.

use std::cell::RefCell;
use std::future::Future;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use carnet_base::sync::lock;
use carnet_base::{Rng, Step};

use super::clock::nanos;
use super::machine::Executor;
use super::process::Process;
use super::spawner::SpawnedWorker;
use super::state::{Event, WorkerSlot};

impl Executor {
    /// Runs until the future, a task of no process, completes.
    ///
    /// Returns `None` if no event is left, or there were more than `turns_max`: a task waits for
    /// ever.
    pub fn run<T: 'static>(
        &self,
        turns_max: u64,
        future: impl Future<Output = T> + 'static,
    ) -> Option<T> {
        let output = Rc::new(RefCell::new(None));
        let result = Rc::clone(&output);
        self.spawn(Process(u32::MAX), async move {
            let value = future.await;
            *result.borrow_mut() = Some(value);
        });
        for _ in 0..turns_max {
            if output.borrow().is_some() || !self.turn() {
                break;
            }
        }
        output.take()
    }

    /// Processes the next event; returns `false` if there is none.
    fn turn(&self) -> bool {
        self.adopt_spawned();
        let event = {
            let mut state = self.0.state.borrow_mut();
            let now = self.now_nanos();
            for number in std::mem::take(&mut *lock(&self.0.woken)) {
                state.poll_soon(now, number);
            }
            for (until, waker) in std::mem::take(&mut *lock(&self.0.sleepers)) {
                let at = (until, state.rng.next_u64());
                state.events.insert(at, Event::Wake(waker));
            }
            state.step_rung(now);
            loop {
                let Some(((at, _), event)) = state.events.pop_first() else { return false };
                match state.process_of(&event) {
                    // It was dropped, or its process was killed.
                    None => {}
                    Some(process) => {
                        let now = self.0.nanos.fetch_max(at, Ordering::Relaxed).max(at);
                        let event = state.unless_paused(process, now, event);
                        if let Some(event) = event.and_then(|event| state.on_processor(event)) {
                            break event;
                        }
                    }
                }
            }
        };
        self.0.state.borrow_mut().turns += 1;
        match event {
            Event::Wake(waker) => waker.wake(),
            Event::Poll(number) => self.poll(number),
            Event::Step(number) => self.step(number),
            Event::Release(_) => {}
        }
        true
    }

    /// Takes over the spawned workers and tasks.
    pub(super) fn adopt_spawned(&self) {
        for (process, task) in std::mem::take(&mut *lock(&self.0.sent)) {
            self.take_over(process, task);
        }
        let spawned = std::mem::take(&mut *lock(&self.0.spawned));
        let mut state = self.0.state.borrow_mut();
        for SpawnedWorker { process, name, signal, worker } in spawned {
            let number = state.number();
            let hand = WorkerSlot { process, name, signal, worker: Some(worker), due: None };
            state.workers.insert(number, hand);
            let at = self.now_nanos();
            state.step_at(number, at);
        }
    }

    fn poll(&self, number: u64) {
        let begun = self.now_nanos();
        let taken = {
            let mut state = self.0.state.borrow_mut();
            state.note(number);
            state.current = Some(number);
            let job = state.tasks.get_mut(&number);
            job.and_then(|job| {
                job.is_due = false;
                job.future.take().map(|future| (future, job.waker.clone(), job.process))
            })
        };
        let Some((mut future, waker, process)) = taken else { return };
        let polled = future.as_mut().poll(&mut Context::from_waker(&waker));
        self.end_poll(process, begun);
        let mut state = self.0.state.borrow_mut();
        let ended = match polled {
            Poll::Ready(()) => state.tasks.remove(&number),
            Poll::Pending => {
                if let Some(job) = state.tasks.get_mut(&number) {
                    job.future = Some(future);
                    return;
                }
                None
            }
        };
        drop(state);
        drop(ended);
    }

    /// Lets the time spent by a poll pass only for its processor, and for the tasks that it woke.
    fn end_poll(&self, process: Process, begun: u64) {
        self.0.state.borrow_mut().current = None;
        if !self.0.state.borrow().processors.contains_key(&process) {
            return;
        }
        self.adopt_spawned();
        let mut state = self.0.state.borrow_mut();
        let ended = self.now_nanos();
        for number in std::mem::take(&mut *lock(&self.0.woken)) {
            state.poll_soon(ended, number);
        }
        self.0.nanos.store(begun, Ordering::Relaxed);
        if let Some(processors) = state.processors.get_mut(&process) {
            processors.record(Duration::from_nanos(ended - begun));
        }
        let at = (ended, state.rng.next_u64());
        state.events.insert(at, Event::Release(process));
    }

    fn step(&self, number: u64) {
        let taken = {
            let mut state = self.0.state.borrow_mut();
            state.note(!number);
            let hand = state.workers.get_mut(&number);
            hand.and_then(|hand| {
                hand.due = None;
                let _ = hand.signal.take();
                hand.worker.take()
            })
        };
        let Some(mut worker) = taken else { return };
        let step = worker.step();
        let mut state = self.0.state.borrow_mut();
        let now = self.now_nanos();
        if step == Step::Done {
            let ended = state.workers.remove(&number);
            drop(state);
            drop((worker, ended));
            return;
        }
        if let Some(hand) = state.workers.get_mut(&number) {
            hand.worker = Some(worker);
        }
        match step {
            Step::Again => {
                let latency = state.latency();
                state.step_at(number, now + latency);
            }
            Step::Idle(Some(wait)) => state.step_at(number, now.saturating_add(nanos(wait))),
            Step::Idle(None) | Step::Done => {}
        }
    }
}
