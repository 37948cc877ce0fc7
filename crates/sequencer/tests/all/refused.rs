//! Repeated commits: they get the same answer, or an unknown outcome.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context as TaskContext, Waker};
use std::time::Duration;

use carnet_base::{Error, ErrorKind, SeededRng, Tasks as _, Timestamp};
use carnet_sequencer::message::{ClientId, LeaderRequest, Released, Response, Token};
use carnet_sequencer::{Address, ClusterLog, Environment, Handler, Transport, Unanswered};
use carnet_store::cluster::Register;
use carnet_store::{BeginKind, Begun, CommitLog, Context, Slot};
use carnet_txn::CommitChecker;

use crate::support::scripted::{Effect, Op, Scripted};
use crate::support::{Database, Member, cell, put};

/// A process that sends its own requests to the leader.
struct Client<'a> {
    database: &'a Database,
    handler: Arc<dyn Handler>,
    tokens: AtomicU64,
}

const CLIENT: ClientId = ClientId(99);

impl<'a> Client<'a> {
    fn new(database: &'a Database, leader: &Member) -> Self {
        Self { database, handler: leader.log.handler(), tokens: AtomicU64::new(0) }
    }

    fn ask(&self, request: &LeaderRequest) -> Response {
        self.database.run(Arc::clone(&self.handler).handle(request.clone()))
    }

    fn begin(&self) -> Result<(Token, Released), Response> {
        let token = Token(self.tokens.fetch_add(1, Ordering::Relaxed) + 1);
        let kind = BeginKind::ReadWrite;
        let request =
            LeaderRequest::Begin { client: CLIENT, token, kind, is_strict: false, known: None };
        match self.ask(&request) {
            Response::Released(released, _) => Ok((token, released)),
            other => Err(other),
        }
    }

    fn commit((token, released): (Token, Released), name: &str) -> LeaderRequest {
        let Released { read, start, schema, .. } = released;
        let begun = Begun { read, start, slot: Slot::default(), schema };
        LeaderRequest::Commit {
            client: CLIENT,
            token,
            claim: put(begun, &cell(name), "x").into_claim(),
        }
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

/// The answer was lost, and the leader has forgotten the decision by the time of the next request.
/// The snapshot is still in use, but its start must not be decided again.
#[test]
fn forgotten_commit_is_answered_from_the_table() {
    const FORGOTTEN_AFTER: usize = (1 << 16) + 1;
    let database = Database::new();
    let leader = database.start("leader");
    let client = Client::new(&database, &leader);
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
            client.ask(&LeaderRequest::End { client: CLIENT, token });
        }
    }
    assert_eq!(committed(&client.ask(&request)), first);
}

/// A process that is told to come back later runs its transaction again. The first try must not
/// commit after that, when its request arrives for a second time.
#[test]
fn refused_commit_stays_refused_when_repeated() {
    let database = Database::with_bound_step(100);
    let leader = database.start("leader");
    let client = Client::new(&database, &leader);
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

/// The decision of an older leader cannot be read from the commit table. The reason of that failure
/// tells nothing about the transaction.
#[test]
fn older_decision_is_unknown_without_the_table() {
    let database = Database::new();
    let dies = database.start("dies");
    let request = Client::commit(Client::new(&database, &dies).begin().unwrap(), "x");
    dies.process.kill();
    database.network.cut(&dies.address);
    let next = database.start("next");
    database.let_lease_run_out();
    database.snapshot(&next);
    next.cluster.script(Op::ReadEntries, usize::MAX, Effect::Overload);
    let told = refused(&Client::new(&database, &next).ask(&request));
    assert!(matches!(told, ErrorKind::Unknown { .. }), "{told:?}");
}

/// A request that does not fit the wire is refused for certain, because it was not sent. The
/// exception is a request that this process first made while it led itself, without the wire.
#[test]
fn oversized_commit_tried_locally_is_unknown() {
    struct TooSmall;
    impl Transport for TooSmall {
        async fn call(&self, _: &Address, _: LeaderRequest) -> Result<Response, Unanswered> {
            Ok(Response::Refused(Error::invalid("it fits no frame")))
        }
    }
    let database = Database::new();
    let cluster = Scripted::new(&database.replicas);
    let process = database.world.process();
    let environment = Environment {
        timer: Arc::new(database.world.time.clone()),
        clock: Arc::new(database.world.time.clone()),
        tasks: process as _,
        row_tables: Arc::default(),
    };
    let log = ClusterLog::open(
        Arc::clone(&cluster),
        TooSmall,
        Address::new("first").unwrap(),
        environment,
        &mut SeededRng::new(1),
        database.options,
        Arc::new(|start| Box::new(CommitChecker::resuming(start))),
    );
    let context = Context::unbounded();
    let begun = database.run(log.begin(&context, BeginKind::ReadWrite)).unwrap();
    let gate = cluster.hold(Op::Put);
    let mut commit = Box::pin(log.commit(&context, put(begun, &cell("x"), "one")));
    let mut polled = TaskContext::from_waker(Waker::noop());
    assert!(commit.as_mut().poll(&mut polled).is_pending());
    database.world.settle();
    assert_eq!(gate.arrived(), 1, "it is under way");
    cluster.script(Op::Set(Register::Lease), usize::MAX, Effect::LoseRequest);
    let _next = database.start("next");
    database.let_lease_run_out();
    let told = database.run(commit).unwrap_err();
    assert_eq!(told.kind(), ErrorKind::Unknown { start: begun.start.unwrap() }, "{told}");
}

/// The end of a snapshot was lost, and its process goes on with other snapshots: they must not keep
/// it open.
#[test]
fn lost_end_does_not_block_the_sweep() {
    let database = Database::new();
    let (leader, follower) = (database.start("leader"), database.start("follower"));
    let begun = database.begin(&follower, BeginKind::ReadOnly);
    database.network.cut(&leader.address);
    follower.log.end(begun);
    database.world.settle();
    database.network.listen(leader.address.clone(), &leader.log.handler());
    assert!(leader.log.oldest_snapshot().is_some());
    for _ in 0..40 {
        database.world.pass(Duration::from_secs(1));
        let begun = database.begin(&follower, BeginKind::ReadOnly);
        follower.log.end(begun);
    }
    database.world.settle();
    assert_eq!(leader.log.oldest_snapshot(), None);
}

/// A caller that finds no leader has the lease read, and such a read contends with a candidate that
/// takes the lease. So more callers must not cause more reads.
#[test]
fn lease_reads_do_not_grow_with_callers() {
    let database = Database::new();
    let (leader, follower) = (database.start("leader"), database.start("follower"));
    database.snapshot(&follower);
    database.network.cut(&leader.address);
    let reads = || follower.cluster.calls(Op::Read(Register::Lease));
    for _ in 0..100 {
        let log = Arc::clone(&follower.log);
        follower.process.spawn(Box::pin(async move {
            let begun = log.begin(&Context::unbounded(), BeginKind::ReadOnly).await;
            assert!(begun.is_err(), "it cannot be reached");
        }));
        database.world.pass(Duration::from_micros(200));
    }
    let before = reads();
    database.world.pass(Duration::from_secs(1));
    assert!((10..=60).contains(&(reads() - before)), "{} in a second", reads() - before);
}
