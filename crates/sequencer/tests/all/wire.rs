//! Processes of one database that communicate over TCP.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use carnet_base::{Bytes, ErrorKind, block_on};
use carnet_sequencer::{
    FORWARD_BYTES_MAX, ForwardHandler, Forwarding, Secret, Security, TcpNetwork, Unanswered,
};
use carnet_store::{BeginKind, CommitLog, Context, Outcome};

use crate::support::tcp;
use crate::support::tcp::relay::Relay;
use crate::support::tcp::{Database, cell, put};

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
fn next_leader_takes_over_after_a_close() {
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

/// I6. The leader decided, and the answer is lost with the connection: the repeated request gets
/// the same answer.
#[test]
fn lost_commit_answer_is_given_again() {
    let database = Database::new(Security::Insecure);
    let relay = Relay::new(&database.runtime);
    let leader = database.start_behind(&relay);
    leader.lead();
    let follower = database.start();
    follower.put(&cell("x"), "before");
    let begun = follower.begin(BeginKind::ReadWrite);
    relay.lose_answers();
    let committed = std::thread::scope(|scope| {
        let commit = scope.spawn(|| {
            let request = put(begun, &cell("x"), "after");
            block_on(follower.log.commit(&Context::unbounded(), request)).unwrap()
        });
        while leader.read(&cell("x")).as_deref() != Some(b"after") {
            std::thread::yield_now();
        }
        assert!(!commit.is_finished());
        relay.cut();
        commit.join().unwrap()
    });
    let outcome = block_on(leader.log.outcome(&Context::unbounded(), begun.start.unwrap()));
    assert_eq!(outcome.unwrap(), Outcome::Committed(committed));
    follower.log.end(begun);
    assert!(follower.put(&cell("x"), "later") > committed);
}

#[test]
fn lost_request_is_sent_again() {
    let database = Database::new(Security::Insecure);
    let relay = Relay::new(&database.runtime);
    let leader = database.start_behind(&relay);
    leader.lead();
    let follower = database.start();
    let before = follower.put(&cell("x"), "before");
    relay.lose_questions();
    let after = std::thread::scope(|scope| {
        let put = scope.spawn(|| follower.put(&cell("x"), "after"));
        assert_eq!(leader.read(&cell("x")).as_deref(), Some(&b"before"[..]));
        relay.cut();
        put.join().unwrap()
    });
    assert!(after > before);
    assert_eq!(leader.read(&cell("x")).as_deref(), Some(&b"after"[..]));
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
    assert!(error.unwrap_err().to_string().contains("advertised host and port"));
}

/// Handler that answers with the request, or with more bytes than are forwarded.
#[derive(Default)]
struct Echo {
    answered: AtomicUsize,
}

const TOO_LONG: &[u8] = b"too long an answer";

impl ForwardHandler for Echo {
    fn answer(self: Arc<Self>, request: Bytes) -> Forwarding {
        Box::pin(async move {
            self.answered.fetch_add(1, Ordering::SeqCst);
            if request == TOO_LONG { vec![0; FORWARD_BYTES_MAX + 1].into() } else { request }
        })
    }
}

#[test]
fn forwarded_bytes_reach_the_handler_of_any_process() {
    let database = Database::new(secret("sixteen bytes at least"));
    let leader = database.start();
    leader.lead();
    let follower = database.start();
    let echo = Arc::new(Echo::default());
    let handler: Arc<dyn ForwardHandler> = Arc::clone(&echo) as _;
    for (from, to) in [(&leader, &follower), (&follower, &leader)] {
        let forward = |what: Bytes| block_on(from.log.forward(&to.log.address(), what));
        let refused = forward("early".into()).unwrap().unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Unavailable);
        to.log.serve_forwarded(&handler);
        for length in [0, 1, 100_000, FORWARD_BYTES_MAX] {
            let bytes = Bytes::from(vec![7; length]);
            assert_eq!(forward(bytes.clone()).unwrap().unwrap(), bytes);
        }
        let before = echo.answered.load(Ordering::SeqCst);
        let refused = forward(vec![0; FORWARD_BYTES_MAX + 1].into()).unwrap().unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Invalid);
        assert_eq!(echo.answered.load(Ordering::SeqCst), before, "it was not sent");
        // The handler has acted, and its answer is lost: this is no refusal.
        assert_eq!(forward(TOO_LONG.into()).unwrap_err(), Unanswered::Lost);
        assert_eq!(echo.answered.load(Ordering::SeqCst), before + 1);
    }
    drop((handler, echo));
    let ended = block_on(leader.log.forward(&follower.log.address(), "late".into()));
    assert_eq!(ended.unwrap().unwrap_err().kind(), ErrorKind::Unavailable);
}
