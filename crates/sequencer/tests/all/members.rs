//! Announcements of processes.

use std::time::Duration;

use carnet_base::{Bytes, ErrorKind};
use carnet_sequencer::{ANNOUNCEMENT_BYTES_MAX, LeaseOptions, Options};

use crate::support::{Database, Member, asking};

fn announce(database: &Database, member: &Member) {
    let what: Bytes = member.address.as_str().to_owned().into();
    database.run(member.log.announce(what)).unwrap();
}

/// Returns the announcements that a process has received.
fn heard(member: &Member) -> Vec<String> {
    let announced = member.log.announced();
    let mut heard: Vec<String> =
        announced.iter().map(|what| String::from_utf8(what.to_vec()).unwrap()).collect();
    heard.sort();
    heard
}

/// Lets seconds pass, and asserts that each of `members` always knows all of `keep`.
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

/// Starts three processes that know of each other; the first one leads.
fn three(database: &Database) -> [Member; 3] {
    let members = ["a", "b", "c"].map(|name| {
        // Staggered, so that they do not read the lease in step.
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
fn announcing_processes_learn_of_each_other() {
    let database = Database::new();
    let [a, _b, _c] = three(&database);
    let silent = database.start("silent");
    pass(&database, 8, &[&a], &["a", "b", "c"]);
    assert!(heard(&silent).is_empty());
    database.run(a.log.announce("a of now".into())).unwrap();
    assert_eq!(heard(&a), ["a of now", "b", "c"]);
}

#[test]
fn dead_and_withdrawn_processes_are_forgotten() {
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
fn dead_leader_loses_no_announcement_of_others() {
    for lease in [1, 60] {
        let database = with_lease(Duration::from_secs(lease));
        let [a, b, c] = three(&database);
        a.process.kill();
        // Drop it, so that it answers nothing any more.
        drop(a);
        pass(&database, 2 * lease + 20, &[&b, &c], &["b", "c"]);
        for member in [&b, &c] {
            assert_eq!(heard(member), ["b", "c"], "lease {lease}");
        }
    }
}

#[test]
fn only_the_leaving_leader_is_forgotten() {
    let database = Database::new();
    let [a, b, c] = three(&database);
    database.run(a.log.leave());
    pass(&database, 10, &[&b, &c], &["b", "c"]);
    assert_eq!((heard(&b), heard(&c)), (vec!["b".into(), "c".into()], heard(&b)));
}

#[test]
fn paused_leader_forgets_no_process() {
    // Other processes lead meanwhile and may forget it, or none does.
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

/// A driver that asks a server which has just come back would otherwise drop all other servers.
#[test]
fn restarted_process_learns_of_the_new_leader() {
    let database = Database::new();
    let [a, b, _c] = three(&database);
    database.run(a.log.leave());
    pass(&database, 2, &[&b], &["b", "c"]);
    let back = database.start("a2");
    announce(&database, &back);
    pass(&database, 5, &[&back], &["a2", "b", "c"]);
}

#[test]
fn too_long_announcement_is_refused_locally() {
    let database = Database::new();
    let member = database.start("a");
    for what in [Bytes::from(vec![1; ANNOUNCEMENT_BYTES_MAX + 1]), Bytes::new()] {
        let refused = database.run(member.log.announce(what)).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Invalid);
    }
}
