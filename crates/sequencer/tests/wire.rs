//! Processes of one database that talk over TCP.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod tcp;

use carnet_base::block_on;
use carnet_sequencer::{Secret, Security, TcpNetwork};
use carnet_store::{BeginKind, CommitLog, Context};

use tcp::{Database, cell};

fn secret(text: &str) -> Security {
    Security::Secret(Secret::new(text).unwrap())
}

#[test]
fn a_follower_transacts_through_the_leader() {
    for security in [Security::Insecure, secret("sixteen bytes at least")] {
        let database = Database::new(security);
        let leader = database.start();
        leader.lead();
        let follower = database.start();
        let written = follower.put(&cell("x"), "one");
        assert_eq!(leader.read(&cell("x")).as_deref(), Some(&b"one"[..]));
        assert!(leader.put(&cell("x"), "two") > written);
        assert_eq!(follower.read(&cell("x")).as_deref(), Some(&b"two"[..]));
        assert!(leader.log.is_leading() && !follower.log.is_leading());
    }
}

#[test]
fn when_the_leader_is_closed_the_next_one_takes_over() {
    let database = Database::new(secret("sixteen bytes at least"));
    let leader = database.start();
    leader.lead();
    let (second, third) = (database.start(), database.start());
    let before = second.put(&cell("x"), "before");
    drop(leader);
    assert!(third.put(&cell("x"), "after") > before);
    assert_eq!(second.read(&cell("x")).as_deref(), Some(&b"after"[..]));
    assert!(second.log.is_leading() || third.log.is_leading());
}

#[test]
fn a_process_with_another_secret_is_not_answered() {
    let database = Database::new(secret("sixteen bytes at least"));
    let leader = database.start();
    leader.lead();
    for wrong in [secret("sixteen other bytes"), Security::Insecure] {
        let stranger = database.start_with(wrong, tcp::impatient());
        let begun = block_on(stranger.log.begin(&Context::unbounded(), BeginKind::ReadOnly));
        assert!(begun.is_err());
    }
    let follower = database.start();
    follower.put(&cell("x"), "still");
}

#[test]
fn a_secret_that_can_be_guessed_is_refused() {
    assert!(Secret::new("short").is_err());
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let everywhere = "0.0.0.0:0".parse().unwrap();
    let handle = runtime.handle().clone();
    let error = TcpNetwork::bind(everywhere, None, secret("sixteen bytes at least"), handle);
    assert!(error.unwrap_err().to_string().contains("by which host and port"));
}
