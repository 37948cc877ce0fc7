//! Behaviour of the server under overload.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use carnet::levels::{DEFAULT, Setting};
use carnet::{Db, Durability};
use carnet_admission::diagnosis::Why;
use carnet_admission::{AdmissionLimits, AdmissionRequest, Class, GateLimits, Level, Workload};
use carnet_base::{Clock, SystemClock};
use carnet_cql::system::NodeInfo;
use carnet_cql::{Executor, Grant, Parameters, Session, Timeouts};
use carnet_server::protocol::Opcode;
use carnet_server::{CqlBackend, Limits, Metrics};
use tempfile::TempDir;

use crate::support::toy::Toy;
use crate::support::{
    Client, ERROR, EXECUTE, PREPARE, QUERY, READY, RESULT, Running, frame, get, pause,
};

const OVERLOADED: i32 = 0x1001;
const READ_TIMEOUT: i32 = 0x1200;
const PROTOCOL: i32 = 0x000a;
const COUNT: &str = "SELECT count(*) FROM ks.t";

/// Creates a database with a table whose rows take a while to count.
fn executor(running_max: usize, queue_max: usize) -> (Executor, TempDir) {
    let shed_after = Duration::from_millis(20);
    let gate = GateLimits { running_max, queue_max, queue_bytes_max: 1 << 20, shed_after };
    let limits = AdmissionLimits { statements: gate, system: gate };
    let directory = tempfile::tempdir().unwrap();
    let durability = Durability::None;
    let db = Db::builder().admission(limits).durability(durability).open(directory.path()).unwrap();
    let executor = Executor::new(db, NodeInfo::local(carnet::Uuid::from_bytes([7; 16])));
    let (session, none) = (Session::new(), Parameters::default());
    let run = |cql: &str| drop(carnet::block_on(executor.query(&session, cql, &none)).unwrap());
    run("CREATE KEYSPACE ks WITH replication = \
         {'class': 'SimpleStrategy', 'replication_factor': 1}");
    run("CREATE TABLE ks.t (p int, c int, PRIMARY KEY (p, c))");
    for batch in 0..20 {
        let inserts: String = (0..100)
            .map(|row| format!("INSERT INTO ks.t (p, c) VALUES ({batch}, {row}); "))
            .collect();
        run(&format!("BEGIN UNLOGGED BATCH {inserts} APPLY BATCH"));
    }
    (executor, directory)
}

#[test]
fn overload_is_refused_and_every_request_answered() {
    const REQUESTS: i16 = 200;
    let (executor, _directory) = executor(1, 2);
    let db = executor.db().clone();
    // By default, aggregating statements are batch work, which would wait.
    let interactive = [Setting::WorkloadType(Some(Workload::Interactive))];
    carnet::block_on(db.change_levels(|levels| levels.alter(DEFAULT, &interactive))).unwrap();
    let server = Running::of(CqlBackend::new(executor), Limits::default(), None);
    let mut client = server.client(4);
    for stream in 0..REQUESTS {
        client.query(stream, COUNT);
    }
    let (mut streams, mut good) = (BTreeSet::new(), 0);
    for _ in 0..REQUESTS {
        let response = client.receive();
        assert!(streams.insert(response.stream), "stream {} twice", response.stream);
        if response.opcode == RESULT {
            good += 1;
        } else {
            response.assert_error(OVERLOADED, "try again after ");
            let retry_after = response.retry_after_ms().unwrap();
            assert!(response.error().1.contains(&format!("after {retry_after} ms")));
        }
    }
    assert!((1..REQUESTS).contains(&good), "{good} of {REQUESTS} were answered");
    client.query(1, COUNT);
    assert_eq!(client.receive().opcode, RESULT, "it is over");
    let figures = db.admission().unwrap().figures(Class::Read);
    assert_eq!((figures.running, figures.waiting), (0, 0));
    assert_eq!(figures.admitted, u64::try_from(good).unwrap() + 1);
    let (_, metrics) = get(server.http, "/metrics");
    let shed = format!(
        "carnet_shed_total{{class=\"read\",level=\"default\",why=\"overloaded\"}} {}\n",
        figures.shed_overloaded
    );
    assert!(metrics.contains(&shed), "{metrics}");
}

/// Returns a database whose gate has one running and one waiting slot for batch statements.
fn narrow_gate() -> Db {
    let shed_after = Duration::from_millis(20);
    let gate = GateLimits { running_max: 1, queue_max: 1, queue_bytes_max: 1 << 20, shed_after };
    Db::builder().admission(AdmissionLimits { statements: gate, system: gate }).in_memory()
}

/// The text's frame ends before its parameters, so decoding it would end the connection.
#[test]
fn statement_is_refused_before_it_is_decoded() {
    let toy = Toy::behind(narrow_gate(), Workload::Interactive);
    let server = Running::of(toy, Limits::default(), None);
    let mut client = server.client(4);
    // One runs, and one waits.
    (0..2).for_each(|stream| client.query(stream, "sleep 200"));
    client.send(7, QUERY, 0, b"\0\0\0\x01q");
    client.receive().assert_error(OVERLOADED, "try again after ");
    // The one that waits may be refused as well, once it has waited for long.
    (0..2).for_each(|_| drop(client.receive()));
    client.send(8, QUERY, 0, b"\0\0\0\x01q");
    client.receive().assert_error(PROTOCOL, "");
}

#[test]
fn throttled_client_is_not_read_any_further() {
    // One runs, one waits in the queue, and one waits beyond it.
    const READ: u64 = 3;
    let toy = Toy::behind(narrow_gate(), Workload::Batch);
    let server = Running::of(toy, Limits::default(), None);
    let mut client = server.client(4);
    (0..100).for_each(|stream| client.query(stream, "sleep 200"));
    let requests = |metrics: &Metrics| metrics.requests.get(Opcode::Query).get();
    server.eventually("it is throttled", |metrics| requests(metrics) == READ);
    pause(Duration::from_millis(50));
    let read = requests(&server.metrics);
    assert!(read <= READ + 1, "{read} statements were read");
    assert_eq!(client.receive().opcode, RESULT);
    server.eventually("it is read on", |metrics| requests(metrics) > READ);
}

/// Clients that neither belong to an interactive level nor ask for refusals.
#[test]
fn requests_in_flight_are_not_refused_by_default() {
    const REQUESTS: i16 = 2_000;
    let (executor, _directory) = executor(1, 2);
    let db = executor.db().clone();
    let server = Running::of(CqlBackend::new(executor), Limits::default(), None);
    let mut clients: Vec<_> = (0..3).map(|_| server.client(4)).collect();
    for client in &mut clients {
        for stream in 0..REQUESTS {
            client.query(stream, &format!("INSERT INTO ks.t (p, c) VALUES ({stream}, 1)"));
        }
    }
    for client in &mut clients {
        for _ in 0..REQUESTS {
            let response = client.receive();
            assert_eq!(response.opcode, RESULT, "{:?}", response.error());
        }
    }
    let figures = db.admission().unwrap().figures(Class::Write);
    assert_eq!((figures.shed_overloaded, figures.shed_deadline), (0, 0));
}

#[test]
fn client_that_asks_for_refusals_gets_them() {
    let (executor, _directory) = executor(1, 2);
    let db = executor.db().clone();
    let (level, class, workload) = (&Level::default(), Class::Read, Workload::Unspecified);
    let ask = || {
        let request = AdmissionRequest::new(level, class, workload, 1);
        db.admission().unwrap().arrive(request).unwrap()
    };
    let busy = ask();
    let server = Running::of(CqlBackend::new(executor), Limits::default(), None);
    let mut client = Client::connect(server.address, 4);
    client.startup(&[("THROW_ON_OVERLOAD", "1")]);
    assert_eq!(client.receive().opcode, READY);
    let select = "SELECT c FROM ks.t WHERE p = 1 AND c = 1";
    (0..3).for_each(|stream| client.query(stream, select));
    client.receive().assert_error(OVERLOADED, "try again after ");
    drop(busy);
    (0..2).for_each(|_| assert_eq!(client.receive().opcode, RESULT));
}

/// Requests without memory wait for seconds, but not those of clients that ask for refusals.
#[test]
fn clients_that_ask_for_refusals_do_not_wait_for_memory() {
    let (executor, _directory) = executor(4, 4);
    let db = executor.db().clone();
    let limits = Limits { request_bytes_max: 10_000, ..Limits::default() };
    let server = Running::of(CqlBackend::new(executor), limits, None);
    // A part of a request holds the memory for all of it.
    let mut slow = server.client(4);
    let frame = frame(4, 1, QUERY, 0, &[0; 9_000]);
    slow.send_bytes(&frame[..1_000]);
    server.eventually("it is charged", |_| {
        get(server.http, "/metrics").1.contains("carnet_memory_bytes{owner=\"requests\"} 9000\n")
    });
    let select = format!("SELECT c FROM ks.t WHERE p = 1 AND c = 1{}", " ".repeat(2_000));
    let mut patient = server.client(4);
    patient.query(1, &select);
    let mut hasty = Client::connect(server.address, 4);
    hasty.startup(&[("THROW_ON_OVERLOAD", "1")]);
    assert_eq!(hasty.receive().opcode, READY);
    hasty.query(1, &select);
    hasty.receive().assert_error(OVERLOADED, "try again later");
    assert_eq!(server.metrics.requests_shed.get(), 1, "the other one waits");
    drop(slow);
    assert_eq!(patient.receive().opcode, RESULT);
    // A wait is told at the statement's end, which may come after its answer.
    server.eventually("the wait for memory is told", |_| {
        let totals = db.admission().unwrap().diagnosis().totals();
        totals.iter().any(|(_, totals)| !totals.waited[Why::Memory as usize].is_zero())
    });
}

/// Many keys make a statement batch work, which waits.
#[test]
fn bound_lists_are_classed_by_their_length() {
    let (executor, _directory) = executor(1, 1);
    let db = executor.db().clone();
    let (level, class, workload) = (&Level::default(), Class::Read, Workload::Unspecified);
    let request = AdmissionRequest::new(level, class, workload, 1);
    let busy = db.admission().unwrap().arrive(request).unwrap();
    let server = Running::of(CqlBackend::new(executor), Limits::default(), None);
    let mut client = Client::connect(server.address, 4);
    client.startup(&[("THROW_ON_OVERLOAD", "1")]);
    assert_eq!(client.receive().opcode, READY);
    let text = b"SELECT c FROM ks.t WHERE p IN ? AND c = 1";
    client.send(
        1,
        PREPARE,
        0,
        &[&[0, 0, 0, u8::try_from(text.len()).unwrap()], &text[..]].concat(),
    );
    let prepared = client.receive().body;
    let id = &prepared[4..6 + usize::from(prepared[5])];
    let mut execute = |stream, keys: u8| {
        let list =
            [&[0, 0, 0, keys][..], &[0, 0, 0, 4, 0, 0, 0, 1].repeat(usize::from(keys))].concat();
        let value = [&[0, 0, 0, u8::try_from(list.len()).unwrap()], &list[..]].concat();
        client.send(stream, EXECUTE, 0, &[id, &[0, 1, 1, 0, 1], &value[..]].concat());
    };
    (0..2).for_each(|stream| execute(stream, 12));
    (2..5).for_each(|stream| execute(stream, 13));
    let refused = client.receive();
    refused.assert_error(OVERLOADED, "try again after ");
    assert_eq!(refused.stream, 1, "the queue is full");
    drop(busy);
    for answer in [(); 4].map(|()| client.receive()) {
        // The first one may be refused as well, once it has waited for long.
        assert!(answer.opcode == RESULT || answer.stream == 0, "{answer:?}");
    }
}

/// A client with one request does not wait behind all requests of another client.
#[test]
fn bulk_client_holds_a_part_of_the_queue() {
    const BULK: i16 = 400;
    const SHARE: usize = 32;
    let shed_after = Duration::from_secs(60);
    let gate =
        GateLimits { running_max: 1, queue_max: 1_000, queue_bytes_max: 1 << 20, shed_after };
    let limits = AdmissionLimits { statements: gate, system: gate };
    let toy = Toy::behind(Db::builder().admission(limits).in_memory(), Workload::Unspecified);
    let server = Running::of(toy, Limits::default(), None);
    let mut bulk = server.client(4);
    (0..BULK).for_each(|stream| bulk.query(stream, "sleep 5"));
    let requests = |metrics: &Metrics| metrics.requests.get(Opcode::Query).get();
    server.eventually("its part is used up", |metrics| requests(metrics) > SHARE as u64);
    let mut other = server.client(4);
    let before = requests(&server.metrics);
    other.query(1, "sleep 5");
    assert_eq!(other.receive().opcode, RESULT);
    // The part of each of two clients is read on meanwhile.
    let read = requests(&server.metrics) - before;
    assert!(read <= 3 * SHARE as u64, "{read} requests came before it");
    (0..BULK).for_each(|_| assert_eq!(bulk.receive().opcode, RESULT));
}

#[test]
fn drivers_connect_while_the_gate_is_full() {
    let (executor, _directory) = executor(1, 1);
    let server = Running::of(CqlBackend::new(executor), Limits::default(), None);
    let mut busy = server.client(4);
    for stream in 0..100 {
        busy.query(stream, COUNT);
    }
    let mut other = server.client(4);
    for text in ["SELECT cluster_name FROM system.local", "SHOW BOTTLENECK"] {
        other.query(1, text);
        assert_eq!(other.receive().opcode, RESULT, "{text}");
    }
    (0..100).for_each(|_| drop(busy.receive()));
}

#[test]
fn statements_end_at_their_timeout() {
    let (executor, _directory) = executor(4, 4);
    let timeouts = Timeouts {
        statement: Duration::from_secs(5),
        scan: Duration::from_nanos(1),
        schema: Duration::from_secs(5),
    };
    executor.set_timeouts(timeouts);
    let server = Running::of(CqlBackend::new(executor), Limits::default(), None);
    let mut client = server.client(4);
    client.query(1, COUNT);
    client.receive().assert_error(READ_TIMEOUT, "");
    client.query(1, &format!("{COUNT} USING TIMEOUT 0ms"));
    client.receive().assert_error(READ_TIMEOUT, "");
    // The list is long enough that the timeout is noticed only when the statement runs.
    let keys = vec!["1"; 1_000].join(",");
    client.query(1, &format!("SELECT c FROM ks.t WHERE p IN ({keys}) USING TIMEOUT 0ms"));
    client.receive().assert_error(READ_TIMEOUT, "");
    client.query(1, "SELECT c FROM ks.t WHERE p = 1 AND c = 1");
    assert_eq!(client.receive().opcode, RESULT);
}

/// Applications set short timeouts for statements, and still change the schema.
#[test]
fn schema_changes_have_their_own_timeout() {
    let (executor, _directory) = executor(4, 4);
    let (short, minute) = (Duration::from_nanos(1), Duration::from_secs(60));
    executor.set_timeouts(Timeouts { statement: short, scan: short, schema: minute });
    let server = Running::of(CqlBackend::new(executor), Limits::default(), None);
    let mut client = server.client(4);
    for text in ["CREATE TABLE ks.other (p int PRIMARY KEY)", "SELECT * FROM system_schema.tables"]
    {
        client.query(1, text);
        assert_eq!(client.receive().opcode, RESULT, "{text}");
    }
    client.query(1, "SELECT c FROM ks.t WHERE p = 1 AND c = 1");
    client.receive().assert_error(READ_TIMEOUT, "");
}

#[test]
fn schema_change_that_timed_out_says_what_happened() {
    let (executor, _directory) = executor(4, 4);
    let (short, minute) = (Duration::from_nanos(1), Duration::from_secs(60));
    executor.set_timeouts(Timeouts { statement: minute, scan: minute, schema: short });
    let create = "CREATE TABLE ks.other (p int PRIMARY KEY)";
    let grant = Grant { arrived: Some(SystemClock.now()), ..Grant::default() };
    let begun = Parameters { grant, ..Parameters::default() };
    let ended = carnet::block_on(executor.query(&Session::new(), create, &begun));
    let error = ended.unwrap_err().to_string();
    assert!(error.contains("the schema was not changed"), "{error}");
    // The timeout passes before the server has read the request.
    let server = Running::of(CqlBackend::new(executor), Limits::default(), None);
    let mut client = server.client(4);
    client.query(1, create);
    client.receive().assert_error(READ_TIMEOUT, "nothing was done");
}

/// The statement is not admitted before the end of the test.
#[test]
fn timeout_begins_at_the_arrival() {
    let (executor, _directory) = executor(1, 4);
    let db = executor.db().clone();
    let (level, class, workload) = (&Level::default(), Class::Read, Workload::Unspecified);
    let request = AdmissionRequest::new(level, class, workload, 1);
    let busy = db.admission().unwrap().arrive(request).unwrap();
    let server = Running::of(CqlBackend::new(executor), Limits::default(), None);
    let mut client = server.client(4);
    client.query(1, "SELECT c FROM ks.t WHERE p = 1 AND c = 1 USING TIMEOUT 20ms");
    client.receive().assert_error(READ_TIMEOUT, "timed out while it waited");
    drop(busy);
}

/// The client is not read from, so its disconnect is not read either.
#[test]
fn disconnect_cancels_waiting_statements() {
    let limits = Limits { requests_per_connection_max: 1, ..Limits::default() };
    let server = Running::with(limits, None);
    let mut client = server.client(4);
    for stream in 0..3 {
        client.query(stream, "sleep 60000");
    }
    server.eventually("a statement runs", |metrics| metrics.requests_in_flight.get() == 1);
    drop(client);
    let begun = SystemClock.now();
    server.eventually("it is cancelled", |metrics| metrics.requests_in_flight.get() == 0);
    let took = SystemClock.now().since(begun);
    assert!(took < Duration::from_secs(5), "{took:?}");
}

/// A client requests many answers and reads nothing; then it reads, and gets all of them.
#[test]
fn large_answers_wait_as_requests() {
    const REQUESTS: i16 = 100;
    const BLOB_BYTES: usize = 1 << 20;
    let toy = Toy::default();
    let made = Arc::clone(&toy.blob_bytes);
    let server = Running::of(toy, Limits::default(), None);
    let mut client = server.client(4);
    for stream in 0..REQUESTS {
        client.query(stream, &format!("blob {BLOB_BYTES}"));
    }
    server.eventually("answers are made", |_| made.load(Ordering::Relaxed) >= BLOB_BYTES);
    pause(Duration::from_millis(300));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let bytes = made.load(Ordering::Relaxed);
    // Kernel buffers take some, and each thread may make one more answer at the limit.
    assert!(bytes <= (12 + threads) * BLOB_BYTES, "{bytes} bytes of answers were made");
    let streams: BTreeSet<_> = (0..REQUESTS).map(|_| client.receive().stream).collect();
    assert_eq!(streams.len(), usize::try_from(REQUESTS).unwrap());
}

#[test]
fn unread_answers_are_waited_for_at_the_socket() {
    // Few enough for the buffers of the kernel: the client sends all of them before it reads.
    const REQUESTS: i16 = 24;
    const BLOB_BYTES: usize = 1 << 20;
    let db = Db::builder().admission(AdmissionLimits::of_server(2)).in_memory();
    // A short statement runs as soon as its request is read, and no request is read while answers wait
    // for the socket. So only a statement that becomes a task, as a long text does, waits for the socket.
    let query = format!("blob {BLOB_BYTES}{}", " ".repeat(64 << 10));
    let toy = Toy::behind(db.clone(), Workload::Batch);
    let made = Arc::clone(&toy.blob_bytes);
    let server = Running::of(toy, Limits::default(), None);
    let told = || -> Duration {
        let totals = db.admission().unwrap().diagnosis().totals();
        totals.iter().map(|(_, totals)| totals.waited[Why::Socket as usize]).sum()
    };
    // On a busy machine, the client may still begin to read too early. Buffers grow with each read,
    // so each attempt has a connection of its own.
    let are_waited_for = (0..50).any(|_| {
        let mut client = server.client(4);
        let before = made.load(Ordering::Relaxed);
        (0..REQUESTS).for_each(|stream| client.query(stream, &query));
        server.eventually("answers are made", |_| made.load(Ordering::Relaxed) > before);
        // No further answer is made once the buffers are full.
        let mut last = before;
        while last != made.load(Ordering::Relaxed) {
            last = made.load(Ordering::Relaxed);
            pause(Duration::from_millis(100));
        }
        // The waits are told before they end: the client may never read.
        let told_before = told();
        pause(Duration::from_millis(1_200));
        let is_told = told() > told_before;
        (0..REQUESTS).for_each(|_| assert_eq!(client.receive().opcode, RESULT));
        is_told
    });
    assert!(are_waited_for, "no wait for the socket is counted");
}

#[test]
fn large_result_comes_with_a_warning() {
    const WARNING: u8 = 0x08;
    let (executor, _directory) = executor(4, 4);
    let limits = Limits { answer_bytes_max: 64 << 20, ..Limits::default() };
    let server = Running::of(CqlBackend::new(executor), limits, None);
    let mut client = server.client(4);
    client.query(1, "CREATE TABLE ks.large (k int PRIMARY KEY, v text)");
    assert_eq!(client.receive().opcode, RESULT);
    let value = "x".repeat(900_000);
    for key in 0..6 {
        client.query(1, &format!("INSERT INTO ks.large (k, v) VALUES ({key}, '{value}')"));
        assert_eq!(client.receive().opcode, RESULT);
    }
    let mut flags = |text| {
        client.query(1, text);
        let response = client.receive();
        assert_eq!(response.opcode, RESULT);
        response.flags & WARNING
    };
    assert_eq!(flags("SELECT v FROM ks.large LIMIT 2"), 0);
    assert_eq!(flags("SELECT v FROM ks.large"), WARNING);
}

/// Clients that read nothing hold the memory of answers until they are cut off.
#[test]
fn clients_that_read_nothing_give_memory_back() {
    const MIB: usize = 1 << 20;
    let limits = Limits { answer_bytes_max: 8 * MIB, ..Limits::default() };
    let db = Db::builder().admission(AdmissionLimits::of_server(2)).in_memory();
    let toy = Toy::behind(db.clone(), Workload::Interactive);
    let server = Running::of(toy, limits, None);
    let mut clients: Vec<_> = (0..4).map(|_| server.client(4)).collect();
    // Kernel buffers take some, and each connection begins at most one MiB more.
    let blob = format!("blob {}", 16 * MIB);
    clients.iter_mut().for_each(|client| client.query(1, &blob));
    let mut other = server.client(4);
    server.eventually("queries are refused", |_| {
        other.query(1, "blob 10");
        other.receive().opcode == ERROR
    });
    let count = db.admission().unwrap().figures(Class::Read).shed_memory;
    assert!(count > 0);
    let (_, metrics) = get(server.http, "/metrics");
    let labels = "class=\"read\",level=\"default\",why=\"answer_memory\"";
    assert!(metrics.contains(&format!("\ncarnet_shed_total{{{labels}}} {count}\n")), "{metrics}");
    assert!(metrics.contains("\nprocess_resident_memory_bytes "), "{metrics}");
    server
        .eventually("stalled clients are cut off", |metrics| metrics.connections_stalled.get() > 0);
    server.eventually("there is memory again", |_| {
        other.query(1, "blob 10");
        other.receive().opcode == RESULT
    });
}

/// Answers hold none of their own memory, but requests, answers and connections together hold nearly
/// all of theirs.
#[test]
fn queries_are_refused_without_memory_for_an_answer() {
    const MIB: usize = 1 << 20;
    let limits =
        Limits { memory_bytes_max: 16 * MIB, answer_bytes_max: 8 * MIB, ..Limits::default() };
    let server = Running::with(limits, None);
    let mut slow = server.client(4);
    // A request whose body arrives slowly holds the memory of its bytes so far.
    let body = vec![0; 16 * MIB - (144 << 10)];
    let frame = frame(4, 1, QUERY, 0, &body);
    let mut other = server.client(4);
    other.query(1, "blob 10");
    assert_eq!(other.receive().opcode, RESULT);
    slow.send_bytes(&frame[..frame.len() - 1]);
    server.eventually("queries are refused", |_| {
        other.query(1, "blob 10");
        other.receive().opcode == ERROR
    });
    assert_eq!(server.metrics.requests_shed.get(), 0, "it was read");
    drop(slow);
    server.eventually("there is memory again", |_| {
        other.query(1, "blob 10");
        other.receive().opcode == RESULT
    });
}

#[test]
fn http_answers_while_all_threads_are_busy() {
    let server = Running::start();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut clients: Vec<_> = (0..2 * threads).map(|_| server.client(4)).collect();
    clients.iter_mut().for_each(|client| client.query(1, "hog 3000"));
    pause(Duration::from_millis(200));
    let begun = SystemClock.now();
    assert_eq!(get(server.http, "/livez").0, "HTTP/1.1 200 OK");
    assert!(get(server.http, "/metrics").1.contains("carnet_server_"));
    let took = SystemClock.now().since(begun);
    assert!(took < Duration::from_secs(1), "{took:?}");
}

#[test]
fn drain_cuts_busy_statements_off_in_time() {
    let limits = Limits { drain_timeout: Duration::from_millis(200), ..Limits::default() };
    let mut server = Running::with(limits, None);
    let mut client = server.client(4);
    (0..16).for_each(|stream| client.query(stream, "spin 60000"));
    server.eventually("all run", |metrics| metrics.statements_long.get() == 16);
    let begun = SystemClock.now();
    server.shut_down();
    server.join();
    let took = SystemClock.now().since(begun);
    assert!(took < Duration::from_secs(5), "{took:?}");
}

/// A scan of rows in memory never waits. With one thread for all statements, a small query would
/// wait for its end.
#[test]
fn small_query_runs_beside_a_scan() {
    let (executor, _directory) = executor(8, 8);
    let server = Running::on_one_thread(CqlBackend::new(executor));
    let mut scans = server.client(4);
    let mut small = server.client(4);
    // The machine may stop the test for longer than a scan takes.
    let runs_beside = (0..50).any(|_| {
        scans.query(1, COUNT);
        let is_running = || server.metrics.requests_in_flight.get() == 1;
        let has_begun = (0..100).any(|_| {
            pause(Duration::from_micros(100));
            is_running()
        });
        small.query(1, "SELECT c FROM ks.t WHERE p = 1 AND c = 1");
        assert_eq!(small.receive().opcode, RESULT);
        let is_running = has_begun && is_running();
        assert_eq!(scans.receive().opcode, RESULT);
        is_running
    });
    assert!(runs_beside, "it waits for the scan");
}

/// A small statement would wait for the first slice of a batch statement on its thread.
#[test]
fn batch_statements_begin_on_long_threads_beside_small_ones() {
    const PAIRS: u64 = 20;
    let (executor, _directory) = executor(8, 8);
    let server = Running::of(CqlBackend::new(executor), Limits::default(), None);
    let mut client = server.client(4);
    let keys: Vec<String> = (0..13).map(|at| (100 + at).to_string()).collect();
    let batch = format!("SELECT c FROM ks.t WHERE p IN ({})", keys.join(", "));
    let mut ask = |text: &str| {
        client.query(1, text);
        assert_eq!(client.receive().opcode, RESULT);
    };
    let mut long = |is_beside_small: bool| {
        let before = server.metrics.statements_long.get();
        for _ in 0..PAIRS {
            if is_beside_small {
                ask("SELECT c FROM ks.t WHERE p = 1 AND c = 1");
            } else {
                pause(Duration::from_millis(21));
            }
            ask(&batch);
        }
        server.metrics.statements_long.get() - before
    };
    // On a busy machine a slice may be used up, or a small statement be forgotten.
    let mut counts = Vec::new();
    let is_shown = (0..20).any(|_| {
        let (alone, beside) = (long(false), long(true));
        counts.push((alone, beside));
        beside > alone + PAIRS / 4
    });
    assert!(is_shown, "{counts:?}");
}

/// A request waits for memory before its bytes are read, so that no statement knows of the wait.
#[test]
fn diagnosis_knows_of_requests_that_wait_for_memory() {
    // Longer than one read from the socket.
    const LEN: usize = 400_000;
    let (executor, _directory) = executor(1, 2);
    let db = executor.db().clone();
    let limits = Limits { request_bytes_max: 600_000, ..Limits::default() };
    let server = Running::of(CqlBackend::new(executor), limits, None);
    let (mut first, mut second) = (server.client(4), server.client(4));
    let long = |text: &str| format!("{text}{}", " ".repeat(LEN));
    let text = long("SELECT p FROM ks.t LIMIT 1");
    let mut body = u32::try_from(text.len()).unwrap().to_be_bytes().to_vec();
    body.extend_from_slice(text.as_bytes());
    body.extend_from_slice(&[0, 1, 0]);
    let request = frame(4, 1, QUERY, 0, &body);
    let (begun, rest) = request.split_at(request.len() - 1);
    first.send_bytes(begun);
    server.eventually("it has arrived", |metrics| metrics.received_bytes.get() > LEN as u64);
    second.query(1, &long("SELECT c FROM ks.t LIMIT 1"));
    server.eventually("so has this", |metrics| metrics.received_bytes.get() > LEN as u64 + 1_000);
    pause(Duration::from_millis(200));
    first.send_bytes(rest);
    for client in [&mut first, &mut second] {
        assert_eq!(client.receive().opcode, RESULT);
    }
    let waited = db.admission().unwrap().diagnosis().report().waited_for(Why::Memory);
    assert!(waited >= Duration::from_millis(100), "{waited:?}");
}
