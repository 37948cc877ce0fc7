//! The check from inside: commits replayed in the order of their timestamps.
//!
//! A database that orders transactions by timestamps knows more than its clients: at which snapshot
//! each read, and when each committed. If it tells, nothing has to be inferred, and ranges can be
//! judged too:
//!
//! ```text
//! timestamps   1 ───── 2 ───── 3 ───── 4 ───── 5 ─────▶
//!                      C(T1)   R(T2)   C(T3)   C(T2)
//!                      w x             w x     r x, w y
//!
//! T2's read must have found T1's x (the newest at R = 3). Serializable also forbids T3's write
//! between R and C of T2: at 5, x was no longer what T2 had read.
//! ```
//!
//! One pass in the order of timestamps over the current state: *n* log *n*. What is checked, in the
//! order of time, so that the first wrong thing is what is named:
//!
//! * timestamps: each C is used once, and R < C;
//! * reads: each found, at R, the newest commit ≤ R, and each range all that it held;
//! * first committer wins: nobody wrote between R and C what it writes;
//! * serializable: nobody wrote between R and C what it read;
//! * real time: whoever was answered before another was invoked is in that one's snapshot (or, if
//!   that one writes and is serializable, before it).

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::ops::Bound;

/// A commit timestamp. 0 is before all.
pub type Timestamp = u64;

/// What a transaction asked for and found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Read {
    /// One key.
    Point {
        /// The key.
        key: Vec<u8>,
        /// The commit whose version was found, `None` if there was nothing.
        found: Option<Timestamp>,
    },
    /// All keys from `from` on, below `to`.
    Range {
        /// The first key that belongs to it.
        from: Vec<u8>,
        /// The first key that no longer does, `None` for the end of all.
        to: Option<Vec<u8>>,
        /// What was found, in ascending order of the keys, with the commit of each version.
        found: Vec<(Vec<u8>, Timestamp)>,
    },
}

/// What a transaction did to a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// The key.
    pub key: Vec<u8>,
    /// Whether nothing is there afterwards.
    pub deletes: bool,
}

/// A transaction as the database knows it. Aborted ones are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Committed {
    /// What the caller calls it; used in messages only.
    pub name: u64,
    /// The snapshot R that it read at: all commits ≤ R.
    pub snapshot: Timestamp,
    /// When it committed, C; `None` if it wrote nothing and has no place of its own.
    pub commit: Option<Timestamp>,
    /// What it read of others.
    pub reads: Vec<Read>,
    /// What it wrote, each key once.
    pub writes: Vec<Write>,
    /// Whether it may overwrite what was committed after its snapshot: it depends on nothing that it
    /// overwrites, and the versions of a key are ordered by C.
    pub overwrites: bool,
    /// When it was invoked and when it was answered, on any clock that all share; the latter is
    /// `None` if no answer came.
    pub invoked: u64,
    /// See [`Committed::invoked`].
    pub answered: Option<u64>,
}

/// What the replay holds transactions to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Snapshots may be old.
    Snapshot {
        /// Whether they hold all that was answered before.
        real_time: bool,
    },
    /// As if each transaction ran at its C (or R, if it has none).
    Serializable {
        /// Whether this order is that of real time.
        real_time: bool,
    },
}

impl Level {
    const fn is_serializable(self) -> bool {
        matches!(self, Self::Serializable { .. })
    }

    const fn respects_time(self) -> bool {
        let (Self::Snapshot { real_time } | Self::Serializable { real_time }) = self;
        real_time
    }
}

/// The first thing that is wrong, in the order of timestamps, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// The [name](Committed::name) of the transaction that was treated wrongly.
    pub transaction: u64,
    /// What is wrong.
    pub reason: String,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "transaction {}: {}", self.transaction, self.reason)
    }
}

impl std::error::Error for Wrong {}

/// Replays transactions in the order of their commits.
///
/// # Errors
///
/// The first [`Wrong`], if there is one.
pub fn replay(transactions: &[Committed], level: Level) -> Result<(), Wrong> {
    let mut events = Vec::with_capacity(2 * transactions.len());
    for transaction in transactions {
        events.push((transaction.snapshot, Event::Snapshot, transaction));
        if let Some(commit) = transaction.commit {
            events.push((commit, Event::Commit, transaction));
        }
    }
    // At the same timestamp commits come first: a snapshot holds all commits ≤ R.
    events.sort_by_key(|(at, event, transaction)| (*at, *event, transaction.name));
    let floor = level.respects_time().then(|| answered_before(transactions, level));
    let mut state = State::default();
    for (at, event, transaction) in events {
        let wrong = |reason| Wrong { transaction: transaction.name, reason };
        match event {
            Event::Snapshot => state.check_snapshot(transaction),
            Event::Commit => state.commit(at, transaction, level),
        }
        .and_then(|()| match &floor {
            Some(floor) if is_place(event, transaction, level) => {
                in_time((at, event), transaction, floor)
            }
            _ => Ok(()),
        })
        .map_err(wrong)?;
    }
    Ok(())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Commit,
    Snapshot,
}

/// Tells whether an event is the one that must come after all that was answered before.
const fn is_place(event: Event, transaction: &Committed, level: Level) -> bool {
    match event {
        Event::Commit => level.is_serializable(),
        Event::Snapshot => !level.is_serializable() || transaction.commit.is_none(),
    }
}

/// Where a transaction takes effect: a snapshot at a timestamp comes after the commit at it.
type Place = (Timestamp, Event);

/// For each moment at which somebody was answered, the latest place of those answered until then:
/// (moment, place, name).
fn answered_before(transactions: &[Committed], level: Level) -> Vec<(u64, Place, u64)> {
    let place = |transaction: &Committed| match (transaction.commit, level) {
        (Some(commit), _) => Some((commit, Event::Commit)),
        // A snapshot that is old orders nothing.
        (None, Level::Snapshot { .. }) => None,
        (None, Level::Serializable { .. }) => Some((transaction.snapshot, Event::Snapshot)),
    };
    let answered = transactions.iter().filter_map(|transaction| {
        Some((transaction.answered?, place(transaction)?, transaction.name))
    });
    let mut answered: Vec<_> = answered.collect();
    answered.sort_unstable();
    let mut latest = ((0, Event::Commit), 0);
    for (_, place, name) in &mut answered {
        latest = latest.max((*place, *name));
        (*place, *name) = latest;
    }
    answered
}

fn in_time(at: Place, transaction: &Committed, floor: &[(u64, Place, u64)]) -> Result<(), String> {
    let before = floor.partition_point(|(answered, ..)| *answered < transaction.invoked);
    let Some((_, place, name)) = before.checked_sub(1).map(|last| floor[last]) else {
        return Ok(());
    };
    if place <= at {
        return Ok(());
    }
    Err(format!(
        "it takes effect at {}, before transaction {name} at {}, which was answered before it was \
         invoked (at {})",
        at.0, place.0, transaction.invoked
    ))
}

/// The newest version of each key.
#[derive(Debug, Default)]
struct State<'t> {
    /// By key: the commit of the newest version, and whether it deletes.
    newest: BTreeMap<&'t [u8], (Timestamp, bool)>,
    commits: HashMap<Timestamp, u64>,
}

impl<'t> State<'t> {
    fn found(&self, key: &[u8]) -> Option<Timestamp> {
        self.newest.get(key).filter(|(_, deletes)| !deletes).map(|(commit, _)| *commit)
    }

    fn range(
        &self,
        from: &[u8],
        to: Option<&[u8]>,
    ) -> impl Iterator<Item = (&'t [u8], Timestamp, bool)> {
        let is_empty = to.is_some_and(|to| to <= from);
        let to = to.filter(|_| !is_empty).map_or(Bound::Unbounded, Bound::Excluded);
        let range = self.newest.range::<[u8], _>((Bound::Included(from), to));
        let entries = range.map(|(key, (commit, deletes))| (*key, *commit, *deletes));
        entries.filter(move |_| !is_empty)
    }

    fn check_snapshot(&self, transaction: &Committed) -> Result<(), String> {
        let at = transaction.snapshot;
        for read in &transaction.reads {
            match read {
                Read::Point { key, found } if self.found(key) != *found => {
                    return Err(format!(
                        "at snapshot {at} it read {} as {}, but it was {}",
                        Shown(key),
                        version(*found),
                        version(self.found(key))
                    ));
                }
                Read::Point { .. } => {}
                Read::Range { from, to, found } => {
                    let is = self.range(from, to.as_deref()).filter(|(.., deletes)| !deletes);
                    let is: Vec<(&[u8], Timestamp)> = is.map(|(key, at, _)| (key, at)).collect();
                    let found = found.iter().map(|(key, commit)| (key.as_slice(), *commit));
                    if let Some(difference) = difference(&found.collect::<Vec<_>>(), &is) {
                        return Err(format!(
                            "at snapshot {at} it read the range from {}, and {difference}",
                            Shown(from)
                        ));
                    }
                }
            }
        }
        Ok(())
    }

    fn commit(
        &mut self,
        at: Timestamp,
        transaction: &'t Committed,
        level: Level,
    ) -> Result<(), String> {
        let snapshot = transaction.snapshot;
        if snapshot >= at {
            return Err(format!("its snapshot {snapshot} is not before its commit {at}"));
        }
        if let Some(other) = self.commits.insert(at, transaction.name) {
            return Err(format!("its commit {at} is transaction {other}'s too"));
        }
        if level.is_serializable() {
            transaction
                .reads
                .iter()
                .try_for_each(|read| self.check_unchanged(read, snapshot, at))?;
        }
        for write in &transaction.writes {
            let before = self.newest.insert(&write.key, (at, write.deletes));
            if let Some((other, _)) =
                before.filter(|(other, _)| *other > snapshot && !transaction.overwrites)
            {
                return Err(format!(
                    "it wrote {}, which the commit at {other} had written too, between its \
                     snapshot {snapshot} and its commit {at}",
                    Shown(&write.key)
                ));
            }
        }
        Ok(())
    }

    fn check_unchanged(
        &self,
        read: &Read,
        snapshot: Timestamp,
        at: Timestamp,
    ) -> Result<(), String> {
        let change = match read {
            Read::Point { key, .. } => self.newest.get_key_value(key.as_slice()),
            Read::Range { from, to, .. } => {
                let mut entries = self.range(from, to.as_deref());
                let change = entries.find(|(_, commit, _)| *commit > snapshot);
                change.and_then(|(key, ..)| self.newest.get_key_value(key))
            }
        };
        match change {
            Some((key, (commit, _))) if *commit > snapshot => Err(format!(
                "it read {}, which the commit at {commit} wrote between its snapshot {snapshot} \
                 and its commit {at}",
                Shown(key)
            )),
            _ => Ok(()),
        }
    }
}

fn version(commit: Option<Timestamp>) -> String {
    commit.map_or("absent".to_owned(), |commit| format!("of the commit at {commit}"))
}

/// Says where two ascending lists first differ.
fn difference(found: &[(&[u8], Timestamp)], is: &[(&[u8], Timestamp)]) -> Option<String> {
    let at = found.iter().zip(is).position(|(a, b)| a != b);
    let at = at.unwrap_or(found.len().min(is.len()));
    let shown = |entry: Option<&(&[u8], Timestamp)>| match entry {
        Some((key, commit)) => format!("{} of the commit at {commit}", Shown(key)),
        None => "nothing more".to_owned(),
    };
    (found.len() != is.len() || at < is.len()).then(|| {
        let (found, is) = (shown(found.get(at)), shown(is.get(at)));
        format!("after {at} entries found {found}, where there was {is}")
    })
}

/// A key for a person.
struct Shown<'k>(&'k [u8]);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}

#[cfg(test)]
mod tests;
