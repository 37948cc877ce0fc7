//! Which long statement runs next.
//!
//! A statement that takes long runs in turns of a time slice each. As many have a turn at a time as
//! there are processors; the others wait here:
//!
//! ```text
//!   ask ──▶ a turn is free ──▶ runs one slice ─┬▶ end: it is done, or waits for something else
//!    │                             ▲            └▶ go on: another turn, or it waits again
//!    └────▶ waits ─────────────────┘
//!           level with the least used time for its shares
//!                    └▶ within it the one that has used least, by band, and each twentieth the oldest
//! ```
//!
//! * Levels share the turns by their shares ([`Accounts`]), in processor time and not in turns.
//! * Within a level a statement that has used much comes after those that have used little, so that a
//!   multi-get of some hundred keys does not wait for the counts beside it. Bands keep the order within
//!   each of them, so that statements of one kind take turns.
//! * Each twentieth turn of a level is for its oldest statement, so that none starves.
//!
//! # Invariants
//!
//! * While a statement waits, as many have a turn as may.
//! * Each turn that was granted is ended exactly once.

use std::collections::BTreeMap;
use std::time::Duration;

use carnet_base::Moment;

use super::level::LevelId;
use super::shares::Accounts;

/// Used time at which a statement falls into the next band.
const BANDS: [Duration; 3] =
    [Duration::from_millis(1), Duration::from_millis(8), Duration::from_millis(64)];
/// Of so many turns of a level one is for its oldest statement.
const OLDEST_EVERY: u64 = 20;

/// A statement that asks for a turn.
#[derive(Clone, Copy, Debug)]
pub struct Asking {
    /// Its level.
    pub level: LevelId,
    /// The shares of the level.
    pub shares: u32,
    /// When it began to run.
    pub begun: Moment,
    /// The processor time that it has used so far.
    pub used: Duration,
}

/// What becomes of a statement that asks for a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// It runs; [`RunQueue::end`] or [`RunQueue::go_on`] is told at the end of its slice.
    Granted,
    /// It waits until [`RunQueue::end`] or [`RunQueue::go_on`] returns this number.
    Waits(TurnId),
}

/// Names a statement that waits for a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TurnId(u64);

/// Statements of a level that wait.
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

/// Statements that run in turns. See the module's essay.
#[derive(Debug)]
pub struct RunQueue {
    turns_max: usize,
    running: usize,
    numbers: u64,
    levels: BTreeMap<LevelId, OfLevel>,
    accounts: Accounts,
}

impl RunQueue {
    /// Makes a queue of which `turns_max` statements run at a time, at least one.
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

    /// Asks for a turn.
    pub fn ask(&mut self, asking: Asking) -> Asked {
        let Asking { level, shares, .. } = asking;
        if !self.levels.contains_key(&level) {
            self.accounts.begin(level, shares);
        }
        if self.running < self.turns_max {
            self.accounts.serve(level);
            self.running += 1;
            return Asked::Granted;
        }
        Asked::Waits(self.wait(asking))
    }

    /// Takes the end of a turn of a statement that has more to do and asks for the next one. Returns
    /// also the statement whose turn it is, where it is another one's.
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

    /// Takes the end of a turn of a statement of that level, and returns the statement whose turn it is.
    pub fn end(&mut self, level: LevelId, took: Duration) -> Option<TurnId> {
        self.accounts.charge(level, took);
        self.running -= 1;
        self.next()
    }

    /// Takes a statement out because it was given up. Returns `false` where it had its turn already,
    /// which has to be ended.
    pub fn cancel(&mut self, level: LevelId, id: TurnId) -> bool {
        let Some(of_level) = self.levels.get_mut(&level) else { return false };
        let was_waiting = of_level.waiting.remove(&id).is_some();
        if of_level.waiting.is_empty() {
            self.levels.remove(&level);
        }
        was_waiting
    }

    /// Returns how many statements have a turn.
    #[must_use]
    pub const fn running(&self) -> usize {
        self.running
    }

    /// Returns how many statements wait for a turn.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.levels.values().map(|of_level| of_level.waiting.len()).sum()
    }

    fn next(&mut self) -> Option<TurnId> {
        if self.running >= self.turns_max {
            return None;
        }
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
