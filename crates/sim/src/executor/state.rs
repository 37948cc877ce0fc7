//! The events, tasks and workers of the machine, and the decision which comes next.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::task::Waker;

use carnet_base::{Rng, SeededRng, Signal, Worker};

use super::process::Process;
use crate::processors::{Priority, Processors};

pub(super) type Local = Pin<Box<dyn Future<Output = ()>>>;

pub(super) struct MachineState {
    pub(super) rng: SeededRng,
    /// Events by moment; events of the same moment are ordered by the second, random number.
    pub(super) events: BTreeMap<(u64, u64), Event>,
    pub(super) tasks: BTreeMap<u64, Job>,
    pub(super) workers: BTreeMap<u64, WorkerSlot>,
    pub(super) paused: BTreeMap<Process, u64>,
    pub(super) processors: BTreeMap<Process, Processors>,
    /// The task being polled.
    pub(super) current: Option<u64>,
    pub(super) numbers: u64,
    pub(super) trace: u64,
    pub(super) turns: u64,
}

pub(super) enum Event {
    Poll(u64),
    /// A processor has completed a poll.
    Release(Process),
    Step(u64),
    Wake(Waker),
}

pub(super) struct Job {
    pub(super) process: Process,
    /// Taken while it is polled.
    pub(super) future: Option<Local>,
    pub(super) waker: Waker,
    /// Whether a poll is among the events.
    pub(super) is_due: bool,
    pub(super) priority: Priority,
}

pub(super) struct WorkerSlot {
    pub(super) process: Process,
    pub(super) name: String,
    pub(super) signal: Signal,
    /// Taken while it is stepped.
    pub(super) worker: Option<Box<dyn Worker>>,
    pub(super) due: Option<(u64, u64)>,
}

impl MachineState {
    pub(super) fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    pub(super) fn note(&mut self, what: u64) {
        // One round of SplitMix64 each: cheap, and it mixes all bits.
        self.trace = SeededRng::new(self.trace ^ what).next_u64();
    }

    /// Draws the latency of a wake-up.
    pub(super) fn latency(&mut self) -> u64 {
        match self.rng.below(100) {
            0..70 => self.rng.below(2_000),
            70..98 => self.rng.below(50_000),
            _ => self.rng.below(2_000_000),
        }
    }

    /// Draws the latency of a task's wake-up. With processors, waiting for one comes in addition.
    fn latency_of(&mut self, number: u64) -> u64 {
        let process = self.tasks.get(&number).map(|job| job.process);
        match process.filter(|process| self.processors.contains_key(process)) {
            Some(_) => self.rng.below(2_000),
            None => self.latency(),
        }
    }

    pub(super) fn poll_soon(&mut self, now: u64, number: u64) {
        let at = (now + self.latency_of(number), self.rng.next_u64());
        if let Some(job) = self.tasks.get_mut(&number)
            && !std::mem::replace(&mut job.is_due, true)
        {
            self.events.insert(at, Event::Poll(number));
        }
    }

    pub(super) fn step_at(&mut self, number: u64, moment: u64) {
        let at = (moment, self.rng.next_u64());
        if let Some(hand) = self.workers.get_mut(&number) {
            if let Some(due) = hand.due.replace(at) {
                self.events.remove(&due);
            }
            self.events.insert(at, Event::Step(number));
        }
    }

    /// Schedules the workers whose signals rang.
    pub(super) fn step_rung(&mut self, now: u64) {
        let rung: Vec<u64> = self
            .workers
            .iter()
            .filter(|(_, hand)| hand.signal.take())
            .map(|(number, _)| *number)
            .collect();
        for number in rung {
            let soon = now + self.latency();
            let due = self.workers.get(&number).and_then(|hand| hand.due);
            if due.is_none_or(|(due, _)| due > soon) {
                self.step_at(number, soon);
            }
        }
    }

    /// Returns the process of an event; a sleeper's is that of the machine. `None` if it no longer
    /// exists.
    pub(super) fn process_of(&self, event: &Event) -> Option<Process> {
        match event {
            Event::Wake(_) => Some(Process(u32::MAX)),
            Event::Poll(number) => self.tasks.get(number).map(|job| job.process),
            Event::Step(number) => self.workers.get(number).map(|hand| hand.process),
            Event::Release(process) => Some(*process),
        }
    }

    /// Returns the event if it needs no processor or there is a free one; a poll waits otherwise.
    pub(super) fn on_processor(&mut self, event: Event) -> Option<Event> {
        match event {
            Event::Poll(number) => {
                let job = self.tasks.get(&number)?;
                let processors = self.processors.get_mut(&job.process);
                processors.is_none_or(|all| all.ask(number, job.priority)).then_some(event)
            }
            Event::Release(process) => {
                let processors = self.processors.get_mut(&process)?;
                while let Some(next) = processors.release() {
                    // It may have been killed while it waited.
                    if self.tasks.contains_key(&next) {
                        return Some(Event::Poll(next));
                    }
                }
                Some(event)
            }
            Event::Step(_) | Event::Wake(_) => Some(event),
        }
    }

    /// Postpones an event if its process is paused.
    pub(super) fn unless_paused(
        &mut self,
        process: Process,
        now: u64,
        event: Event,
    ) -> Option<Event> {
        let Some(&until) = self.paused.get(&process).filter(|until| **until > now) else {
            return Some(event);
        };
        let at = (until, self.rng.next_u64());
        if let Event::Step(number) = event
            && let Some(hand) = self.workers.get_mut(&number)
        {
            hand.due = Some(at);
        }
        self.events.insert(at, event);
        None
    }
}
