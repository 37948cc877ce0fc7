//! The cell cache: reads without the cluster, never stale.

use std::sync::Arc;

use carnet_base::{Bytes, Clock as _, ErrorKind, Tasks as _, block_on};
use carnet_sequencer::Options;
use carnet_sequencer::message::{Changes, ClientId, LeaderRequest, Response, Token};
use carnet_store::cluster::{
    Acknowledge, ClusterCells, Register, Statement, VersionName, VersionWrite,
};
use carnet_store::{At, BeginKind, CellStore, CommitLog, CommitRequest, Context, ReadSet};
use carnet_txn::{Isolation, reader};

use crate::support::scripted::Op;
use crate::support::{Database, Member, TABLE, cell, put};

const ONE: &[u8] = b"one";
const TWO: &[u8] = b"two";

fn database() -> Database {
    Database::with(Options::default())
}

/// Returns the value that a strict snapshot of a process sees.
fn sees(database: &Database, member: &Member, name: &str) -> Option<Bytes> {
    let begun = database.begin(member, BeginKind::ReadOnly);
    let seen = database.read(member, &cell(name), begun.read);
    member.log.end(begun);
    seen
}

/// Commits a version that the cluster then loses: a process that still sees it has not read the
/// cluster.
fn put_and_lose(database: &Database, member: &Member, name: &str) {
    let begun = database.writer(member);
    let version = VersionName { key: cell(name), start: begun.start.unwrap() };
    database.commit(member, begun, &cell(name), "one").unwrap();
    block_on(database.replicas.memory.delete_versions(&[version], Acknowledge::All)).unwrap();
}

#[test]
fn own_writes_are_read_from_the_cache() {
    let database = database();
    let (leader, follower) = (database.start("leader"), database.start("follower"));
    for member in [&leader, &follower] {
        let name = member.address.as_str();
        put_and_lose(&database, member, name);
        assert_eq!(sees(&database, member, name).as_deref(), Some(ONE));
    }
    assert_eq!(sees(&database, &follower, "leader"), None, "that one never saw it");
}

#[test]
fn repeated_reads_are_answered_from_the_cache() {
    let database = database();
    let (leader, follower) = (database.start("leader"), database.start("follower"));
    let names = ["x", "y"];
    for name in names {
        database.put(&leader, &cell(name), "one");
    }
    let keys = [cell("x"), cell("nothing"), cell("y")];
    let read_many = || {
        let begun = database.begin(&follower, BeginKind::ReadOnly);
        let context = Context::unbounded();
        let read = reader::read_many(&*follower.log, &context, &keys, begun.read, usize::MAX);
        let found = database.run(read).unwrap();
        follower.log.end(begun);
        found.into_iter().map(|version| version.and_then(|version| version.payload)).collect()
    };
    assert_eq!(sees(&database, &follower, "x").as_deref(), Some(ONE));
    let first: Vec<Option<Bytes>> = read_many();
    // Now the outcomes of their transactions are known.
    assert_eq!(read_many(), first);
    follower.cluster.hold(Op::Read(Register::SweepMark));
    assert_eq!(read_many(), first);
    let expected = [Some(ONE), None, Some(ONE)];
    assert_eq!(first.iter().map(Option::as_deref).collect::<Vec<_>>(), expected);
}

#[test]
fn next_snapshot_sees_writes_of_other_processes() {
    let database = database();
    let (leader, follower) = (database.start("leader"), database.start("follower"));
    for (reader, writer) in [(&leader, &follower), (&follower, &leader)] {
        database.put(writer, &cell("x"), "one");
        assert_eq!(sees(&database, reader, "x").as_deref(), Some(ONE));
        let before = database.begin(reader, BeginKind::ReadOnly);
        database.put(writer, &cell("x"), "two");
        assert_eq!(database.read(reader, &cell("x"), before.read).as_deref(), Some(ONE));
        assert_eq!(sees(&database, reader, "x").as_deref(), Some(TWO));
        assert_eq!(database.read(reader, &cell("x"), before.read).as_deref(), Some(ONE));
        reader.log.end(before);
    }
}

#[test]
fn absent_cell_is_found_once_written() {
    let database = database();
    let (leader, follower) = (database.start("leader"), database.start("follower"));
    assert_eq!(sees(&database, &follower, "x"), None);
    database.put(&leader, &cell("x"), "one");
    assert_eq!(sees(&database, &follower, "x").as_deref(), Some(ONE));
}

/// A read that bypasses the cache uses cached cells, but caches none.
#[test]
fn bypassing_read_caches_nothing() {
    let database = database();
    let leader = database.start("leader");
    let name = VersionName { key: cell("x"), start: database.writer(&leader).start.unwrap() };
    put_and_lose(&database, &leader, "kept");
    let begun = database.begin(&leader, BeginKind::ReadOnly);
    let passing = Context::unbounded().bypassing_cache();
    let get = |context: &Context, name: &str| {
        let (key, at) = (cell(name), At::snapshot(begun.read));
        database.run(leader.log.get(context, &key, at)).unwrap()
    };
    assert!(get(&passing, "kept").is_some());
    assert_eq!(get(&passing, "x"), None);
    let late =
        VersionWrite { key: name.key, start: name.start, statement: Statement(1), payload: None };
    block_on(database.replicas.memory.write_versions(&Context::unbounded(), &[late])).unwrap();
    assert!(get(&passing, "x").is_some(), "that it was not there has not been kept");
}

#[test]
fn cached_read_fails_after_its_deadline() {
    let database = database();
    let leader = database.start("leader");
    put_and_lose(&database, &leader, "x");
    let begun = database.begin(&leader, BeginKind::ReadOnly);
    let late = Context::until(database.world.time.now());
    let (x, at) = (cell("x"), At::snapshot(begun.read));
    let refused = block_on(leader.log.get(&late, &x, at)).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Timeout);
}

/// A leader knows no changes of terms before its own.
#[test]
fn new_leader_empties_the_cache() {
    let database = database();
    let (leader, follower) = (database.start("leader"), database.start("follower"));
    database.put(&leader, &cell("x"), "one");
    assert_eq!(sees(&database, &follower, "x").as_deref(), Some(ONE));
    database.put(&leader, &cell("x"), "two");
    leader.process.pause();
    database.let_lease_run_out();
    assert!(follower.log.is_leading());
    assert_eq!(sees(&database, &follower, "x").as_deref(), Some(TWO));
}

/// Reads from the cache are checked for conflicts like any other.
#[test]
fn cached_reads_are_checked_for_conflicts() {
    let database = database();
    let (leader, follower) = (database.start("leader"), database.start("follower"));
    database.put(&leader, &cell("x"), "one");
    assert_eq!(sees(&database, &follower, "x").as_deref(), Some(ONE));
    let transaction = database.transaction(&follower, Isolation::Serializable);
    database.put(&leader, &cell("x"), "two");
    let read = database.run(transaction.get(&cell("x"))).unwrap().unwrap();
    assert_eq!(read.payload, ONE, "as its snapshot sees it");
    transaction.put(cell("y"), Bytes::from_static(TWO)).unwrap();
    let refused = database.run(transaction.commit()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Conflict);
}

#[test]
fn dropped_table_is_removed_from_the_cache() {
    let database = database();
    let (leader, follower) = (database.start("leader"), database.start("follower"));
    database.put(&leader, &cell("x"), "one");
    for member in [&leader, &follower] {
        assert_eq!(sees(&database, member, "x").as_deref(), Some(ONE));
    }
    let begun = database.writer(&follower);
    let start = begun.start.unwrap();
    let mut request = CommitRequest::new(begun, start, ReadSet::default(), Vec::new());
    request.drops = vec![TABLE];
    database.run(follower.log.commit(&Context::unbounded(), request)).unwrap();
    follower.log.end(begun);
    for member in [&leader, &follower] {
        assert_eq!(sees(&database, member, "x"), None, "{}", member.address);
    }
}

/// A decided commit that is not yet resolved is not among the changes: no snapshot sees it.
#[test]
fn unresolved_commit_is_not_among_the_changes() {
    let database = database();
    let (leader, follower) = (database.start("leader"), database.start("follower"));
    database.put(&leader, &cell("x"), "one");
    assert_eq!(sees(&database, &follower, "x").as_deref(), Some(ONE));
    let begun = database.writer(&leader);
    let gate = leader.cluster.hold(Op::Put);
    let context = Context::unbounded();
    let log = Arc::clone(&leader.log);
    let commit = Box::pin(async move {
        log.commit(&Context::unbounded(), put(begun, &cell("x"), "two")).await.unwrap();
    });
    leader.process.spawn(commit);
    database.world.settle();
    assert_eq!(gate.arrived(), 1);
    let stale = context.accepting_stale();
    let before = database.run(follower.log.begin(&stale, BeginKind::ReadOnly)).unwrap();
    assert_eq!(database.read(&follower, &cell("x"), before.read).as_deref(), Some(ONE));
    gate.open();
    database.world.settle();
    assert_eq!(sees(&database, &follower, "x").as_deref(), Some(TWO));
}

/// A process that has not begun a transaction for long gets `Unknown` instead of all changes.
#[test]
fn changes_start_at_the_known_snapshot() {
    let database = database();
    let leader = database.start("leader");
    let begin = |known| {
        let (client, token) = (ClientId(1), Token(1));
        let kind = BeginKind::ReadOnly;
        let request = LeaderRequest::Begin { client, token, kind, is_strict: false, known };
        let handled = database.run(leader.log.handler().handle(request));
        let Response::Released(released, changes) = handled else { panic!("{handled:?}") };
        let end = LeaderRequest::End { client, token };
        database.run(leader.log.handler().handle(end));
        (released.read, changes)
    };
    let (first, untold) = begin(None);
    assert_eq!(untold, Changes::Unknown);
    let (x, y) = (cell("x"), cell("y"));
    let commits = [database.put(&leader, &x, "one"), database.put(&leader, &y, "one")];
    let all = [(x.hash(), commits[0]), (y.hash(), commits[1])];
    assert_eq!(begin(Some(first)), (commits[1], Changes::Cells(all.to_vec())));
    assert_eq!(begin(Some(commits[0])), (commits[1], Changes::Cells(all[1..].to_vec())));
    assert_eq!(begin(first.previous()), (commits[1], Changes::Unknown));
}
