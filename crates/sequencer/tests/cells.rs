//! Cells that processes keep: read without the cluster, and never stale.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use std::sync::Arc;

use carnet_base::{Bytes, Clock as _, ErrorKind, Tasks as _, block_on};
use carnet_sequencer::Options;
use carnet_sequencer::message::{Changes, ClientId, Request, Response, Token};
use carnet_store::cluster::{
    Acknowledge, ClusterCells, Register, Statement, VersionName, VersionWrite,
};
use carnet_store::{At, BeginKind, CellStore, CommitLog, CommitRequest, Context, ReadSet};
use carnet_txn::{Isolation, reader};

use common::scripted::Op;
use common::{Database, Member, TABLE, cell, put};

const ONE: &[u8] = b"one";
const TWO: &[u8] = b"two";

fn database() -> Database {
    Database::with(Options::default())
}

/// What a strict snapshot of a process sees.
fn sees(database: &Database, member: &Member, name: &str) -> Option<Bytes> {
    let begun = database.begin(member, BeginKind::ReadOnly);
    let seen = database.read(member, &cell(name), begun.read);
    member.log.end(begun);
    seen
}

/// Loses the version that a writer is about to commit: who sees it nevertheless did not ask.
fn put_and_lose(database: &Database, member: &Member, name: &str) {
    let begun = database.writer(member);
    let version = VersionName { key: cell(name), start: begun.start.unwrap() };
    database.commit(member, begun, &cell(name), "one").unwrap();
    block_on(database.replicas.memory.delete_versions(&[version], Acknowledge::All)).unwrap();
}

#[test]
fn what_was_written_here_is_read_without_the_cluster() {
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
fn what_was_read_here_is_read_no_more_alone_and_in_company() {
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
        let read = reader::read_many(&*follower.log, &context, &keys, begun.read);
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
fn what_others_write_is_seen_by_the_next_snapshot_and_not_by_this_one() {
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
fn what_was_looked_for_in_vain_is_found_when_it_is_there() {
    let database = database();
    let (leader, follower) = (database.start("leader"), database.start("follower"));
    assert_eq!(sees(&database, &follower, "x"), None);
    database.put(&leader, &cell("x"), "one");
    assert_eq!(sees(&database, &follower, "x").as_deref(), Some(ONE));
}

/// Whoever reads past caches finds what is kept, and has nothing kept.
#[test]
fn who_passes_the_cache_by_leaves_it_as_it_was() {
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
fn behind_its_deadline_a_read_from_memory_fails_as_any_other() {
    let database = database();
    let leader = database.start("leader");
    put_and_lose(&database, &leader, "x");
    let begun = database.begin(&leader, BeginKind::ReadOnly);
    let late = Context::until(database.world.time.now());
    let refused = leader.log.kept(&late, &cell("x"), At::snapshot(begun.read)).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Timeout);
}

/// Of what the one before it decided a leader tells nothing.
#[test]
fn a_new_leader_does_not_vouch_for_what_was_kept_before() {
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

/// What a read from memory relied on is checked as any other.
#[test]
fn a_transaction_that_read_from_memory_meets_its_conflicts() {
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
fn a_dropped_table_takes_what_is_kept_of_it_along() {
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

/// A commit that is decided and not yet resolved is not told: no snapshot sees it.
#[test]
fn what_is_under_way_is_told_with_the_snapshot_that_sees_it() {
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

/// A process that has not begun for long is told that it knows nothing, instead of everything.
#[test]
fn what_changed_is_told_from_where_a_process_knows_it() {
    let database = database();
    let leader = database.start("leader");
    let begin = |known| {
        let (client, token) = (ClientId(1), Token(1));
        let kind = BeginKind::ReadOnly;
        let request = Request::Begin { client, token, kind, is_strict: false, known };
        let handled = database.run(leader.log.handler().handle(request));
        let Response::Released(released, changes) = handled else { panic!("{handled:?}") };
        let end = Request::End { client, token };
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
