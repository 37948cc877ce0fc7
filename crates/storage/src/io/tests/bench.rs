//! Simulated device with a scheduler, in virtual time.

use std::collections::BTreeMap;
use std::time::Duration;

use carnet_base::{Moment, Rng, SeededRng};

use super::super::{Class, Config, Direction, Dispatch, Id, PIECE_BYTES, Request, Scheduler};
use crate::disk::sim::{Device, DeviceOptions};

#[derive(Clone, Copy)]
enum Event {
    Wake,
    Arrives { every: Duration },
    Done { id: Id, class: Class, bytes: usize, pushed: Moment },
    Change(fn(&mut Device, Moment)),
}

pub(super) struct Bench {
    pub(super) scheduler: Scheduler,
    pub(super) device: Device,
    pub(super) now: Moment,
    events: BTreeMap<(Moment, u64), Event>,
    numbers: u64,
    rng: SeededRng,
    /// Classes that always have a background request queued.
    endless: Vec<(Class, Direction)>,
    pushed: BTreeMap<Id, Moment>,
    /// Time and number of the next wake-up.
    wake: Option<(Moment, u64)>,
    flying: usize,
    /// Latencies of reads, including their time in the queue, with the time of their end.
    pub(super) reads: Vec<(Moment, Duration)>,
    pub(super) bytes: BTreeMap<Class, usize>,
    pub(super) largest_piece: usize,
    /// Time in which the device was idle while requests were queued.
    pub(super) wasted: Duration,
    pub(super) trace: u64,
}

impl Bench {
    pub(super) fn new(config: Config, options: DeviceOptions, seed: u64) -> Self {
        Self {
            scheduler: Scheduler::new(config),
            device: Device::new(options, seed),
            now: Moment::default(),
            events: BTreeMap::new(),
            numbers: 0,
            rng: SeededRng::new(seed),
            endless: Vec::new(),
            pushed: BTreeMap::new(),
            wake: None,
            flying: 0,
            reads: Vec::new(),
            bytes: BTreeMap::new(),
            largest_piece: 0,
            wasted: Duration::ZERO,
            trace: seed,
        }
    }

    /// Reads of 4 KiB arrive at random, at this rate per second.
    pub(super) fn reads_per_second(&mut self, reads: u32) {
        let every = Duration::from_secs(1) / reads;
        self.at(self.now, Event::Arrives { every });
    }

    /// Keeps a class busy without end.
    pub(super) fn endless(&mut self, class: Class, direction: Direction) {
        self.endless.push((class, direction));
        self.push_endless(class, direction);
    }

    pub(super) fn change(&mut self, after: Duration, change: fn(&mut Device, Moment)) {
        self.at(self.now.after(after), Event::Change(change));
    }

    pub(super) fn run(&mut self, time: Duration) {
        let until = self.now.after(time);
        self.pump();
        while let Some(entry) = self.events.first_entry()
            && entry.key().0 <= until
        {
            let ((at, _), event) = entry.remove_entry();
            if self.flying == 0 && self.scheduler.queued().iter().sum::<usize>() > 0 {
                self.wasted += at.since(self.now);
            }
            self.now = at;
            self.handle(event);
            self.pump();
        }
        self.now = until;
    }

    /// Returns the 99th percentile of reads that ended within a time range.
    pub(super) fn p99(&self, from: Duration, to: Duration) -> Duration {
        let within = self.reads.iter().filter(|(end, _)| (from..to).contains(&end.0));
        let mut latencies: Vec<_> = within.map(|(_, latency)| *latency).collect();
        latencies.sort_unstable();
        latencies[latencies.len() * 99 / 100]
    }

    /// Returns the bytes of a class per second of the whole run.
    pub(super) fn rate(&self, class: Class) -> f64 {
        self.bytes.get(&class).copied().unwrap_or(0) as f64 / self.now.0.as_secs_f64()
    }

    fn at(&mut self, moment: Moment, event: Event) {
        self.numbers += 1;
        self.events.insert((moment, self.numbers), event);
    }

    fn note(&mut self, what: u64) {
        self.trace = (self.trace ^ what).wrapping_mul(0x0100_0000_01b3).rotate_left(17);
    }

    fn push(&mut self, class: Class, direction: Direction, bytes: usize) {
        let request = Request { direction, bytes, deadline: self.now, splits: true };
        let id = self.scheduler.push(class, request, self.now);
        self.pushed.insert(id, self.now);
    }

    fn push_endless(&mut self, class: Class, direction: Direction) {
        for _ in 0..2 {
            self.push(class, direction, 1 << 20);
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Wake => self.wake = None,
            Event::Change(change) => change(&mut self.device, self.now),
            Event::Arrives { every } => {
                self.push(Class::Read, Direction::Read, 4096);
                let wait = every * u32::try_from(self.rng.below(2001)).unwrap() / 1000;
                self.at(self.now.after(wait), Event::Arrives { every });
            }
            Event::Done { id, class, bytes, pushed } => {
                self.flying -= 1;
                self.scheduler.complete(id, self.now).expect("it was in the device");
                *self.bytes.entry(class).or_default() += bytes;
                if class == Class::Read {
                    self.reads.push((self.now, self.now.since(pushed)));
                }
            }
        }
    }

    fn pump(&mut self) {
        loop {
            match self.scheduler.pop(self.now) {
                Dispatch::Idle => return,
                Dispatch::WaitUntil(at) => {
                    assert!(at > self.now, "it waits for what has passed");
                    if let Some(wake) = self.wake.take() {
                        self.events.remove(&wake);
                    }
                    self.at(at, Event::Wake);
                    self.wake = Some((at, self.numbers));
                    return;
                }
                Dispatch::Piece(piece) => {
                    let bytes = piece.bytes.len();
                    let direction = match piece.class {
                        Class::Flush => Direction::Write,
                        class => self
                            .endless
                            .iter()
                            .find(|(endless, _)| *endless == class)
                            .map_or(Direction::Read, |(_, direction)| *direction),
                    };
                    let done = self.device.begin(direction, bytes, self.now);
                    let nanos = u64::try_from(done.0.as_nanos()).unwrap();
                    self.note(nanos ^ piece.id.0);
                    if piece.class != Class::Read {
                        self.largest_piece = self.largest_piece.max(bytes);
                        assert!(bytes <= PIECE_BYTES);
                    }
                    let pushed = self.pushed[&piece.id];
                    self.flying += 1;
                    let (id, class) = (piece.id, piece.class);
                    self.at(done, Event::Done { id, class, bytes, pushed });
                    if piece.is_last {
                        self.pushed.remove(&id);
                        if let Some((class, direction)) =
                            self.endless.iter().find(|(endless, _)| *endless == class).copied()
                        {
                            self.push(class, direction, 1 << 20);
                        }
                    }
                }
            }
        }
    }
}
