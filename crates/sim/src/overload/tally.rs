//! The outcomes of requests, and the invariants of every moment.

use std::collections::BTreeSet;
use std::time::Duration;

use carnet_admission::{Figures, GateLimits};
use carnet_base::Moment;

use super::request::SimRequest;
use super::setup::{BATCH, LEVELS};

/// Maximum latency of a good answer.
const GOOD_WITHIN: Duration = Duration::from_millis(150);

/// Outcome reported to a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Done,
    Shed,
    TimedOut,
    Failed,
}

/// A request and its answers.
struct Entry {
    level: usize,
    due: Moment,
    connection: u64,
    answers: Vec<(Outcome, Moment)>,
}

/// A part of the run with a constant load.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub(super) from: Moment,
    pub(super) to: Moment,
    /// Processor time used by each level.
    pub(super) used: [Duration; LEVELS],
}

/// All counts of a run.
#[derive(Default)]
pub(super) struct Tally {
    entries: Vec<Entry>,
    /// Connections whose clients disconnected.
    closed: BTreeSet<u64>,
    /// Permits held by statements.
    held: [usize; LEVELS],
    /// Processor time used by statements of each level.
    used: [Duration; LEVELS],
    /// Processor time used after deadlines.
    wasted: Duration,
    violation: Option<String>,
}

impl Tally {
    /// Records a request; returns its number.
    pub(super) fn begin(&mut self, level: usize, due: Moment, connection: u64) -> usize {
        self.entries.push(Entry { level, due, connection, answers: Vec::new() });
        self.entries.len() - 1
    }

    pub(super) fn answer(&mut self, number: usize, outcome: Outcome, now: Moment) {
        self.entries[number].answers.push((outcome, now));
    }

    pub(super) fn close(&mut self, connection: u64) {
        self.closed.insert(connection);
    }

    pub(super) const fn count_held(&mut self, level: usize, is_begin: bool) {
        let held = &mut self.held[level];
        *held = if is_begin { *held + 1 } else { *held - 1 };
    }

    pub(super) fn count_use(&mut self, request: &SimRequest, took: Duration, now: Moment) {
        self.used[request.level] += took;
        if let Some(deadline) = request.deadline {
            self.wasted += took.min(now.since(deadline));
        }
    }

    pub(super) const fn used(&self) -> [Duration; LEVELS] {
        self.used
    }

    pub(super) fn violates(&mut self, what: impl FnOnce() -> String) {
        self.violation.get_or_insert_with(what);
    }

    /// Checks the gate's figures against its limits.
    pub(super) fn check_gate(&mut self, limits: GateLimits, by_level: &[Figures; LEVELS]) {
        let running: usize = by_level.iter().map(|figures| figures.running).sum();
        let (running_max, batch_max) = (limits.running_max, (limits.running_max / 2).max(1));
        let held: usize = self.held.iter().sum();
        let (held_batch, batch) = (self.held[BATCH], by_level[BATCH]);
        if running.max(held) > running_max {
            self.violates(|| format!("{running} run and {held} hold permits of {running_max}"));
        }
        if batch.running.max(held_batch) > batch_max {
            let running = batch.running;
            self.violates(|| {
                format!(
                    "{running} batch statements run and {held_batch} hold permits of {batch_max}"
                )
            });
        }
        let interactive_waits = by_level[..BATCH].iter().any(|figures| figures.waiting > 0);
        let batch_waits = batch.waiting > 0 && batch.running < batch_max;
        if running < running_max && (interactive_waits || batch_waits) {
            self.violates(|| format!("a place is free while a statement waits: {by_level:?}"));
        }
    }

    /// Returns the numbers of requests of a span and level that were due, that had good answers,
    /// and that were done.
    pub(super) fn count(&self, level: usize, span: Span) -> (usize, usize, usize) {
        let is_in = |entry: &&Entry| {
            entry.level == level
                && (span.from..span.to).contains(&entry.due)
                && !(entry.answers.is_empty() && self.closed.contains(&entry.connection))
        };
        self.entries.iter().filter(is_in).fold((0, 0, 0), |(due, good, done), entry| {
            let is_done = entry.answers.first().is_some_and(|(it, _)| *it == Outcome::Done);
            let is_soon = entry.answers.iter().any(|(_, now)| now.since(entry.due) <= GOOD_WITHIN);
            (due + 1, good + usize::from(is_done && is_soon), done + usize::from(is_done))
        })
    }

    pub(super) fn open(&self) -> usize {
        let is_open =
            |entry: &&Entry| entry.answers.is_empty() && !self.closed.contains(&entry.connection);
        self.entries.iter().filter(is_open).count()
    }

    pub(super) const fn requests(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn done(&self) -> usize {
        let is_done = |entry: &&Entry| entry.answers.iter().any(|(it, _)| *it == Outcome::Done);
        self.entries.iter().filter(is_done).count()
    }

    /// Judges everything that does not depend on the parts of the run.
    pub(super) fn judge(&self) -> Result<(), String> {
        if let Some(violation) = &self.violation {
            return Err(violation.clone());
        }
        for (number, entry) in self.entries.iter().enumerate() {
            let is_gone = self.closed.contains(&entry.connection);
            match &entry.answers[..] {
                [] if is_gone => {}
                [(Outcome::Failed, _)] => return Err(format!("request {number} failed")),
                [_] => {}
                answers => return Err(format!("request {number} was answered {answers:?}")),
            }
        }
        if self.held != [0; LEVELS] {
            return Err(format!("permits are held at the end: {:?}", self.held));
        }
        let used: Duration = self.used.iter().sum();
        if self.wasted > used / 100 {
            return Err(format!("{:?} of {used:?} were used beyond deadlines", self.wasted));
        }
        Ok(())
    }
}
