//! Processes that announce themselves to each other.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use std::time::Duration;

use carnet_base::{Bytes, ErrorKind};
use carnet_sequencer::ANNOUNCEMENT_BYTES_MAX;

use common::{Database, Member};

fn announce(member: &Member) {
    member.log.announce(member.address.as_str().to_owned().into()).unwrap();
}

fn pass(database: &Database, seconds: u64) {
    database.world.pass(Duration::from_secs(seconds));
}

/// What a process was told that all announce.
fn heard(member: &Member) -> Vec<String> {
    let announced = member.log.announced();
    let mut heard: Vec<String> =
        announced.iter().map(|what| String::from_utf8(what.to_vec()).unwrap()).collect();
    heard.sort();
    heard
}

/// Three processes that have heard of each other; the first one leads.
fn three(database: &Database) -> [Member; 3] {
    let members = ["a", "b", "c"].map(|name| database.start(name));
    members.iter().for_each(announce);
    pass(database, 8);
    for member in &members {
        assert_eq!(heard(member), ["a", "b", "c"]);
    }
    members
}

#[test]
fn processes_hear_of_each_other_and_who_announces_nothing_of_nobody() {
    let database = Database::new();
    let [a, _b, _c] = three(&database);
    let silent = database.start("silent");
    pass(&database, 8);
    assert!(heard(&silent).is_empty());
    assert_eq!(heard(&a), ["a", "b", "c"]);
    a.log.announce("a of now".into()).unwrap();
    pass(&database, 3);
    assert_eq!(heard(&a), ["a of now", "b", "c"]);
}

#[test]
fn who_dies_is_forgotten_in_seconds_and_who_leaves_at_once() {
    let database = Database::new();
    let [a, b, c] = three(&database);
    c.process.kill();
    pass(&database, 7);
    assert_eq!(heard(&a), ["a", "b"]);
    database.run(b.log.leave());
    pass(&database, 2);
    assert_eq!(heard(&a), ["a"]);
}

#[test]
fn nobody_is_forgotten_because_the_leader_changes() {
    let database = Database::new();
    let [a, b, c] = three(&database);
    a.process.kill();
    for _ in 0..40 {
        database.world.pass(Duration::from_millis(250));
        for member in [&b, &c] {
            assert!(heard(member).ends_with(&["b".into(), "c".into()]), "{:?}", heard(member));
        }
    }
    pass(&database, 5);
    assert_eq!((heard(&b), heard(&c)), (vec!["b".into(), "c".into()], heard(&b)));
}

#[test]
fn an_announcement_that_is_too_long_is_refused_where_it_is_made() {
    let database = Database::new();
    let member = database.start("a");
    let long = Bytes::from(vec![1; ANNOUNCEMENT_BYTES_MAX + 1]);
    assert_eq!(member.log.announce(long).unwrap_err().kind(), ErrorKind::Invalid);
}
