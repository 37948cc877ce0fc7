//! Run queue of long statements: decides which one runs next.
//!
//! A long statement runs in turns of one time slice each. The number of concurrent turns is the
//! number of processors; the other statements wait here:
//!
//! ```text
//!   ask ──▶ a turn is free ──▶ runs one slice ─┬▶ end: it is done, or waits for something else
//!    │                             ▲            └▶ go on: another turn, or it waits again
//!    └────▶ waits ─────────────────┘
//!           level with the least used time for its shares
//!                    └▶ in it the least used band; each twentieth turn the oldest statement
//! ```
//!
//! * Levels share the turns by their shares ([`Accounts`]), measured in processor time.
//! * Within a level a statement that has used little time comes before one with much, so
//!   that a multi-get of some hundred keys does not wait for concurrent counts. Statements of the
//!   same band take turns.
//! * Each twentieth turn of a level goes to its oldest statement, so that none starves.
//!
//! # Invariants
//!
//! * While a statement waits, all turns are taken.
//! * Each granted turn is ended exactly once.

use std::collections::BTreeMap;
use std::time::Duration;

use carnet_base::Moment;

use super::level::LevelId;
use super::shares::Accounts;

/// Used time at which a statement moves to the next band.
const BANDS: [Duration; 3] =
    [Duration::from_millis(1), Duration::from_millis(8), Duration::from_millis(64)];
/// Number of turns of a level per turn that goes to its oldest statement.
const OLDEST_EVERY: u64 = 20;

/// Request of a statement for a turn.
#[derive(Clone, Copy, Debug)]
pub struct Asking {
    /// Level of the statement.
    pub level: LevelId,
    /// Shares of the level.
    pub shares: u32,
    /// Time at which the statement began to run.
    pub begun: Moment,
    /// Processor time that the statement has used.
    pub used: Duration,
}

/// Decision on a request for a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// The statement runs; call [`RunQueue::end`] or [`RunQueue::go_on`] at the end of its slice.
    Granted,
    /// The statement waits until [`RunQueue::end`] or [`RunQueue::go_on`] returns this id.
    Waits(TurnId),
}

/// Id of a statement that waits for a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TurnId(u64);

/// Waiting statements of a level.
#[derive(Debug, Default)]
struct OfLevel {
    waiting: BTreeMap<TurnId, Waiting>,
    turns: u64,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    band: usize,
    begun: Moment,
}

/// Run queue of long statements. See the module documentation.
#[derive(Debug)]
pub struct RunQueue {
    turns_max: usize,
    running: usize,
    numbers: u64,
    levels: BTreeMap<LevelId, OfLevel>,
    accounts: Accounts,
}

impl RunQueue {
    /// Makes a queue that runs at most `turns_max` statements at a time, at least one.
    #[must_use]
    pub fn new(turns_max: usize) -> Self {
        Self {
            turns_max: turns_max.max(1),
            running: 0,
            numbers: 0,
            levels: BTreeMap::new(),
            accounts: Accounts::default(),
        }
    }

    /// Requests a turn.
    pub fn ask(&mut self, asking: Asking) -> Asked {
        let Asking { level, shares, .. } = asking;
        self.accounts.begin(level, shares, true);
        if self.running < self.turns_max {
            self.accounts.serve(level);
            self.running += 1;
            return Asked::Granted;
        }
        Asked::Waits(self.wait(asking))
    }

    /// Ends the turn of a statement that requests another one. If the next turn goes to another
    /// statement, returns its id too.
    pub fn go_on(&mut self, asking: Asking, took: Duration) -> (Asked, Option<TurnId>) {
        self.accounts.charge(asking.level, took);
        self.running -= 1;
        let own = self.wait(asking);
        match self.next() {
            Some(id) if id == own => (Asked::Granted, None),
            next => (Asked::Waits(own), next),
        }
    }

    fn wait(&mut self, asking: Asking) -> TurnId {
        let Asking { level, begun, used, .. } = asking;
        let id = TurnId(self.numbers);
        self.numbers += 1;
        let band = BANDS.iter().filter(|limit| used >= **limit).count();
        self.levels.entry(level).or_default().waiting.insert(id, Waiting { band, begun });
        id
    }

    /// Ends the turn of a statement of a level, and returns the statement whose turn is next.
    pub fn end(&mut self, level: LevelId, took: Duration) -> Option<TurnId> {
        self.accounts.charge(level, took);
        self.running -= 1;
        self.next()
    }

    /// Removes a cancelled statement. Returns `false` if it already has a turn, which the caller
    /// must end.
    pub fn cancel(&mut self, level: LevelId, id: TurnId) -> bool {
        let Some(of_level) = self.levels.get_mut(&level) else { return false };
        let was_waiting = of_level.waiting.remove(&id).is_some();
        if of_level.waiting.is_empty() {
            self.levels.remove(&level);
        }
        was_waiting
    }

    /// Returns the number of statements that have a turn.
    #[must_use]
    pub const fn running(&self) -> usize {
        self.running
    }

    /// Returns the number of statements that wait for a turn.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.levels.values().map(|of_level| of_level.waiting.len()).sum()
    }

    /// Gives the turn that has just ended to a waiting statement.
    fn next(&mut self) -> Option<TurnId> {
        let level = self.accounts.next(self.levels.keys().copied())?;
        let of_level = self.levels.get_mut(&level)?;
        of_level.turns += 1;
        let by_age = of_level.turns.is_multiple_of(OLDEST_EVERY);
        let of_all = of_level.waiting.iter();
        let id = if by_age {
            of_all.min_by_key(|(id, waiting)| (waiting.begun, **id))
        } else {
            of_all.min_by_key(|(id, waiting)| (waiting.band, **id))
        };
        let id = *id?.0;
        of_level.waiting.remove(&id);
        if of_level.waiting.is_empty() {
            self.levels.remove(&level);
        }
        self.running += 1;
        Some(id)
    }
}

#[cfg(test)]
#[path = "run_queue_tests.rs"]
mod tests;
