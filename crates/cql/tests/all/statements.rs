//! Golden statements, run one after the other, with their results.
//!
//! A script consists of blocks separated by an empty line: optional comments, a statement, `----`,
//! and its result. Each script runs on the memory store and on the embedded store with constant
//! flushing; the results must be equal. Rewrite the expected results with `UPDATE_GOLDENFILES=1
//! cargo test -p carnet-cql --test all statements::`, and read the diff.

use std::net::Ipv4Addr;

use carnet::{Db, Durability, Uuid, block_on};
use carnet_cql::result::{ChangeTarget, Response};
use carnet_cql::system::NodeInfo;
use carnet_cql::{Executor, Parameters, Session, Timestamps};

use crate::support::{blocks, table};

const SCRIPTS_FOLDER: &str = "statements";

/// Replaces ids of transactions, which are random.
fn without_ids(message: &str) -> String {
    let words = message.split(' ').map(|word| {
        let is_id = Uuid::try_parse(word).is_ok_and(|id| id.get_version_num() == 8);
        if is_id { "(id)" } else { word }
    });
    words.collect::<Vec<_>>().join(" ")
}

fn outcome(executor: &Executor, session: &Session, statement: &str) -> String {
    let response = block_on(executor.query(session, statement, &Parameters::default()));
    match response {
        Ok(Response::Void) => "ok\n".to_owned(),
        Ok(Response::Rows(rows)) => table::table(&rows),
        Ok(Response::SetKeyspace(keyspace)) => format!("using {keyspace}\n"),
        Ok(Response::SchemaChange(change)) => {
            let target = match change.target {
                ChangeTarget::Keyspace => String::new(),
                ChangeTarget::Table(name) | ChangeTarget::Type(name) => format!(".{name}"),
            };
            format!("{:?} {}{target}\n", change.kind, change.keyspace)
        }
        Err(error) => {
            let kind = format!("{:?}", error.kind());
            let kind = kind.split([' ', '(', '{']).next().unwrap_or_default();
            format!("{kind}: {}\n", without_ids(&error.to_string()))
        }
    }
}

fn run(executor: &Executor, script: &str) -> String {
    let session = Session::new();
    blocks::run(script, |statement| outcome(executor, &session, statement))
}

fn executor(db: Db) -> Executor {
    executor_with(db, Timestamps::default())
}

fn executor_with(db: Db, timestamps: Timestamps) -> Executor {
    let mut node = NodeInfo::local(Uuid::from_u64_pair(1, 2));
    node.address = Ipv4Addr::LOCALHOST.into();
    Executor::with_timestamps(db, node, timestamps)
}

fn check(name: &str) {
    let script = blocks::read(SCRIPTS_FOLDER, name);
    let timestamps = match name {
        "recorded" => Timestamps::Record,
        _ => Timestamps::default(),
    };
    let executor = |db| executor_with(db, timestamps);
    let in_memory = run(&executor(Db::builder().in_memory()), &script);
    let dir = tempfile::tempdir().expect("a temporary directory");
    let embedded = Db::builder()
        .durability(Durability::None)
        .flush_bytes(3_000)
        .open(dir.path().join("db"))
        .expect("an empty directory opens");
    assert_eq!(run(&executor(embedded), &script), in_memory, "{name}: the stores disagree");
    blocks::compare(SCRIPTS_FOLDER, name, &script, &in_memory);
}

macro_rules! scripts {
    ($($name:ident)*) => {
        const SCRIPTS: &[&str] = &[$(stringify!($name)),*];

        $(#[test] fn $name() { check(stringify!($name)); })*
    };
}

scripts! { aggregates alter arithmetic batches collections compact_storage conditions copies deletes element_times elements empty_conditions empty_values estimates explain folded_indexes forms functions groups indexes inserts intervals json keyspaces levels masks number_keys open orders raise ranges recorded roles scans scylladb slices statics tables transactions types unsupported updates user_types vectors views }

#[test]
fn no_script_is_forgotten() {
    blocks::check_none_forgotten(SCRIPTS_FOLDER, SCRIPTS);
}

#[test]
fn bypass_cache_leaves_the_cache_unchanged() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let db = Db::open(dir.path().join("db")).expect("an empty directory opens");
    let executor = executor(db.clone());
    let session = Session::new();
    let query = |text: &str| outcome(&executor, &session, text);
    query("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy'}");
    query("CREATE TABLE ks.t (k int PRIMARY KEY, v text)");
    for k in 0..200 {
        query(&format!("INSERT INTO ks.t (k, v) VALUES ({k}, 'value {k}')"));
    }
    db.flush().expect("the store works");
    query("SELECT v FROM ks.t WHERE k = 1000");
    let cached = || db.metrics().expect("an embedded store counts").cache_bytes;
    let before = cached();
    assert!(query("SELECT count(*) FROM ks.t BYPASS CACHE").contains("200"));
    assert_eq!(cached(), before);
    assert!(query("SELECT count(*) FROM ks.t").contains("200"));
    assert!(cached() > before);
}
