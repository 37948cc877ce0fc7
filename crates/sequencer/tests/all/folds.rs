//! The row of a cell is written in place of its deltas, so that chains stay short.

use carnet_base::{CellKey, ColumnId, KeyRange, Timestamp, Version, block_on};
use carnet_data::RowDelta;
use carnet_data::row::{Change, RowImage};
use carnet_sequencer::Options;
use carnet_store::cluster::ClusterCells;
use carnet_store::{
    BeginKind, CommitLog, CommitRequest, Context, PageLimit, ReadSet, Write, looks_like_delta,
};

use crate::support::scripted::{Effect, Op};
use crate::support::{Database, Member, TABLE, cell};

const COLUMN: ColumnId = ColumnId(4);
const MANY: PageLimit = PageLimit { cells: 1000, bytes: usize::MAX };

fn start(database: &Database, name: &str) -> Member {
    let member = database.start(name);
    member.log.row_tables().set_raw([]);
    member
}

/// Adds one to the counter of a row that is not read.
fn add(database: &Database, member: &Member, key: &CellKey) -> Timestamp {
    let mut delta = RowDelta::new(1);
    delta.change(COLUMN, Change::Added(1));
    let begun = database.writer(member);
    let writes = vec![Write { key: key.clone(), payload: Some(delta.encode()) }];
    let request = CommitRequest::new(begun, begun.start.unwrap(), ReadSet::default(), writes);
    let committed = database.run(member.log.commit(&Context::unbounded(), request)).unwrap();
    member.log.end(begun);
    database.world.settle();
    committed
}

fn counter(database: &Database, member: &Member, key: &CellKey) -> i64 {
    let begun = database.begin(member, BeginKind::ReadOnly);
    let row = database.read(member, key, begun.read).unwrap();
    member.log.end(begun);
    let row = RowImage::decode(&row).unwrap();
    i64::from_be_bytes(row.value(COLUMN).unwrap()[..].try_into().unwrap())
}

/// Returns the versions of a cell in the cluster, newest first.
fn versions(database: &Database, key: &CellKey) -> Vec<Version> {
    let range = KeyRange::table(TABLE);
    let page = block_on(database.replicas.memory.scan_versions(&range, MANY)).unwrap();
    page.cells.into_iter().find(|found| found.key == *key).unwrap().versions
}

/// Returns the largest number of deltas above a row.
fn longest_chain(database: &Database, key: &CellKey) -> usize {
    let versions = versions(database, key);
    let chains = versions.split(|version| !looks_like_delta(version));
    chains.map(<[Version]>::len).max().unwrap_or(0)
}

#[test]
fn chain_of_all_processes_stays_short() {
    let database = Database::new();
    let members = ["leader", "one", "other"].map(|name| start(&database, name));
    let key = cell("x");
    for round in 0..100 {
        add(&database, &members[round % 3], &key);
    }
    assert_eq!(versions(&database, &key).len(), 100);
    assert_eq!(longest_chain(&database, &key), 7, "each eighth version has the row");
    let reads = database.replicas.memory.cell_reads();
    assert_eq!(counter(&database, &members[1], &key), 100);
    assert_eq!(database.replicas.memory.cell_reads() - reads, 13, "one, and twelve below it");
}

#[test]
fn failed_fold_is_repeated_by_the_next_commit() {
    let database = Database::new();
    let (leader, follower) = (start(&database, "leader"), start(&database, "follower"));
    let key = cell("x");
    // The leader writes nothing but the row.
    leader.cluster.script(Op::Write, 1, Effect::LoseRequest);
    for _ in 0..9 {
        add(&database, &follower, &key);
    }
    assert_eq!(longest_chain(&database, &key), 8);
    assert!(!looks_like_delta(&versions(&database, &key)[0]), "the ninth has the row");
    assert_eq!(counter(&database, &leader, &key), 9);
}

/// The table of a delta that is no row may hold any bytes.
#[test]
fn cells_of_raw_tables_are_not_folded() {
    let database = Database::with(Options { cell_cache_bytes: 0, ..Options::default() });
    let leader = database.start("leader");
    leader.log.row_tables().set_raw([TABLE]);
    let key = cell("x");
    for _ in 0..20 {
        add(&database, &leader, &key);
    }
    assert!(versions(&database, &key).iter().all(looks_like_delta));
}
