//! Judges a run, by the database's own timestamps and by the observations of clients.
//!
//! 1. Errors found by clients at once: a broken invariant, or an error that must never occur.
//! 2. Outcomes: an acknowledged commit happened at the reported C; a refused one did not happen.
//! 3. Timestamps: R < S < C, and no S is ever handed out twice, despite crashes.
//! 4. *Inside*: all transactions of all parts are replayed in the order of C, and reads and ranges
//!    are compared with the state.
//! 5. *Outside*: lists and registers are checked as histories without timestamps.
//!
//! If the durability allows a loss of power to take the last commits, these are determined by
//! asking the database. They must be the last ones in the order of C, and are removed with all
//! transactions that saw them.

use std::collections::{HashMap, HashSet};
use std::ops::RangeBounds;

use carnet_base::{ErrorKind, Timestamp};
use carnet_checker::replay::{Committed, Level, Read, Write, replay};
use carnet_checker::{History, Model, Moment, Options, Outcome as Seen, Transaction, check};
use carnet_store::Outcome;
use carnet_txn::Isolation;

use crate::database::Database;
use crate::run_record::{Look, Part, Record, Reported, RunRecord};

mod lost;

/// Asks the database for the outcome of every transaction of some incarnations, and compares it
/// with the outcomes that clients were told, and with earlier answers.
///
/// `swept` returns the outcome of a start that the database does not know any more; it gets the
/// outcome known before.
///
/// `may_lose`: the power failed, and the durability allows that the last commits were lost.
pub(crate) async fn settle<D: Database>(
    db: &D,
    run_record: &RunRecord,
    incarnations: impl RangeBounds<u32>,
    may_lose: bool,
    swept: impl Fn(Timestamp, Option<Outcome>) -> Option<Outcome>,
) -> Result<(), String> {
    let is_asked = |record: &Record| !record.lost && incarnations.contains(&record.incarnation);
    let asked = |record: &&Record| is_asked(record);
    let before = |record: &Record| {
        expected(record).map(|commit| commit.map_or(Outcome::Aborted, Outcome::Committed))
    };
    let starts: Vec<(Timestamp, Option<Outcome>)> = run_record
        .records()
        .iter()
        .filter(asked)
        .filter_map(|record| Some((record.start?, before(record))))
        .collect();
    let mut outcomes = HashMap::new();
    let mut unasked = HashSet::new();
    for (start, before) in starts {
        let outcome = match db.outcome(start).await {
            Ok(outcome) => Some(outcome),
            Err(error)
                if error.kind() == ErrorKind::Unknown { start }
                    && is_below_mark(db, start).await =>
            {
                unasked.insert(start);
                match swept(start, before) {
                    // Decided, but never in force: a crash came before it was durable.
                    Some(Outcome::Committed(commit)) if !is_below_mark(db, commit).await => {
                        Some(Outcome::Aborted)
                    }
                    known => known,
                }
            }
            Err(error) => {
                return Err(format!("the outcome of start {start} cannot be determined: {error}"));
            }
        };
        let Some(outcome) = outcome else {
            return Err(format!(
                "the entry of start {start} was swept before its client could ask"
            ));
        };
        outcomes.insert(start, outcome);
    }
    if may_lose {
        let forgotten = forgotten(run_record, &outcomes, &unasked);
        let lost = lost::lost(db, forgotten).await.map_err(|error| error.to_string())?;
        outcomes.extend(lost.into_iter().map(|start| (start, Outcome::Aborted)));
    }
    let (mut wrong, mut lost_from) = (None, None::<Timestamp>);
    run_record.for_each(|record| {
        let Some(start) = record.start.filter(|_| is_asked(record)) else { return };
        let commit = match outcomes[&start] {
            Outcome::Committed(commit) => Some(commit),
            Outcome::Aborted | Outcome::Pending => None,
        };
        match expected(record) {
            Some(Some(before)) if commit.is_none() && may_lose => {
                lost_from = Some(lost_from.map_or(before, |from| from.min(before)));
                record.commit = None;
            }
            Some(expected) if expected != commit => {
                wrong.get_or_insert(format!(
                    "the outcome of start {start} is {commit:?}, its client was reported {:?}, and it \
                     was known as {expected:?}",
                    record.reported
                ));
            }
            _ => record.commit = commit,
        }
        record.is_settled = true;
    });
    if let Some(from) = lost_from {
        lose(run_record, from)?;
    }
    wrong.map_or(Ok(()), Err)
}

/// Returns the commits that the database has lost, after the last commit that it still has.
fn forgotten(
    run_record: &RunRecord,
    outcomes: &HashMap<Timestamp, Outcome>,
    unasked: &HashSet<Timestamp>,
) -> Vec<lost::Forgotten> {
    let commits = outcomes.iter().filter_map(|(start, outcome)| match outcome {
        Outcome::Committed(commit) => Some((*start, *commit)),
        Outcome::Aborted | Outcome::Pending => None,
    });
    let known = commits.clone().filter(|(start, _)| !unasked.contains(start));
    let known = known.map(|(_, commit)| commit).max().unwrap_or(Timestamp::ZERO);
    let commits: HashMap<_, _> = commits.filter(|(_, commit)| *commit > known).collect();
    let records = run_record.records();
    let forgotten = records.iter().filter_map(|record| {
        let start = record.start?;
        let commit = *commits.get(&start)?;
        Some(lost::Forgotten { start, commit, writes: record.writes.clone() })
    });
    forgotten.collect()
}

/// Returns `true` if a timestamp is not above the sweep mark, or there is no mark.
async fn is_below_mark<D: Database>(db: &D, at: Timestamp) -> bool {
    db.swept().await.map_or(true, |mark| at <= mark)
}

/// Returns the commit of a transaction, if any, as far as that is known.
fn expected(record: &Record) -> Option<Option<Timestamp>> {
    if record.is_settled {
        return Some(record.commit);
    }
    match record.reported {
        Reported::Committed(commit) => Some(Some(commit).filter(|_| !record.writes.is_empty())),
        Reported::Aborted | Reported::Running => Some(None),
        Reported::Unknown => None,
    }
}

/// Removes the commits from `from` on, which were lost with the power, and all transactions that
/// saw them.
fn lose(run_record: &RunRecord, from: Timestamp) -> Result<(), String> {
    let mut wrong = None;
    run_record.for_each(|record| {
        if !record.lost && record.commit.is_some_and(|commit| commit >= from) {
            wrong.get_or_insert(format!(
                "the commit at {from} was lost with the power, the later one of start {} was not",
                record.start.unwrap_or_default()
            ));
        }
        let was_told = matches!(record.reported, Reported::Committed(commit) if commit >= from);
        record.lost |= was_told || record.read.is_some_and(|read| read >= from);
    });
    wrong.map_or(Ok(()), Err)
}

/// Guarantees that transactions are checked against.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Promise {
    pub(crate) isolation: Isolation,
    /// Whether snapshots contain all acknowledged commits, at every level: true for a single
    /// process.
    pub(crate) is_always_fresh: bool,
    /// Whether versions of a cell are ordered by commits, so that writes alone never conflict.
    pub(crate) orders_by_commit: bool,
}

impl Promise {
    fn respects_time(self) -> bool {
        self.is_always_fresh || self.isolation == Isolation::StrictSerializable
    }

    fn level(self) -> Level {
        let real_time = self.respects_time();
        match self.isolation {
            Isolation::Snapshot => Level::Snapshot { real_time },
            _ => Level::Serializable { real_time },
        }
    }

    /// Returns `true` if a transaction may overwrite cells committed after its snapshot.
    fn lets_overwrite(self, record: &Record) -> bool {
        let checks_reads = self.isolation != Isolation::Snapshot;
        self.orders_by_commit && (checks_reads || record.looks.is_empty())
    }

    fn model(self) -> Model {
        match (self.isolation, self.respects_time()) {
            (Isolation::Snapshot, true) => Model::StrongSnapshotIsolation,
            (Isolation::Snapshot, false) => Model::SnapshotIsolation,
            (_, true) => Model::StrictSerializable,
            (_, false) => Model::Serializable,
        }
    }
}

/// Judges a run with all incarnations settled.
pub(crate) fn judge(run_record: &RunRecord, promise: Promise) -> Result<(), String> {
    if let Some(wrong) = run_record.first_wrong() {
        return Err(wrong);
    }
    let records = run_record.records();
    timestamps(&records)?;
    inside(&records, promise)?;
    for part in [Part::Lists, Part::Registers] {
        outside(&records, part, promise)?;
    }
    Ok(())
}

fn timestamps(records: &[Record]) -> Result<(), String> {
    let mut starts = HashMap::new();
    for (number, record) in records.iter().enumerate() {
        let (Some(read), Some(start)) = (record.read, record.start) else { continue };
        if read >= start {
            return Err(format!("start {start} was not drawn after its snapshot {read}"));
        }
        if record.commit.is_some_and(|commit| commit <= start) {
            return Err(format!("start {start} does not lie before its commit"));
        }
        if let Some(other) = starts.insert(start, number) {
            return Err(format!("transactions {other} and {number} have one start, {start}"));
        }
    }
    Ok(())
}

/// Replays all transactions in the order of their commits.
fn inside(records: &[Record], promise: Promise) -> Result<(), String> {
    let committed = records.iter().filter(|record| !record.lost);
    let commits: HashMap<Timestamp, Timestamp> =
        committed.filter_map(|record| Some((record.start?, record.commit?))).collect();
    let mut replayed = Vec::with_capacity(records.len());
    for (number, record) in records.iter().enumerate() {
        if !record.lost && happened(record) {
            let overwrites = promise.lets_overwrite(record);
            replayed.push(Committed { overwrites, ..committed_as(number, record, &commits)? });
        }
    }
    replay(&replayed, promise.level()).map_err(|wrong| format!("by its timestamps, {wrong}"))
}

/// Returns `true` if a transaction happened: its writes, or its reads of one snapshot.
fn happened(record: &Record) -> bool {
    match record.reported {
        Reported::Committed(_) => true,
        Reported::Unknown => record.commit.is_some(),
        Reported::Running | Reported::Aborted => false,
    }
}

fn committed_as(
    number: usize,
    record: &Record,
    commits: &HashMap<Timestamp, Timestamp>,
) -> Result<Committed, String> {
    let commit_of = |start: Timestamp, key: &[u8]| match commits.get(&start) {
        Some(commit) => Ok(commit.get()),
        None => Err(format!(
            "transaction {number} read \"{}\" as start {start} wrote it, which never committed",
            key.escape_ascii()
        )),
    };
    let reads = record.looks.iter().map(|look| match look {
        Look::Point { key, found } => Ok(Read::Point {
            key: key.clone(),
            found: found.map(|start| commit_of(start, key)).transpose()?,
        }),
        Look::Range { from, to, found } => Ok(Read::Range {
            from: from.clone(),
            to: Some(to.clone()),
            found: found
                .iter()
                .map(|(key, start)| Ok((key.clone(), commit_of(*start, key)?)))
                .collect::<Result<_, String>>()?,
        }),
    });
    let writes = record.writes.iter();
    Ok(Committed {
        name: number as u64,
        snapshot: record.read.unwrap_or_default().get(),
        commit: record.commit.map(Timestamp::get),
        reads: reads.collect::<Result<_, String>>()?,
        writes: writes
            .map(|(key, deletes)| Write { key: key.clone(), deletes: *deletes })
            .collect(),
        overwrites: false,
        invoked: record.invoked,
        answered: record.answered,
    })
}

/// Judges only the observations of the clients of one part.
fn outside(records: &[Record], part: Part, promise: Promise) -> Result<(), String> {
    // The client of a running transaction never requested anything observable.
    let is_judged = |record: &&Record| {
        record.part == part && !record.lost && record.reported != Reported::Running
    };
    let of_part = records.iter().filter(is_judged);
    let transactions = of_part.map(|record| {
        let moment = |index| Moment { index, nanos: 0 };
        Transaction {
            process: record.process,
            invoked: moment(record.invoked),
            completed: record.answered.map(moment),
            outcome: match record.reported {
                Reported::Committed(_) => Seen::Committed,
                Reported::Unknown => Seen::Unknown,
                _ => Seen::Aborted,
            },
            ops: record.ops.clone(),
        }
    });
    let history = History::new(transactions.collect())
        .map_err(|bad| format!("the simulator wrote a bad history: {bad}"))?;
    let report = check(&history, &Options::default())
        .map_err(|bad| format!("the simulator wrote a bad history: {bad}"))?;
    let model = promise.model();
    if report.allows(model) {
        return Ok(());
    }
    Err(format!(
        "the observations of clients are not {}:\n{}",
        model.name(),
        report.explain(&history)
    ))
}
