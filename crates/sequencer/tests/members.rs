//! Processes that announce themselves to each other.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use std::time::Duration;

use carnet_base::{Bytes, ErrorKind};
use carnet_sequencer::{ANNOUNCEMENT_BYTES_MAX, LeaseOptions, Options};

use common::{Database, Member, asking};

fn announce(database: &Database, member: &Member) {
    let what: Bytes = member.address.as_str().to_owned().into();
    database.run(member.log.announce(what)).unwrap();
}

/// What a process was told that all announce.
fn heard(member: &Member) -> Vec<String> {
    let announced = member.log.announced();
    let mut heard: Vec<String> =
        announced.iter().map(|what| String::from_utf8(what.to_vec()).unwrap()).collect();
    heard.sort();
    heard
}

/// Lets seconds pass, in which some are never without some.
fn pass(database: &Database, seconds: u64, members: &[&Member], keep: &[&str]) {
    for _ in 0..seconds * 10 {
        database.world.pass(Duration::from_millis(100));
        for member in members {
            let heard = heard(member);
            let lacks = keep.iter().find(|name| !heard.iter().any(|known| known == *name));
            assert_eq!(lacks, None, "{heard:?}");
        }
    }
}

/// Three processes that have heard of each other; the first one leads.
fn three(database: &Database) -> [Member; 3] {
    let members = ["a", "b", "c"].map(|name| {
        // They do not look at the lease in step.
        pass(database, 7, &[], &[]);
        database.start(name)
    });
    members.iter().for_each(|member| announce(database, member));
    pass(database, 2, &[], &[]);
    for member in &members {
        assert_eq!(heard(member), ["a", "b", "c"]);
    }
    pass(database, 6, &members.each_ref(), &["a", "b", "c"]);
    members
}

fn with_lease(timeout: Duration) -> Database {
    let lease = LeaseOptions { timeout, renew_every: timeout / 4, ..LeaseOptions::default() };
    Database::with(Options { lease, ..asking() })
}

#[test]
fn processes_hear_of_each_other_and_who_announces_nothing_of_nobody() {
    let database = Database::new();
    let [a, _b, _c] = three(&database);
    let silent = database.start("silent");
    pass(&database, 8, &[&a], &["a", "b", "c"]);
    assert!(heard(&silent).is_empty());
    database.run(a.log.announce("a of now".into())).unwrap();
    assert_eq!(heard(&a), ["a of now", "b", "c"]);
}

#[test]
fn who_dies_is_forgotten_in_seconds_and_who_withdraws_at_once() {
    let database = Database::new();
    let [a, b, c] = three(&database);
    c.process.kill();
    pass(&database, 12, &[&a, &b], &["a", "b"]);
    assert_eq!(heard(&a), ["a", "b"]);
    b.log.withdraw();
    pass(&database, 2, &[&a], &["a"]);
    assert_eq!(heard(&a), ["a"]);
    announce(&database, &b);
    pass(&database, 2, &[&a], &["a"]);
    pass(&database, 10, &[&a, &b], &["a", "b"]);
    database.run(b.log.leave());
    pass(&database, 2, &[&a], &["a"]);
    assert_eq!(heard(&a), ["a"]);
}

#[test]
fn nobody_is_forgotten_because_the_leader_dies() {
    for lease in [1, 60] {
        let database = with_lease(Duration::from_secs(lease));
        let [a, b, c] = three(&database);
        a.process.kill();
        // Nothing of it answers any more.
        drop(a);
        pass(&database, 2 * lease + 20, &[&b, &c], &["b", "c"]);
        for member in [&b, &c] {
            assert_eq!(heard(member), ["b", "c"], "lease {lease}");
        }
    }
}

#[test]
fn a_leader_that_leaves_is_forgotten_in_seconds_and_nobody_else_is() {
    let database = Database::new();
    let [a, b, c] = three(&database);
    database.run(a.log.leave());
    pass(&database, 10, &[&b, &c], &["b", "c"]);
    assert_eq!((heard(&b), heard(&c)), (vec!["b".into(), "c".into()], heard(&b)));
}

#[test]
fn a_leader_that_sleeps_forgets_nobody() {
    // Others lead meanwhile, who may forget him, or nobody does.
    let others: &[&str] = &["b", "c"];
    for (lease, sleeps, keep) in [(1, 6, others), (60, 6, &["a", "b", "c"]), (60, 15, others)] {
        let database = with_lease(Duration::from_secs(lease));
        let [a, b, c] = three(&database);
        a.process.pause();
        pass(&database, sleeps, &[&a, &b, &c], keep);
        a.process.resume();
        pass(&database, 30, &[&a, &b, &c], keep);
        assert_eq!(heard(&b), ["a", "b", "c"]);
    }
}

/// A driver that asks a server which has just come back would let go of all others.
#[test]
fn who_comes_back_under_a_new_leader_hears_of_him_at_once() {
    let database = Database::new();
    let [a, b, _c] = three(&database);
    database.run(a.log.leave());
    pass(&database, 2, &[&b], &["b", "c"]);
    let back = database.start("a2");
    announce(&database, &back);
    pass(&database, 5, &[&back], &["a2", "b", "c"]);
}

#[test]
fn an_announcement_that_is_too_long_is_refused_where_it_is_made() {
    let database = Database::new();
    let member = database.start("a");
    for what in [Bytes::from(vec![1; ANNOUNCEMENT_BYTES_MAX + 1]), Bytes::new()] {
        let refused = database.run(member.log.announce(what)).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Invalid);
    }
}
