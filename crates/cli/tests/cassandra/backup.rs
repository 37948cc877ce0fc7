//! `carnet backup` and `carnet restore` around a copy that is made table by table, cell by cell
//! with its write time, during transfers.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use carnet::{Db, Key, block_on};
use carnet_base::{Rng, SeededRng};
use scylla::value::CqlValue;

use super::import::Cql;
use super::support::{carnet, fail, pause, succeed, text};
use super::{Account, Accounts, LONG_LEASE, loopback, node, store, transfer, variable};

const ACCOUNTS: i64 = 12;

/// A value and its write time.
type Written = (CqlValue, i64);

/// The key columns of a row, and its other values.
type CopiedRow = (Vec<Option<CqlValue>>, Vec<Option<Written>>);

/// Rows of a table.
struct Copied {
    table: String,
    key: &'static [&'static str],
    values: &'static [&'static str],
    rows: Vec<CopiedRow>,
}

impl Copied {
    fn of(cql: &Cql, keyspace: &str, table: &str) -> Self {
        let (key, values): (&[&str], &[&str]) = match table {
            "registers" => (&["name"], &["value"]),
            "commits2" | "commits3" => (&["row", "col"], &["epoch", "s", "c"]),
            _ => (&["pk", "ck", "ver"], &["tombstone", "payload", "stamp"]),
        };
        let times = values.iter().map(|value| format!("writetime({value})"));
        let columns: Vec<String> =
            key.iter().chain(values).map(ToString::to_string).chain(times).collect();
        let found = cql.values(&format!("SELECT {} FROM {keyspace}.{table}", columns.join(", ")));
        let split = |row: Vec<Option<CqlValue>>| {
            let (names, rest) = row.split_at(key.len());
            let (found, times) = rest.split_at(values.len());
            let written = found.iter().zip(times).map(|(value, time)| {
                let time = time.as_ref().and_then(CqlValue::as_bigint);
                Some((value.clone()?, time.unwrap()))
            });
            (names.to_vec(), written.collect())
        };
        let rows = found.into_iter().map(split).collect();
        Self { table: table.to_owned(), key, values, rows }
    }

    fn put_back(&self, cql: &Cql, keyspace: &str) {
        for (names, values) in &self.rows {
            for (column, written) in self.values.iter().zip(values) {
                let Some((value, time)) = written else { continue };
                // A row's static value is identified by its partition alone.
                let key = if *column == "epoch" { &self.key[..1] } else { self.key };
                let columns = key.join(", ");
                let marks = "?, ".repeat(key.len());
                let insert = format!(
                    "INSERT INTO {keyspace}.{} ({columns}, {column}) VALUES ({marks}?) \
                     USING TIMESTAMP {time}",
                    self.table
                );
                let names = names[..key.len()].iter().cloned();
                cql.run_with(&insert, names.chain([Some(value.clone())]).collect());
            }
        }
    }
}

fn tables(cql: &Cql, keyspace: &str) -> Vec<String> {
    let select =
        format!("SELECT table_name FROM system_schema.tables WHERE keyspace_name = '{keyspace}'");
    let name = |row: Vec<Option<CqlValue>>| row[0].as_ref().unwrap().as_text().unwrap().clone();
    cql.values(&select).into_iter().map(name).collect()
}

fn until(what: &Path) {
    for _ in 0..1200 {
        if what.exists() {
            return;
        }
        pause(Duration::from_millis(50));
    }
    panic!("{} does not come", what.display());
}

fn accounts(db: &Db) -> Accounts {
    db.table::<Key<(i64,)>, Account>("bank.accounts").unwrap()
}

#[test]
fn copied_tables_are_restored_to_one_moment() {
    // A restore waits until all leases have expired.
    let Some(url) = store(&format!("&lease=8s&leader_timeout=60s{}", loopback())) else { return };
    let seed =
        variable("CARNET_CLUSTER_SEED").unwrap_or_else(|| SeededRng::from_entropy().next_u64());
    println!("replay: CARNET_CLUSTER_SEED={seed} cargo test -p carnet-cli --test cassandra moment");
    let keyspace = url.split('?').next().unwrap().rsplit('/').next().unwrap().to_owned();
    let cql = Cql::connect(&node::node().unwrap().contact_point);
    let directory = tempfile::tempdir().unwrap();
    let path = |name| directory.path().join(name);
    let (label, begun, copied) = (path("label"), path("begun"), path("copied"));

    let db = Db::builder().retention(Duration::ZERO).open(&url).unwrap();
    let (bank, raw) = (accounts(&db), db.raw("raw").unwrap());
    db.transact(|tx| {
        raw.put(tx, "before", "v")?;
        (0..ACCOUNTS).try_for_each(|id| bank.put(tx, &Key((id,), ()), &Account { balance: 10 }))
    })
    .unwrap();
    let script = format!(
        "echo $CARNET_KEYSPACE > {0}.part && mv {0}.part {0}; until [ -e {1} ]; do sleep 0.05; done",
        begun.display(),
        copied.display()
    );
    let mut backup = carnet();
    backup.args(["backup", "--store", &url, "--label"]).arg(&label).args(["--", "sh", "-c"]);
    let backup = backup.arg(&script).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();

    let is_over = AtomicBool::new(false);
    let mut copies = Vec::new();
    thread::scope(|scope| {
        let (db, bank, is_over) = (&db, &bank, &is_over);
        for client in 0..3 {
            let mut rng = SeededRng::new(seed ^ client);
            scope.spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    let from = i64::try_from(rng.below(12)).unwrap();
                    transfer(db, bank, from, (from + 5) % ACCOUNTS).unwrap();
                }
            });
        }
        until(&begun);
        db.transact(|tx| raw.put(tx, "after", "v")).unwrap();
        db.raw("later").and_then(|later| db.transact(|tx| later.put(tx, "k", "v"))).unwrap();
        let held = db.compact().unwrap_err();
        assert!(held.to_string().contains("backup"), "{held}");
        // Each table at another moment: cells without their entries, and entries without their
        // cells.
        let mut names = tables(&cql, &keyspace);
        let mut rng = SeededRng::new(seed);
        while !names.is_empty() {
            let name = names.swap_remove(usize::try_from(rng.below(names.len() as u64)).unwrap());
            copies.push(Copied::of(&cql, &keyspace, &name));
            pause(Duration::from_millis(150));
        }
        fs::write(&copied, "").unwrap();
        let output = backup.wait_with_output().unwrap();
        is_over.store(true, Ordering::Relaxed);
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert!(text(&output.stdout).contains("every commit up to"), "{}", text(&output.stdout));
    });
    assert_eq!(fs::read_to_string(&begun).unwrap().trim(), keyspace);
    db.compact().unwrap();

    let mut restore = carnet();
    restore.args(["restore", "--store", &url, "--label"]).arg(&label);
    let alive = fail(&mut restore);
    assert!(alive.contains("leads the database"), "{alive}");
    block_on(db.leave());
    drop(db);
    for table in tables(&cql, &keyspace) {
        cql.run(&format!("TRUNCATE {keyspace}.{table}"));
    }
    for copy in &copies {
        copy.put_back(&cql, &keyspace);
    }
    let said = succeed(&mut restore);
    assert!(said.contains("every commit up to") && said.contains("were aborted"), "{said}");
    println!("{said}");

    let db = Db::builder().retention(Duration::ZERO).open(&url).unwrap();
    let (bank, raw) = (accounts(&db), db.raw("raw").unwrap());
    let total = |db: &Db| {
        let snapshot = db.snapshot().unwrap();
        bank.scan(&snapshot).map(|row| row.unwrap().1.balance).sum::<i64>()
    };
    assert_eq!(total(&db), 10 * ACCOUNTS, "seed {seed}");
    let there = |key: &str| raw.get(&db.snapshot().unwrap(), key).unwrap().is_some();
    assert!(there("before") && !there("after"), "seed {seed}");
    for from in 0..ACCOUNTS {
        transfer(&db, &bank, from, (from + 1) % ACCOUNTS).unwrap();
    }
    db.compact().unwrap();
    assert_eq!(total(&db), 10 * ACCOUNTS, "seed {seed}");
    block_on(db.leave());
    let again = fail(&mut restore);
    assert!(again.contains("in use after"), "{again}");
}

#[test]
fn failed_copy_makes_no_backup() {
    let Some(url) = store(LONG_LEASE) else { return };
    let directory = tempfile::tempdir().unwrap();
    let label = directory.path().join("label");
    let backup = |command: &[&str]| {
        let mut backup = carnet();
        backup.args(["backup", "--store", &url, "--label"]).arg(&label);
        if !command.is_empty() {
            backup.arg("--").args(command);
        }
        backup
    };
    let error = fail(&mut backup(&[]));
    assert!(error.contains("give the command"), "{error}");
    let output = backup(&["sh", "-c", "exit 7"]).output().unwrap();
    assert_eq!(output.status.code(), Some(7), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("no backup was made"), "{}", text(&output.stderr));
    let error = fail(&mut backup(&["/there/is/no/such/program"]));
    assert!(error.contains("cannot run"), "{error}");
    assert!(!label.exists());
    // No failed backup still holds garbage collection back.
    succeed(&mut backup(&["true"]));
    assert!(fs::read_to_string(&label).unwrap().starts_with("carnet cluster backup 1\n"));
    let error = fail(&mut backup(&["true"]));
    assert!(error.contains("exists already"), "{error}");
    fs::write(&label, "carnet cluster backup 1\nend 00000000\n").unwrap();
    let error = fail(carnet().args(["restore", "--store", &url, "--label"]).arg(&label));
    assert!(error.contains("damaged"), "{error}");
}
