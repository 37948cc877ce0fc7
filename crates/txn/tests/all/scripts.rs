//! Golden scripts: anomalies by name, each under `snapshot` and under `strict`, as stories.
//!
//! A script's commands are prefixed with the transaction that runs them. Rewrite the expected
//! output with `UPDATE_GOLDENFILES=1 cargo test -p carnet-txn --test all scripts::`, and read the diff.
//!
//! ```text
//! t1: begin snapshot|serializable|strict [readonly]
//! t1: get x            t1: put x=1        t1: delete x
//! t1: range a d        reads every cell from a up to, not including, d, in pages of two
//! t1: guard a d        depends on that range at every isolation level
//! t1: commit           t1: rollback
//! stamp                writes commit timestamps into versions, as a sweep does
//! crashed x=9          a client writes x and dies before its commit
//! ```

use std::collections::HashMap;
use std::error::Error;
use std::fmt::Write as _;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

use carnet_base::{Bytes, CellKey, KeyRange, PartitionKey, TableId, Timestamp, block_on};
use carnet_store::{BeginKind, CommitLog, Context, MemoryStore, PageLimit};
use carnet_txn::{CommitChecker, Isolation, Transaction};
use goldenscript::Argument;

struct Script {
    store: Arc<MemoryStore>,
    transactions: HashMap<String, Transaction>,
}

impl Script {
    fn new() -> Self {
        let order = Box::new(CommitChecker::starting_at(Timestamp::ZERO));
        Self { store: Arc::new(MemoryStore::new(order)), transactions: HashMap::new() }
    }

    fn begin(&self, words: &[&str]) -> Result<Transaction, Box<dyn Error>> {
        let isolation = match words.first() {
            Some(&"snapshot") => Isolation::Snapshot,
            Some(&"serializable") => Isolation::Serializable,
            Some(&"strict") => Isolation::StrictSerializable,
            other => return Err(format!("no isolation level: {other:?}").into()),
        };
        let kind = match words.get(1) {
            Some(&"readonly") => BeginKind::ReadOnly,
            None => BeginKind::ReadWrite,
            other => return Err(format!("no kind of transaction: {other:?}").into()),
        };
        let store = Arc::clone(&self.store);
        Ok(block_on(Transaction::begin(store, Context::unbounded(), kind, isolation))?)
    }

    fn leave_crashed(&self, assignment: &str) -> Result<(), Box<dyn Error>> {
        let (name, value) = split(assignment)?;
        let begun = block_on(self.store.begin(&Context::unbounded(), BeginKind::ReadWrite))?;
        let start = begun.start.ok_or("a writer has a start")?;
        self.store.leave_undecided(start, cell(name), Some(Bytes::from(value.to_owned())));
        self.store.end(begun);
        Ok(())
    }
}

fn partition() -> PartitionKey {
    PartitionKey::new("p")
}

fn cell(name: &str) -> CellKey {
    CellKey::new(TableId(1000), &partition(), name)
}

fn range(from: &str, to: &str) -> KeyRange {
    let bound = |name: &str| Bytes::from(name.to_owned());
    let (lower, upper) = (Bound::Included(bound(from)), Bound::Excluded(bound(to)));
    KeyRange::clustering(TableId(1000), &partition(), lower, upper)
}

fn split(assignment: &str) -> Result<(&str, &str), Box<dyn Error>> {
    assignment.split_once('=').ok_or_else(|| format!("{assignment}: no name=value").into())
}

fn text(payload: &[u8]) -> String {
    String::from_utf8_lossy(payload).into_owned()
}

fn read_range(tx: &Transaction, from: &str, to: &str) -> carnet_base::Result<String> {
    let mut found = String::new();
    let mut rest = Some(range(from, to));
    while let Some(range) = rest {
        let page = block_on(tx.range(&range, false, PageLimit::cells(2)))?;
        for cell in page.cells.iter() {
            let _ = writeln!(found, "{}={}", text(cell.key.clustering()), text(cell.payload));
        }
        rest = page.resume;
    }
    Ok(if found.is_empty() { "nothing\n".to_owned() } else { found })
}

impl goldenscript::Runner for Script {
    type Command = goldenscript::Command;

    fn run(
        &mut self,
        command: &goldenscript::Command,
        context: &goldenscript::Context,
    ) -> Result<String, Box<dyn Error>> {
        let words: Vec<String> = command
            .args
            .iter()
            .map(|arg| match arg {
                Argument::KeyValue(key, value) => format!("{key}={value}"),
                arg => arg.to_string(),
            })
            .collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let Some(name) = &context.prefix else {
            match (command.name.as_str(), &words[..]) {
                ("stamp", []) => self.store.stamp(),
                ("crashed", [assignment]) => self.leave_crashed(assignment)?,
                other => return Err(format!("unknown command {other:?}").into()),
            }
            return Ok(String::new());
        };
        if command.name == "begin" {
            let transaction = self.begin(&words)?;
            self.transactions.insert(name.clone(), transaction);
            return Ok(String::new());
        }
        let tx = self.transactions.get(name).ok_or("begin it first")?;
        let result = match (command.name.as_str(), &words[..]) {
            ("get", [name]) => block_on(tx.get(&cell(name))).map(|found| match found {
                Some(entry) => format!("{name}={}\n", text(&entry.payload)),
                None => format!("{name} is not there\n"),
            }),
            ("put", [assignment]) => {
                let (name, value) = split(assignment)?;
                tx.put(cell(name), Bytes::from(value.to_owned())).map(|()| String::new())
            }
            ("delete", [name]) => tx.delete(cell(name)).map(|()| String::new()),
            ("range", [from, to]) => read_range(tx, from, to),
            ("guard", [from, to]) => tx.guard_range(range(from, to)).map(|()| String::new()),
            ("commit", []) => block_on(tx.commit()).map(|at| format!("committed at {at}\n")),
            ("rollback", []) => {
                tx.rollback();
                Ok(String::new())
            }
            other => return Err(format!("unknown command {other:?}").into()),
        };
        Ok(result.unwrap_or_else(|error| format!("{:?}: {error}\n", error.kind())))
    }
}

fn run_all(folder: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testscripts").join(folder);
    let mut count = 0;
    for entry in std::fs::read_dir(&folder).expect("the folder of scripts is there") {
        let path = entry.expect("the folder can be listed").path();
        goldenscript::run(&mut Script::new(), &path)
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        count += 1;
    }
    assert!(count > 0, "{} holds no script", folder.display());
}

#[test]
fn anomalies() {
    run_all("anomalies");
}

#[test]
fn visibility() {
    run_all("visibility");
}
