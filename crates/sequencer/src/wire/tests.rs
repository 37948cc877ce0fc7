//! Two networks in one process, and peers that violate the protocol.

use std::future::Future;
use std::io::{Read as _, Write as _};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use carnet_base::sync::lock;
use carnet_base::{Rng as _, SeededRng, Timestamp, block_on};
use carnet_store::Outcome;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;

use super::address::Reached;
use super::pause::pause;
use super::*;
use crate::futures::Notify;
use crate::message::{ClientId, Token};
use crate::transport::Answering;

type Answer = Box<dyn Fn(LeaderRequest) -> Answering + Send + Sync>;

/// A handler that answers as the test tells it to.
struct Scripted(Answer);

impl Handler for Scripted {
    fn handle(self: Arc<Self>, request: LeaderRequest) -> Answering {
        (self.0)(request)
    }
}

fn scripted(
    answer: impl Fn(LeaderRequest) -> Answering + Send + Sync + 'static,
) -> Arc<dyn Handler> {
    Arc::new(Scripted(Box::new(answer)))
}

/// Answers an `Outcome` request with its own start.
fn echo() -> Arc<dyn Handler> {
    scripted(|request| Box::pin(async move { echoed(&request) }))
}

fn echoed(request: &LeaderRequest) -> Response {
    match request {
        LeaderRequest::Outcome { start } => Response::Outcome(Outcome::Committed(*start)),
        _ => Response::Done,
    }
}

fn question(number: u64) -> LeaderRequest {
    LeaderRequest::Outcome { start: Timestamp::new(number).unwrap() }
}

fn runtime() -> Runtime {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    runtime.worker_threads(2).enable_all().build().unwrap()
}

fn secret() -> Security {
    Security::Secret(Secret::new("a secret of these tests").unwrap())
}

fn network_within(runtime: &Runtime, security: Security, limits: Limits) -> TcpNetwork {
    let listen = "127.0.0.1:0".parse().unwrap();
    TcpNetwork::bind_within(listen, None, security, runtime.handle().clone(), limits).unwrap()
}

/// Limits under which a busy machine loses no peer, except where a test wants it.
fn patient() -> Limits {
    let (greeting_timeout, client_silence_max) =
        (Duration::from_secs(60), Duration::from_secs(3600));
    Limits { greeting_timeout, client_silence_max, pings_lost_max: 240, ..Limits::default() }
}

fn network(runtime: &Runtime) -> TcpNetwork {
    network_within(runtime, secret(), patient())
}

/// Sends a request until it is answered, and returns the answer.
fn answer_of(from: &TcpNetwork, to: &Address, number: u64) -> Response {
    loop {
        if let Ok(response) = block_on(from.call(to, question(number))) {
            return response;
        }
        std::thread::yield_now();
    }
}

fn assert_echoes(from: &TcpNetwork, to: &Address) {
    let answer = answer_of(from, to, 5);
    let Response::Outcome(Outcome::Committed(number)) = answer else { panic!("{answer:?}") };
    assert_eq!(number.get(), 5);
}

fn poll_once<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

fn stranger(network: &TcpNetwork) -> std::net::TcpStream {
    std::net::TcpStream::connect(network.listens_on()).unwrap()
}

/// Returns a connection after the handshake, for frames that violate the protocol.
async fn greeted(to: &TcpNetwork) -> TcpStream {
    let incarnation = Reached::parse(to.address()).unwrap().incarnation;
    let mut stream = TcpStream::connect(to.listens_on()).await.unwrap();
    handshake::greet(&mut stream, secret().secret(), incarnation, None).await.unwrap();
    stream
}

#[test]
fn answers_come_in_any_order() {
    let runtime = runtime();
    let (leader, follower) = (network(&runtime), network(&runtime));
    let notify = Arc::new(Notify::default());
    let notified = Arc::clone(&notify);
    // The first request is answered when the second one has arrived.
    let handler = scripted(move |request| {
        let notify = Arc::clone(&notified);
        Box::pin(async move {
            match request {
                LeaderRequest::Outcome { start } if start.get() == 1 => {
                    notify.notified_after(0).await;
                }
                _ => notify.notify_all(),
            }
            echoed(&request)
        })
    });
    leader.serve(&handler);
    let mut first = Box::pin(follower.call(leader.address(), question(1)));
    assert!(poll_once(first.as_mut()).is_pending());
    for number in [2, 1] {
        let call = follower.call(leader.address(), question(number));
        let answer = if number == 1 { block_on(first.as_mut()) } else { block_on(call) };
        let expected = Timestamp::new(number).unwrap();
        assert!(matches!(answer, Ok(Response::Outcome(Outcome::Committed(at))) if at == expected));
    }
}

/// The end of a snapshot must not be overtaken by the begin of the next one.
#[test]
fn requests_begin_in_the_order_sent() {
    const REQUESTS: u64 = 3_000;
    let runtime = runtime();
    let (leader, follower) = (network(&runtime), network(&runtime));
    let begun: Arc<Mutex<Vec<u64>>> = Arc::default();
    let log = Arc::clone(&begun);
    let handler = scripted(move |request| {
        let log = Arc::clone(&log);
        Box::pin(async move {
            if let LeaderRequest::End { token, .. } = request {
                lock(&log).push(token.0);
                tokio::task::yield_now().await;
            }
            Response::Done
        })
    });
    leader.serve(&handler);
    let call = |token| {
        let request = LeaderRequest::End { client: ClientId(1), token: Token(token) };
        let mut call = Box::pin(follower.call(leader.address(), request));
        // Some are answered while they are sent.
        match poll_once(call.as_mut()) {
            Poll::Ready(answer) => {
                assert!(matches!(answer, Ok(Response::Done)));
                None
            }
            Poll::Pending => Some(call),
        }
    };
    // Some wait for the connection, others find it open.
    let calls: Vec<_> = (0..REQUESTS).map(call).collect();
    for call in calls.into_iter().flatten() {
        assert!(matches!(block_on(call), Ok(Response::Done)));
    }
    assert_eq!(*lock(&begun), (0..REQUESTS).collect::<Vec<_>>());
}

#[test]
fn calls_that_are_dropped_leave_nothing_behind() {
    const CALLS: usize = 8;
    let runtime = runtime();
    let limits = Limits { requests_max: CALLS, ..patient() };
    let (leader, follower) = (network(&runtime), network_within(&runtime, secret(), limits));
    let (notify, dropped) = (Arc::new(Notify::default()), Arc::new(AtomicUsize::new(0)));
    let notified = Arc::clone(&notify);
    let handler = scripted(move |request| {
        let notify = Arc::clone(&notified);
        Box::pin(async move {
            notify.notified_after(0).await;
            echoed(&request)
        })
    });
    leader.serve(&handler);
    struct Counted(Arc<AtomicUsize>);
    impl std::task::Wake for Counted {
        fn wake(self: Arc<Self>) {}
    }
    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    for _ in 0..CALLS {
        let mut call = Box::pin(follower.call(leader.address(), question(1)));
        let waker = Waker::from(Arc::new(Counted(Arc::clone(&dropped))));
        assert!(call.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    }
    assert_eq!(dropped.load(Ordering::SeqCst), CALLS, "every caller's waker is dropped");
    let more = block_on(follower.call(leader.address(), question(1)));
    assert_eq!(
        more.unwrap_err(),
        Unanswered::NotSent,
        "the leader has as much under way as it may"
    );
    notify.notify_all();
    assert_echoes(&follower, leader.address());
    while follower.peers.calls_under_way(leader.address()) > 0 {
        std::thread::yield_now();
    }
}

#[test]
fn process_without_a_handler_does_not_lead() {
    let runtime = runtime();
    let (leader, follower) = (network(&runtime), network(&runtime));
    assert!(matches!(answer_of(&follower, leader.address(), 1), Response::NotLeading));
    let handler = echo();
    leader.serve(&handler);
    assert_echoes(&follower, leader.address());
    drop(handler);
    assert!(matches!(answer_of(&follower, leader.address(), 1), Response::NotLeading));
}

/// Set in the process that is to end.
const CHILD: &str = "CARNET_TEST_LEADER_PANICS";

/// A leader whose state may be half changed must not keep its lease.
#[test]
fn panic_of_a_leader_ends_the_process() {
    if std::env::var_os(CHILD).is_some() {
        let runtime = runtime();
        let (leader, follower) = (network(&runtime), network(&runtime));
        let handler = scripted(|request| {
            Box::pin(async move {
                tokio::task::yield_now().await;
                assert!(!matches!(request, LeaderRequest::End { .. }), "a test's own panic");
                echoed(&request)
            })
        });
        leader.serve(&handler);
        assert_echoes(&follower, leader.address());
        let end = LeaderRequest::End { client: ClientId(1), token: Token(1) };
        let _ = block_on(follower.call(leader.address(), end));
        return;
    }
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "wire::tests::panic_of_a_leader_ends_the_process", "--nocapture"]);
    let output = child.env(CHILD, "1").output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && said.contains("answer of the leader"), "{said}");
}

/// A forwarded statement that panics must leave neither its caller nor others waiting.
#[test]
fn panicking_statement_answers_not_leading() {
    let runtime = runtime();
    let (leader, follower) = (network(&runtime), network(&runtime));
    let handler = scripted(|request| {
        Box::pin(async move {
            tokio::task::yield_now().await;
            assert!(!matches!(request, LeaderRequest::Forward { .. }), "a test's own panic");
            echoed(&request)
        })
    });
    leader.serve(&handler);
    assert_echoes(&follower, leader.address());
    let forward = LeaderRequest::Forward { what: Bytes::from_static(b"a statement") };
    let answer = block_on(follower.call(leader.address(), forward));
    assert!(matches!(answer, Ok(Response::NotLeading)));
    assert_echoes(&follower, leader.address());
}

/// Long statements of other processes do not delay the requests to the leader.
#[test]
fn forwarded_bytes_have_a_connection_of_their_own() {
    let runtime = runtime();
    let (leader, follower) = (network(&runtime), network(&runtime));
    let handler = scripted(|request| match request {
        LeaderRequest::Forward { .. } => Box::pin(std::future::pending()),
        _ => Box::pin(async move { echoed(&request) }),
    });
    leader.serve(&handler);
    let forward = LeaderRequest::Forward { what: Bytes::from_static(b"a statement") };
    let mut waiting = Box::pin(follower.call(leader.address(), forward));
    assert!(poll_once(waiting.as_mut()).is_pending());
    assert_echoes(&follower, leader.address());
    let calls = |peers: &Peers| peers.calls_under_way(leader.address());
    assert_eq!((calls(&follower.forwards), calls(&follower.peers)), (1, 0));
}

#[test]
fn forwarded_answer_without_room_does_not_break_the_connection() {
    let runtime = runtime();
    let limits = Limits { answer_bytes_max: 1 << 10, ..patient() };
    let leader = network_within(&runtime, secret(), limits);
    let follower = network(&runtime);
    let handler = scripted(|request| match request {
        LeaderRequest::Forward { what } => {
            let answer = if what.is_empty() { vec![0; 1 << 11].into() } else { what };
            Box::pin(async move { Response::Forwarded(answer) })
        }
        _ => Box::pin(async move { echoed(&request) }),
    });
    leader.serve(&handler);
    let forward = |what: &'static [u8]| {
        let request = LeaderRequest::Forward { what: Bytes::from_static(what) };
        block_on(follower.call(leader.address(), request))
    };
    for _ in 0..3 {
        assert!(matches!(forward(b""), Ok(Response::NotLeading)));
        let Ok(Response::Forwarded(answer)) = forward(b"short") else { panic!("it has room") };
        assert_eq!(&answer[..], b"short");
    }
}

#[test]
fn dropping_the_last_clone_closes_port_and_calls() {
    let runtime = runtime();
    let (leader, follower) = (network(&runtime), network(&runtime));
    let handler = scripted(|request| match request {
        LeaderRequest::End { .. } => Box::pin(std::future::pending()),
        _ => Box::pin(async move { echoed(&request) }),
    });
    leader.serve(&handler);
    assert_echoes(&follower, leader.address());
    let (clone, address, port) = (leader.clone(), leader.address().clone(), leader.listens_on());
    drop(leader);
    assert_echoes(&follower, &address);
    let end = LeaderRequest::End { client: ClientId(1), token: Token(1) };
    let mut waiting = Box::pin(follower.call(&address, end));
    assert!(poll_once(waiting.as_mut()).is_pending());
    drop(clone);
    assert_eq!(block_on(waiting).unwrap_err(), Unanswered::Lost);
    while std::net::TcpStream::connect(port).is_ok() {
        std::thread::yield_now();
    }
    assert!(block_on(follower.call(&address, question(1))).is_err());
}

/// Another incarnation on the same port is not the process in the lease.
#[test]
fn another_process_at_the_address_is_not_asked() {
    let runtime = runtime();
    let (other, follower) = (network(&runtime), network(&runtime));
    let handler = echo();
    other.serve(&handler);
    let (place, _) = other.address().as_str().split_once('/').unwrap();
    let before = Address::new(format!("{place}/0123456789abcdef")).unwrap();
    let unanswered = block_on(follower.call(&before, question(1))).unwrap_err();
    assert_eq!(unanswered, Unanswered::NotSent);
    assert_echoes(&follower, other.address());
}

#[test]
fn peer_silent_in_the_handshake_is_given_up() {
    let runtime = runtime();
    let limits = Limits { greeting_timeout: Duration::from_millis(50), ..patient() };
    let follower = network_within(&runtime, secret(), limits);
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("{}/0123456789abcdef", silent.local_addr().unwrap());
    let address = Address::new(address).unwrap();
    let unanswered = block_on(follower.call(&address, question(1))).unwrap_err();
    assert_eq!(unanswered, Unanswered::NotSent);
}

/// A process that is stopped or cut off keeps its connections.
#[test]
fn a_peer_that_falls_silent_is_given_up() {
    let runtime = runtime();
    let ping_every = Duration::from_millis(10);
    let limits = Limits { ping_every, pings_lost_max: 4, ..patient() };
    let follower = network_within(&runtime, secret(), limits);
    let stopped = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = format!("{}/0123456789abcdef", stopped.local_addr().unwrap());
    let address = Address::new(address).unwrap();
    let mut call = Box::pin(follower.call(&address, question(1)));
    assert!(poll_once(call.as_mut()).is_pending());
    let greeted = runtime.block_on(async {
        let (mut stream, _) = stopped.accept().await.unwrap();
        let incarnation = Reached::parse(&address).unwrap().incarnation;
        handshake::welcome(&mut stream, secret().secret(), incarnation, None).await.unwrap();
        stream
    });
    assert_eq!(block_on(call).unwrap_err(), Unanswered::Lost);
    drop(greeted);
}

/// Without pongs no try would live long enough to see its answer; on a busy machine some do not
/// even with them.
#[test]
fn pings_keep_a_connection_with_slow_answers() {
    let runtime = runtime();
    let ping_every = Duration::from_millis(5);
    let limits = Limits { ping_every, pings_lost_max: 20, ..patient() };
    let (leader, follower) = (network(&runtime), network_within(&runtime, secret(), limits));
    let handler = scripted(|request| {
        Box::pin(async move {
            pause(Duration::from_secs(1)).await;
            echoed(&request)
        })
    });
    leader.serve(&handler);
    let mut tries = (0..50).map(|_| block_on(follower.call(leader.address(), question(1))));
    assert!(tries.any(|answer| answer.is_ok()));
}

#[test]
fn garbage_does_not_disturb_other_connections() {
    let runtime = runtime();
    let (leader, follower) = (network(&runtime), network(&runtime));
    let handler = echo();
    leader.serve(&handler);
    let mut open = Vec::new();
    for seed in 0..60 {
        let mut rng = SeededRng::new(seed);
        let mut stream = stranger(&leader);
        let mut bytes: Vec<u8> = match seed % 4 {
            0 => b"GET / HTTP/1.1\r\n\r\n".to_vec(),
            1 => b"CARNTSEQ\x00\x01".to_vec(),
            _ => Vec::new(),
        };
        bytes.extend((0..rng.below(300)).map(|_| rng.next_u64().to_be_bytes()[0]));
        // The connection may be closed already.
        let _ = stream.write_all(&bytes);
        open.push(stream);
    }
    assert_echoes(&follower, leader.address());
    // Garbage from a peer that knows the secret.
    for seed in 0..60 {
        let mut rng = SeededRng::new(seed);
        let garbage: Vec<u8> = (0..100).map(|_| rng.next_u64().to_be_bytes()[0] | 0x80).collect();
        let left = runtime.block_on(async {
            let mut stream = greeted(&leader).await;
            stream.write_all(&garbage).await.unwrap();
            stream.read(&mut [0; 64]).await
        });
        assert!(matches!(left, Ok(0) | Err(_)), "seed {seed}: {left:?}");
    }
    assert_echoes(&follower, leader.address());
}

#[test]
fn silent_connections_are_bounded_and_time_out() {
    let runtime = runtime();
    let greeting_timeout = Duration::from_millis(100);
    let limits = Limits { greetings_max: 2, greeting_timeout, ..patient() };
    let (leader, follower) = (network_within(&runtime, secret(), limits), network(&runtime));
    let handler = echo();
    leader.serve(&handler);
    let mut silent: Vec<_> = (0..5).map(|_| stranger(&leader)).collect();
    for stream in &mut silent {
        // Closed, either for lack of room or at the timeout.
        assert!(matches!(stream.read(&mut [0; 8]), Ok(0) | Err(_)));
    }
    assert_echoes(&follower, leader.address());
}

#[test]
fn one_address_has_a_share_of_the_greetings() {
    let runtime = runtime();
    let limits = Limits { greetings_max: 3, greetings_per_address_max: 2, ..patient() };
    let leader = network_within(&runtime, secret(), limits);
    let handler = echo();
    leader.serve(&handler);
    let _silent = [stranger(&leader), stranger(&leader)];
    let mut third = stranger(&leader);
    // Well before the handshake's timeout.
    third.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let left = third.read(&mut [0; 8]);
    let is_waiting = |e: &std::io::Error| e.kind() == std::io::ErrorKind::WouldBlock;
    assert!(!left.as_ref().is_err_and(is_waiting) && !matches!(left, Ok(1..)), "{left:?}");
    let incarnation = Reached::parse(leader.address()).unwrap().incarnation;
    runtime.block_on(async {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.2:0".parse().unwrap()).unwrap();
        let mut other = socket.connect(leader.listens_on()).await.unwrap();
        handshake::greet(&mut other, secret().secret(), incarnation, None).await.unwrap();
    });
}

#[test]
fn connections_are_bounded() {
    let runtime = runtime();
    let limits = Limits { connections_max: 1, ..patient() };
    let leader = network_within(&runtime, secret(), limits);
    let (first, second) = (network(&runtime), network(&runtime));
    let handler = echo();
    leader.serve(&handler);
    assert_echoes(&first, leader.address());
    assert!(block_on(second.call(leader.address(), question(1))).is_err());
    drop(first);
    assert_echoes(&second, leader.address());
}

#[test]
fn client_beyond_its_limits_is_disconnected() {
    let runtime = runtime();
    let limits = Limits { requests_max: 4, ..patient() };
    let leader = network_within(&runtime, secret(), limits);
    let handler = scripted(|_| Box::pin(std::future::pending()));
    leader.serve(&handler);
    let left = runtime.block_on(async {
        let mut stream = greeted(&leader).await;
        let mut frames = bytes::BytesMut::new();
        for id in 0..5 {
            codec::encode(id, &codec::Message::LeaderRequest(question(1)), &mut frames).unwrap();
        }
        stream.write_all(&frames).await.unwrap();
        stream.read(&mut [0; 8]).await
    });
    assert!(matches!(left, Ok(0) | Err(_)), "{left:?}");
}

#[test]
fn version_mismatch_names_both_versions() {
    let runtime = runtime();
    let leader = network(&runtime);
    let mut newer = stranger(&leader);
    newer.write_all(b"CARNTSEQ\x00\x09").unwrap();
    let mut told = Vec::new();
    newer.read_to_end(&mut told).unwrap();
    assert_eq!(told[..10], *b"CARNTSEQ\x00\x02", "it learns which one this process speaks");

    let (mut client, mut server) = tokio::io::duplex(1024);
    let refused = runtime.block_on(async {
        server.write_all(b"CARNTSEQ\x00\x09").await.unwrap();
        handshake::greet(&mut client, None, [0; 8], None).await.unwrap_err()
    });
    let text = refused.to_string();
    assert!(text.contains("version 9") && text.contains("version 2"), "{text}");
}

#[test]
fn large_claim_passes_and_too_large_is_refused() {
    let runtime = runtime();
    let (leader, follower) = (network(&runtime), network(&runtime));
    let handler = scripted(|request| {
        Box::pin(async move {
            let LeaderRequest::Commit { claim, .. } = request else { return Response::Done };
            Response::Committed(Timestamp::new(claim.reads.points.len() as u64).unwrap())
        })
    });
    leader.serve(&handler);
    let commit = |points| {
        let reads = carnet_store::ReadSet {
            points: vec![carnet_base::CellHash(7); points],
            ranges: Vec::new(),
        };
        let claim = carnet_store::Claim {
            read: Timestamp::ZERO,
            start: Timestamp::ZERO,
            slot: carnet_store::Slot(0),
            reads,
            cells: carnet_store::Cells::default(),
            checks_writes: true,
            drops: Vec::new(),
            beyond: Vec::new(),
            has_deltas: false,
        };
        LeaderRequest::Commit { client: ClientId(1), token: Token(1), claim }
    };
    let points = 4 << 20;
    let answer = block_on(follower.call(leader.address(), commit(points)));
    assert!(matches!(answer, Ok(Response::Committed(at)) if at.get() == points as u64));
    let answer = block_on(follower.call(leader.address(), commit(2 * points)));
    let Ok(Response::Refused(error)) = answer else { panic!("{answer:?}") };
    assert_eq!(error.kind(), carnet_base::ErrorKind::Invalid);
}

#[test]
fn limits_are_those_of_the_page() {
    const PAGE: &str = include_str!("../../../../docs/wire.md");
    let page = PAGE.split_whitespace().collect::<Vec<_>>().join(" ");
    let limits = Limits::default();
    assert_eq!((limits.requests_max, limits.greeting_timeout.as_secs()), (16_384, 2));
    for said in [
        format!("This is version {}.", version::VERSION),
        format!("A frame has at most {} MiB.", codec::FRAME_BYTES_MAX >> 20),
        format!("whose frames have at most {} MiB together", limits.request_bytes_max >> 20),
        "at most 16,384 requests in flight".to_owned(),
        format!("pings after {} ms of silence", limits.ping_every.as_millis()),
        format!("A server looks every {} s", limits.client_silence_max.as_secs()),
        "Connecting and greeting take two seconds at most".to_owned(),
        format!(
            "At most {} connections may be in this phase, {} of them from one address",
            limits.greetings_max, limits.greetings_per_address_max
        ),
        format!("at most {} may be past it", limits.connections_max),
    ] {
        assert!(page.contains(&said), "{said}");
    }
}
