//! Checks a run from the inside: replays commits in the order of their timestamps.
//!
//! A database that orders transactions by timestamps knows more than its clients: the snapshot of
//! each read, and the timestamp of each commit. If it reports them, nothing has to be inferred, and
//! ranges can be checked too:
//!
//! ```text
//! timestamps   1 ───── 2 ───── 3 ───── 4 ───── 5 ─────▶
//!                      C(T1)   R(T2)   C(T3)   C(T2)
//!                      w x             w x     r x, w y
//!
//! T2's read must have found T1's x (the newest at R = 3). Serializable also forbids T3's write
//! between R and C of T2: at 5, x was no longer the version that T2 had read.
//! ```
//!
//! One pass in the order of timestamps over the current state takes *n* log *n*. The checks run in
//! the order of time, so that the first violation is reported:
//!
//! * timestamps: each C is used once, and R < C;
//! * reads: each found, at R, the newest commit ≤ R, and each range all of its cells;
//! * first committer wins: no other transaction wrote the same keys between R and C;
//! * serializable: no other transaction wrote the keys or ranges that it read between R and C;
//! * real time: a transaction answered before another was invoked is in the other's snapshot (or,
//!   if the other writes and is serializable, before it).

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::ops::Bound;

/// A commit timestamp. 0 is before all commits.
pub type Timestamp = u64;

/// A read with its result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Read {
    /// A read of one key.
    Point {
        /// Key that was read.
        key: Vec<u8>,
        /// Commit of the found version, `None` if there was none.
        found: Option<Timestamp>,
    },
    /// All keys from `from` on, below `to`.
    Range {
        /// First key of the range.
        from: Vec<u8>,
        /// First key behind the range, `None` if it is unbounded.
        to: Option<Vec<u8>>,
        /// Found keys in ascending order, with the commit of each version.
        found: Vec<(Vec<u8>, Timestamp)>,
    },
}

/// A write of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// Key that was written.
    pub key: Vec<u8>,
    /// Whether it deletes the key.
    pub deletes: bool,
}

/// A transaction as the database knows it. Aborted ones are omitted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Committed {
    /// Name chosen by the caller, for messages only.
    pub name: u64,
    /// The snapshot R of its reads: all commits ≤ R.
    pub snapshot: Timestamp,
    /// Its commit timestamp C; `None` if it wrote nothing.
    pub commit: Option<Timestamp>,
    /// Its reads of data of others.
    pub reads: Vec<Read>,
    /// Its writes, each key once.
    pub writes: Vec<Write>,
    /// Whether it may overwrite keys committed after its snapshot: it did not read them, and the
    /// versions of a key are ordered by C.
    pub overwrites: bool,
    /// Time of the invocation, on a clock that all transactions share.
    pub invoked: u64,
    /// Time of the answer on the same clock; `None` if there was no answer.
    pub answered: Option<u64>,
}

/// Isolation level that the replay checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Snapshots may be old.
    Snapshot {
        /// Whether snapshots include all transactions answered before.
        real_time: bool,
    },
    /// As if each transaction ran at its C (or R, if it has none).
    Serializable {
        /// Whether this order agrees with real time.
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

/// The first violation, in the order of timestamps, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// The [name](Committed::name) of the affected transaction.
    pub transaction: u64,
    /// Description of the violation.
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
    // At the same timestamp commits come first: a snapshot includes all commits ≤ R.
    events.sort_by_key(|(at, event, transaction)| (*at, *event, transaction.name));
    let floor = level.respects_time().then(|| answered_before(transactions, level));
    let mut state = ReplayState::default();
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

/// Returns `true` if an event must come after all transactions answered before.
const fn is_place(event: Event, transaction: &Committed, level: Level) -> bool {
    match event {
        Event::Commit => level.is_serializable(),
        Event::Snapshot => !level.is_serializable() || transaction.commit.is_none(),
    }
}

/// Point at which a transaction takes effect: a snapshot at a timestamp comes after the commit at
/// it.
type Place = (Timestamp, Event);

/// Returns, for each moment of an answer, the latest point of all transactions answered until then:
/// (moment, point, name).
fn answered_before(transactions: &[Committed], level: Level) -> Vec<(u64, Place, u64)> {
    let place = |transaction: &Committed| match (transaction.commit, level) {
        (Some(commit), _) => Some((commit, Event::Commit)),
        // An old snapshot implies no order.
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
struct ReplayState<'t> {
    /// For each key the commit of the newest version, and whether it deletes the key.
    newest: BTreeMap<&'t [u8], (Timestamp, bool)>,
    commits: HashMap<Timestamp, u64>,
}

impl<'t> ReplayState<'t> {
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

/// Describes the first difference of two ascending lists.
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

/// Displays a key in readable form.
struct Shown<'k>(&'k [u8]);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}

#[cfg(test)]
mod tests;
