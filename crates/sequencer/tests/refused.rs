//! What a commit is told when it is asked for again: the same, or that nobody knows.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context as TaskContext, Waker};
use std::time::Duration;

use carnet_base::{ErrorKind, Timestamp};
use carnet_sequencer::Handler;
use carnet_sequencer::message::{ClientId, Released, Request, Response, Token};
use carnet_store::cluster::Register;
use carnet_store::{BeginKind, Begun, Slot};

use common::scripted::{Effect, Op};
use common::{Database, Member, cell, put};

/// A process that speaks to the leader by itself.
struct Client<'a> {
    database: &'a Database,
    handler: Arc<dyn Handler>,
    tokens: AtomicU64,
}

const CLIENT: ClientId = ClientId(99);

impl<'a> Client<'a> {
    fn of(database: &'a Database, leader: &Member) -> Self {
        Self { database, handler: leader.log.handler(), tokens: AtomicU64::new(0) }
    }

    fn ask(&self, request: &Request) -> Response {
        self.database.run(Arc::clone(&self.handler).handle(request.clone()))
    }

    fn begin(&self) -> Result<(Token, Released), Response> {
        let token = Token(self.tokens.fetch_add(1, Ordering::Relaxed) + 1);
        let kind = BeginKind::ReadWrite;
        match self.ask(&Request::Begin { client: CLIENT, token, kind, is_strict: false }) {
            Response::Released(released) => Ok((token, released)),
            other => Err(other),
        }
    }

    fn commit((token, released): (Token, Released), name: &str) -> Request {
        let Released { read, start, .. } = released;
        let begun = Begun { read, start, slot: Slot::default() };
        Request::Commit { client: CLIENT, token, claim: put(begun, &cell(name), "x").into_claim() }
    }
}

fn committed(response: &Response) -> Timestamp {
    match response {
        Response::Committed(commit) => *commit,
        other => panic!("{other:?}"),
    }
}

fn refused(response: &Response) -> ErrorKind {
    match response {
        Response::Refused(error) => error.kind(),
        other => panic!("{other:?}"),
    }
}

/// The answer was lost, and by the time it is asked for again the leader has forgotten it. The
/// snapshot is still in use: that does not make it a start that may be decided.
#[test]
fn a_commit_that_the_leader_has_forgotten_is_known_to_the_commit_table() {
    const FORGOTTEN_AFTER: usize = (1 << 16) + 1;
    let database = Database::new();
    let leader = database.start("leader");
    let client = Client::of(&database, &leader);
    let request = Client::commit(client.begin().unwrap(), "x");
    let first = committed(&client.ask(&request));
    let mut others = 0;
    while others < FORGOTTEN_AFTER {
        let begun: Vec<_> = (0..1024).map(|_| client.begin().unwrap()).collect();
        let mut answers = Vec::new();
        for (at, begun) in begun.iter().enumerate() {
            let request = Client::commit(*begun, &format!("{at}"));
            let mut answer = Arc::clone(&client.handler).handle(request);
            let mut context = TaskContext::from_waker(Waker::noop());
            assert!(answer.as_mut().poll(&mut context).is_pending());
            answers.push(answer);
        }
        for answer in answers {
            committed(&database.run(answer));
        }
        others += begun.len();
        for (token, _) in begun {
            client.ask(&Request::End { client: CLIENT, token });
        }
    }
    assert_eq!(committed(&client.ask(&request)), first);
}

/// A process that is told to come back later runs its transaction again. The first one must not
/// commit then, when the request that carried it is heard for a second time.
#[test]
fn a_commit_that_was_refused_does_not_commit_when_it_is_asked_for_again() {
    let database = Database::with_bound_step(100);
    let leader = database.start("leader");
    let client = Client::of(&database, &leader);
    let request = Client::commit(client.begin().unwrap(), "x");
    let gate = leader.cluster.hold(Op::Set(Register::Lease));
    while client.begin().is_ok() {}
    let overloaded = refused(&client.ask(&request));
    assert!(matches!(overloaded, ErrorKind::Overloaded { .. }), "{overloaded:?}");
    gate.open();
    database.world.pass(Duration::from_millis(1));
    client.begin().unwrap();
    assert_eq!(refused(&client.ask(&request)), ErrorKind::Conflict);
}

/// The commit table could not be asked what an older leader made of it. Whatever the reason, that
/// says nothing of the transaction.
#[test]
fn what_an_older_leader_decided_is_unknown_while_the_commit_table_cannot_be_read() {
    let database = Database::new();
    let dies = database.start("dies");
    let request = Client::commit(Client::of(&database, &dies).begin().unwrap(), "x");
    dies.process.kill();
    database.network.cut(&dies.address);
    let next = database.start("next");
    database.let_lease_run_out();
    database.snapshot(&next);
    next.cluster.script(Op::ReadEntries, usize::MAX, Effect::Overload);
    let told = refused(&Client::of(&database, &next).ask(&request));
    assert!(matches!(told, ErrorKind::Unknown { .. }), "{told:?}");
}
