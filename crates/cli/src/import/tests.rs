//! The copier with a source and a database that fail at every operation.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use carnet::{Error, ErrorKind};
use carnet_base::{Token, murmur3};

use super::row::{Field, Row};
use super::source::{RowPage, Source};
use super::*;

const IDENTITY: &str = "table lab.readings of the cluster \"test\"";
const QUICK: Duration = Duration::from_micros(100);

/// Rows in token order, answered in pages.
#[derive(Default)]
struct Model {
    rows: Vec<(Token, Row)>,
    /// Maximum rows of a page, whatever limit is requested.
    page_rows_max: usize,
    /// Errors by the number of the call.
    failures: BTreeMap<usize, ErrorKind>,
    calls: AtomicUsize,
}

impl Source for Model {
    type Position = usize;

    fn page(
        &self,
        (after, through): (Token, Token),
        page_rows: u16,
        from: Option<usize>,
    ) -> carnet::Result<RowPage<usize>> {
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        if let Some(kind) = self.failures.get(&call) {
            return Err(Error::new(*kind, "the model fails"));
        }
        let in_range = |(token, _): &&(Token, Row)| *token > after && *token <= through;
        let rows: Vec<(Token, Row)> = self.rows.iter().filter(in_range).cloned().collect();
        let from = from.unwrap_or_default();
        let end = rows.len().min(from + self.page_rows_max.min(page_rows.into()));
        // Like Cassandra, a page may announce another one, which is then empty.
        let next = (end > from).then_some(end);
        Ok(RowPage { rows: rows[from..end].to_vec(), next })
    }
}

fn int(number: i32) -> Option<Bytes> {
    Some(Bytes::copy_from_slice(&number.to_be_bytes()))
}

fn words(text: impl Into<String>) -> Option<Bytes> {
    Some(Bytes::from(text.into()))
}

/// Sensors with a few readings each; some have a place, every tenth has nothing else.
fn model(sensors: i32) -> Model {
    let mut rows = Vec::new();
    for sensor in 0..sensors {
        let place = words(format!("place {sensor}")).filter(|_| sensor % 3 != 0);
        let token = murmur3::token(&sensor.to_be_bytes());
        let readings = if sensor % 10 == 1 && place.is_some() { 0 } else { sensor % 7 + 1 };
        if readings == 0 {
            rows.push((token, vec![int(sensor), None, place.clone(), None]));
        }
        for at in 0..readings {
            let level = words(format!("level {sensor} {at}")).filter(|_| at % 4 != 2);
            rows.push((token, vec![int(sensor), int(at), place.clone(), level]));
        }
    }
    rows.sort_by_key(|(token, _)| *token);
    Model { rows, page_rows_max: 5, ..Model::default() }
}

fn shape() -> Shape {
    let column = |name: &str, kind: &str, order: &str, type_name: &str| -> Row {
        vec![words(name), words(kind), int(0), words(order), words(type_name)]
    };
    let columns = [
        column("sensor", "partition_key", "none", "int"),
        column("at", "clustering", "desc", "int"),
        column("place", "static", "none", "text"),
        column("level", "regular", "none", "text"),
    ];
    Shape::read(&columns, &UserTypes::default()).unwrap().unwrap()
}

/// Creates the table, prepares the statements, and returns the plan.
fn begin_copy(target: &mut impl Target, source: &str, restarts: bool) -> Result<(Writer, Job)> {
    ensure_table(target, &shape(), &UserTypes::default(), source, &table())?;
    let (writer, _) = prepare(target, &shape(), &[], &table())?;
    let job = begin(target, source, &table(), restarts)?;
    Ok((writer, job))
}

fn table() -> TableName {
    TableName::parse("lab.readings").unwrap()
}

/// A database with injected faults in its transactions.
struct Faulty {
    database: Embedded,
    /// Faults by the number of the transaction.
    faults: BTreeMap<usize, Fault>,
    commits: AtomicUsize,
    /// Numbers of the transactions that write rows.
    with_rows: Mutex<Vec<usize>>,
    /// Statements and bytes of the largest transaction.
    largest: Mutex<(usize, u64)>,
}

#[derive(Clone, Copy, Debug)]
enum Fault {
    /// It is not applied, and may be retried.
    Refused,
    /// It is applied, but the outcome is unknown.
    Unknown,
    /// The process ends before it is applied.
    KilledBefore,
    /// The process ends after it is applied.
    KilledAfter,
}

impl Faulty {
    fn new(db: &Db, faults: &[(usize, Fault)]) -> Self {
        Self {
            database: Embedded::new(db.clone()),
            faults: faults.iter().copied().collect(),
            commits: AtomicUsize::new(0),
            with_rows: Mutex::default(),
            largest: Mutex::default(),
        }
    }
}

impl Target for Faulty {
    fn query(&self, text: &str) -> Result<Vec<Row>> {
        self.database.query(text)
    }

    fn prepare(&mut self, statement: Statement, text: &str) -> Result<()> {
        self.database.prepare(statement, text)
    }

    fn commit(&self, writes: &[Write]) -> Result<(), CommitError> {
        let bytes = |field: &Field| if let Field::Value(value) = field { value.len() } else { 0 };
        let values = writes.iter().flat_map(|write| &write.values);
        let size = (writes.len(), values.map(|field| bytes(field) as u64).sum());
        let mut largest = self.largest.lock().unwrap();
        *largest = (largest.0.max(size.0), largest.1.max(size.1));
        drop(largest);
        let commit = self.commits.fetch_add(1, Ordering::Relaxed);
        if writes.iter().any(|write| write.statement == Statement::Row) {
            self.with_rows.lock().unwrap().push(commit);
        }
        // A killed process does nothing more.
        let is_kill = |fault: &Fault| matches!(fault, Fault::KilledBefore | Fault::KilledAfter);
        let was_killed = self.faults.range(..commit).any(|(_, fault)| is_kill(fault));
        let fault = if was_killed { Some(&Fault::KilledBefore) } else { self.faults.get(&commit) };
        if !matches!(fault, Some(Fault::Refused | Fault::KilledBefore)) {
            self.database.commit(writes)?;
        }
        let error = || anyhow::anyhow!("the database fails");
        match fault {
            None => Ok(()),
            Some(Fault::Refused | Fault::Unknown) => {
                Err(CommitError::Passing { retry_after: Duration::ZERO, error: error() })
            }
            Some(Fault::KilledBefore | Fault::KilledAfter) => Err(CommitError::Lasting(error())),
        }
    }
}

fn db() -> Db {
    Db::builder().in_memory()
}

/// Begins or resumes a copy; returns the amounts of earlier runs and of this one.
fn import(source: &Model, target: &mut Faulty, readers: u16) -> Result<(Tally, Tally)> {
    let (writer, job) = begin_copy(target, IDENTITY, false)?;
    let pace = Pace::new(None).with_pause(QUICK);
    let copier = Copier::new(source, target, &writer, &job, pace);
    copier.run(readers, |_| ())?;
    let (copied, part) = copier.copied();
    assert!((part - 1.0).abs() < 1e-9, "{part} of all tokens is copied");
    Ok((total(&job.ranges), copied))
}

/// Returns all rows of the copy, in the form of the source.
fn rows(db: &Db) -> Vec<Row> {
    let mut rows = Embedded::new(db.clone())
        .query("SELECT sensor, at, place, level FROM lab.readings")
        .unwrap();
    rows.sort();
    rows
}

fn assert_same(model: &Model, db: &Db) {
    let (expected, found) = (rows_of(model), rows(db));
    let missing = expected.iter().find(|row| !found.contains(row));
    let extra = found.iter().find(|row| !expected.contains(row));
    assert_eq!((missing, extra, found.len()), (None, None, expected.len()));
}

fn rows_of(model: &Model) -> Vec<Row> {
    let mut rows: Vec<Row> = model.rows.iter().map(|(_, row)| row.clone()).collect();
    rows.sort();
    rows
}

fn tally_of(model: &Model) -> Tally {
    let mut tally = Tally::default();
    let mut last = None;
    for (_, row) in &model.rows {
        tally.rows += u64::from(row[1].is_some());
        tally.partitions += u64::from(last != Some(&row[0]));
        tally.bytes += row.iter().flatten().map(|value| value.len() as u64).sum::<u64>();
        last = Some(&row[0]);
    }
    tally
}

#[test]
fn every_row_is_copied_with_statics_and_nulls() {
    for readers in [1, 4] {
        let (model, db) = (model(300), db());
        let mut target = Faulty::new(&db, &[]);
        let copied = import(&model, &mut target, readers).unwrap();
        assert_eq!(copied, (Tally::default(), tally_of(&model)));
        assert_same(&model, &db);
        // Nothing is left until the copy is restarted.
        assert_eq!(
            import(&model, &mut target, readers).unwrap(),
            (tally_of(&model), Tally::default())
        );
        let (_, job) = begin_copy(&mut target, IDENTITY, true).unwrap();
        assert_eq!(job.ranges, plan());
    }
}

/// Returns the numbers of the transactions that write rows, and of the first and last one.
fn commits_to_kill(model: &Model) -> Vec<usize> {
    let mut target = Faulty::new(&db(), &[]);
    import(model, &mut target, 1).unwrap();
    let mut places = target.with_rows.into_inner().unwrap();
    assert!(places.len() > 30, "{places:?}");
    // There is one for the plan, and at least one for each range.
    let commits = target.commits.into_inner();
    assert!(commits > usize::from(plan::RANGES));
    places.extend([0, commits - 1]);
    places
}

#[test]
fn killed_copy_resumes_at_any_rows() {
    let model = model(40);
    let all = tally_of(&model);
    for fault in [Fault::KilledBefore, Fault::KilledAfter] {
        for killed_at in commits_to_kill(&model) {
            let db = db();
            let mut target = Faulty::new(&db, &[(killed_at, fault)]);
            let error = import(&model, &mut target, 1).unwrap_err();
            assert!(format!("{error:#}").contains("the database fails"), "{error:#}");
            let (before, copied) = import(&model, &mut Faulty::new(&db, &[]), 2).unwrap();
            // Each row counts once, also if it was written twice.
            assert_eq!(before.plus(copied), all, "{fault:?} at {killed_at}");
            assert_same(&model, &db);
        }
    }
}

#[test]
fn recorded_progress_is_in_the_table() {
    let model = model(40);
    for killed_at in commits_to_kill(&model) {
        let db = db();
        let mut target = Faulty::new(&db, &[(killed_at, Fault::KilledBefore)]);
        import(&model, &mut target, 1).unwrap_err();
        if killed_at == 0 {
            continue;
        }
        let job = progress::read(&target.query(&progress::query(&table())).unwrap());
        let there = rows(&db);
        for range in job.unwrap().unwrap().ranges {
            let is_copied = |token: Token| token > range.after && token <= range.copied;
            for (_, row) in model.rows.iter().filter(|(token, _)| is_copied(*token)) {
                assert!(there.contains(row), "{row:?} is missing, killed at {killed_at}");
            }
        }
    }
}

#[test]
fn temporary_failures_are_retried() {
    let overloaded = ErrorKind::Overloaded { retry_after: QUICK };
    let kinds = [overloaded, ErrorKind::Unavailable, ErrorKind::Timeout];
    let failures = (0..900).step_by(4).map(|call| (call, kinds[call % 3])).collect();
    let faults: Vec<(usize, Fault)> =
        (1..900).step_by(7).flat_map(|n| [(n, Fault::Refused), (n + 1, Fault::Unknown)]).collect();
    for readers in [1, 4] {
        let model = Model { failures: BTreeMap::clone(&failures), ..model(60) };
        let db = db();
        let mut target = Faulty::new(&db, &faults);
        let (_, copied) = import(&model, &mut target, readers).unwrap();
        assert_eq!(copied, tally_of(&model));
        assert_same(&model, &db);
    }
}

#[test]
fn permanent_failure_ends_a_resumable_copy() {
    let db = db();
    let failing = |call: usize, kind, times| {
        let failures = (call..call + times).map(|call| (call, kind)).collect();
        Model { failures, ..model(60) }
    };
    let error = |model: &Model| {
        let error = import(model, &mut Faulty::new(&db, &[]), 1).unwrap_err();
        format!("{error:#}")
    };
    let refused = error(&failing(100, ErrorKind::Invalid, 1));
    assert_eq!(refused, "the source cannot be read: the model fails");
    let tired = error(&failing(40, ErrorKind::Unavailable, 12));
    assert_eq!(tired, "the source failed 12 times in a row: the model fails");
    let whole = model(60);
    let (before, copied) = import(&whole, &mut Faulty::new(&db, &[]), 1).unwrap();
    assert!(before.rows > 0 && copied.rows > 0);
    assert_eq!(before.plus(copied), tally_of(&whole));
    assert_same(&whole, &db);

    let faults: Vec<(usize, Fault)> = (1..13).map(|n| (n, Fault::Refused)).collect();
    let error = import(&whole, &mut Faulty::new(&self::db(), &faults), 1).unwrap_err();
    assert_eq!(format!("{error:#}"), "lab.readings failed 12 times in a row: the database fails");
}

#[test]
fn refused_row_is_named() {
    let mut model = model(60);
    let at = model.rows.iter().position(|(_, row)| row[1].is_some()).unwrap() + 3;
    model.rows[at].1[3] = Some(Bytes::from_static(&[0xff]));
    let (sensor, reading) = (model.rows[at].1[0].clone(), model.rows[at].1[1].clone());
    let number = |value: Option<Bytes>| i32::from_be_bytes(value.unwrap()[..].try_into().unwrap());
    let error = import(&model, &mut Faulty::new(&db(), &[]), 1).unwrap_err();
    let error = format!("{error:#}");
    let row = format!("the row sensor = {}, at = {}", number(sensor), number(reading));
    assert!(error.contains(&row) && error.contains("level"), "{error}");
}

#[test]
fn transactions_are_of_bounded_size() {
    let token = murmur3::token(&7_i32.to_be_bytes());
    let row = |at: i32, level: String| (token, vec![int(7), int(at), None, words(level)]);
    let wide = |count: i32, len: usize| Model {
        rows: (0..count).map(|at| row(at, "x".repeat(len))).collect(),
        page_rows_max: usize::MAX,
        ..Model::default()
    };
    for (model, statements, bytes) in
        [(wide(3_000, 10), 501, 40_000), (wide(90, 100_000), 13, 1 << 21)]
    {
        let db = db();
        let mut target = Faulty::new(&db, &[]);
        import(&model, &mut target, 1).unwrap();
        let largest = target.largest.into_inner().unwrap();
        // The first one stores the plan.
        assert!(largest.0 <= statements.max(usize::from(plan::RANGES) + 1), "{largest:?}");
        assert!(largest.1 <= bytes, "{largest:?}");
        assert_same(&model, &db);
    }
}

#[test]
fn table_of_another_shape_is_left_alone() {
    let db = db();
    let target = Embedded::new(db.clone());
    target
        .query("CREATE KEYSPACE lab WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
        .unwrap();
    target.query("CREATE TABLE lab.readings (sensor int PRIMARY KEY, place text)").unwrap();
    let error = import(&model(9), &mut Faulty::new(&db, &[]), 1).unwrap_err().to_string();
    assert!(error.contains("lab.readings exists and differs from"), "{error}");
    assert!(error.contains("column at is missing there"), "{error}");
    assert!(target.query("SELECT * FROM lab.readings").unwrap().is_empty());
}

#[test]
fn progress_belongs_to_one_source_and_table() {
    let (model, db) = (model(20), db());
    let mut target = Faulty::new(&db, &[]);
    import(&model, &mut target, 1).unwrap();
    let other = "table lab.readings of the cluster \"other\"";
    let error = begin_copy(&mut target, other, false).unwrap_err().to_string();
    assert!(error.contains(IDENTITY) && error.contains("--restart"), "{error}");
    assert_eq!(begin_copy(&mut target, other, true).unwrap().1.ranges, plan());
    // A new table of the same name has no progress.
    import_again(&model, &db);
    target.query("DROP TABLE lab.readings").unwrap();
    let (before, copied) = import(&model, &mut Faulty::new(&db, &[]), 1).unwrap();
    assert_eq!((before, copied), (Tally::default(), tally_of(&model)));
    assert_same(&model, &db);
}

#[test]
fn replaced_copy_writes_into_its_own_plan_and_ends() {
    let (model, db) = (model(60), db());
    let mut target = Faulty::new(&db, &[]);
    let (writer, old) = begin_copy(&mut target, IDENTITY, false).unwrap();
    let table = table();
    let copier = |job| Copier::new(&model, &target, &writer, job, Pace::new(None));
    let mut other = Faulty::new(&db, &[]);
    let (_, new) = begin_copy(&mut other, "another table", true).unwrap();
    // A transaction in progress.
    let range = Range { copied: old.ranges[0].through, ..old.ranges[0] };
    let values = progress::range_values(&table, &old.id, &range);
    target.commit(&[Write::whole(Statement::Range, values)]).unwrap();
    let error = copier(&old).run(1, |_| ()).unwrap_err().to_string();
    assert!(error.contains("has restarted"), "{error}");
    let (_, again) = begin_copy(&mut other, "another table", false).unwrap();
    assert_eq!((&again.id, &again.ranges), (&new.id, &plan()));
    copier(&again).run(2, |_| ()).unwrap();
    assert_same(&model, &db);
}

#[test]
fn emptied_copy_is_not_taken_as_complete() {
    let (model, db) = (model(20), db());
    let mut target = Faulty::new(&db, &[]);
    import(&model, &mut target, 1).unwrap();
    target.query("TRUNCATE lab.readings").unwrap();
    let error = import(&model, &mut target, 1).unwrap_err().to_string();
    assert!(error.contains("empty") && error.contains("--restart"), "{error}");
    import_again(&model, &db);
    assert_same(&model, &db);
}

#[test]
fn unreadable_plan_can_be_restarted() {
    let (model, db) = (model(20), db());
    let mut target = Faulty::new(&db, &[]);
    import(&model, &mut target, 1).unwrap();
    target.query("DELETE current FROM carnet_import.ranges WHERE target = 'lab.readings'").unwrap();
    let error = import(&model, &mut target, 1).unwrap_err().to_string();
    assert!(error.contains("--restart"), "{error}");
    import_again(&model, &db);
    assert_same(&model, &db);
}

fn import_again(model: &Model, db: &Db) {
    let mut target = Faulty::new(db, &[]);
    begin_copy(&mut target, IDENTITY, true).unwrap();
    import(model, &mut target, 1).unwrap();
}
