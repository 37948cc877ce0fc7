//! Guarantees to a client, and limits of its effect on the server.

use std::io::Read;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::BytesMut;
use carnet_base::{Clock, ErrorKind, Moment, SystemClock, WallTime};
use carnet_cql::result::{ChangeKind, ChangeTarget, SchemaChange};
use carnet_cql::system::{ClientList, ConnectionStage};
use carnet_server::protocol::{Opcode, segment};
use carnet_server::{Authenticator, Config, Event, Limits, Server, Users};

use crate::support::{
    AUTH_SUCCESS, AUTHENTICATE, Client, ERROR, EVENT, OPTIONS, PASSWORDS, QUERY, READY, RESULT,
    Running, SUPPORTED, frame, get, http, http_over, pause, toy::Toy,
};

const PROTOCOL: i32 = 0x000a;
const OVERLOADED: i32 = 0x1001;

fn limits() -> Limits {
    Limits::default()
}

#[tokio::test]
async fn server_beyond_loopback_requires_passwords_and_tls() {
    let bind = async |address: &str, passwords: Option<&str>| {
        let config = Config::new(address.parse().unwrap());
        let authenticator =
            passwords.map(|text| Authenticator::of_users(Arc::new(Users::parse(text).unwrap())));
        Server::bind(config, Toy::default(), authenticator, Arc::new(SystemClock)).await
    };
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:9042", "[::ffff:192.0.2.1]:9042"] {
        let Err(error) = bind(address, None).await else { panic!("listens on {address}") };
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.message().contains("without passwords"), "{error}");
    }
    assert!(bind("127.0.0.1:0", None).await.is_ok());
    let Err(error) = bind("0.0.0.0:0", Some(PASSWORDS)).await else { panic!("listens in clear") };
    assert!(error.message().contains("without TLS"), "{error}");
}

#[test]
fn unsupported_version_is_answered_on_stream_zero() {
    let server = Running::start();
    for number in [66, 65, 3, 6] {
        let mut client = Client::connect(server.address, 5);
        // On stream 7, like some drivers.
        client.send_bytes(&frame(number, 7, OPTIONS, 0, b""));
        let response = client.receive();
        assert_eq!((response.version, response.stream), (5, 0));
        let start = format!("Invalid or unsupported protocol version ({number}); ");
        response.assert_error(PROTOCOL, &start);
        assert!(response.error().1.starts_with(&start));
        client.assert_closed();
    }
    server.client(4).query(1, "warn");
}

#[test]
fn protocol_violation_ends_only_its_connection() {
    let server = Running::start();
    let mut bystander = server.client(4);
    let mut negative = frame(4, 1, QUERY, 0, b"");
    negative[5] = 0xff;
    let mut oversize = frame(4, 1, QUERY, 0, b"");
    oversize[5..].copy_from_slice(&(16 << 20 | 1_i32).to_be_bytes());
    let not_utf8 = frame(4, 1, QUERY, 0, b"\0\0\0\x02\xc3\x28\0\x01\0");
    let beyond = frame(4, 1, QUERY, 0, b"\x7f\xff\xff\xffx");
    let response = frame(4 | 0x80, 1, RESULT, 0, b"");
    for (bytes, words) in [
        (negative, "cannot have -"),
        (oversize, "16777217 bytes; 16777216 are allowed"),
        (not_utf8, "UTF-8"),
        (beyond, "2147483647 bytes"),
        (response, "requests, not responses"),
    ] {
        let mut client = server.client(4);
        client.send_bytes(&bytes);
        client.receive().assert_error(PROTOCOL, words);
        client.assert_closed();
    }
    let mut client = server.client(5);
    client.send_bytes(&[0; 64]);
    client.receive().assert_error(PROTOCOL, "checksum");
    client.assert_closed();
    bystander.query(1, "warn");
    assert_eq!(bystander.receive().opcode, RESULT);
}

#[test]
fn bodies_before_login_are_small() {
    let server = Running::start();
    let mut client = Client::connect(server.address, 4);
    client.send_bytes(&frame(4, 0, OPTIONS, 0, &[0; 65_537])[..9]);
    client.receive().assert_error(PROTOCOL, "65536 are allowed");
    client.assert_closed();
}

#[test]
fn requests_run_concurrently() {
    let server = Running::start();
    for version in [4, 5] {
        let mut client = server.client(version);
        client.query(1, "sleep 300");
        client.query(2, "warn");
        client.send(3, OPTIONS, 0, b"");
        let mut streams: Vec<i16> = (0..3).map(|_| client.receive().stream).collect();
        assert_eq!(streams.pop(), Some(1), "the slow one is last");
        streams.sort_unstable();
        assert_eq!(streams, [2, 3]);
    }
}

#[test]
fn requests_per_connection_are_limited() {
    let limits = Limits { requests_per_connection_max: 2, ..limits() };
    let server = Running::with(limits, None);
    let mut client = server.client(4);
    for stream in 1..=4 {
        client.query(stream, "sleep 200");
    }
    client.query(5, "warn");
    server.eventually("two run", |metrics| metrics.requests_in_flight.get() == 2);
    let streams: Vec<i16> = (0..5).map(|_| client.receive().stream).collect();
    assert!(!streams[..2].contains(&5), "the fast one waited for room: {streams:?}");
}

#[test]
fn unread_answers_stop_the_reading_of_requests() {
    let limits = Limits { unsent_bytes_max: 64 << 10, requests_per_connection_max: 4, ..limits() };
    let server = Running::with(limits, None);
    let mut client = server.client(4);
    let sent = 500;
    for stream in 0..sent {
        client.query(stream, "blob 100000");
    }
    let taken = || server.metrics.requests.get(Opcode::Query).get();
    let mut before = 0;
    server.eventually("the server stops reading", |_| {
        pause(Duration::from_millis(100));
        std::mem::replace(&mut before, taken()) == taken()
    });
    // The kernel buffers a few MiB of these 50.
    assert!(taken() < 250, "{} requests were taken", taken());
    for _ in 0..sent {
        assert_eq!(client.receive().opcode, RESULT);
    }
    assert_eq!(taken(), 500);
}

#[test]
fn stalled_client_is_cut_off() {
    let stall_timeout = Duration::from_millis(200);
    let limits = Limits { stall_timeout, greeting_timeout: stall_timeout, ..limits() };
    let server = Running::with(limits, None);
    let silent = Client::connect(server.address, 4);
    let mut half_a_request = server.client(4);
    half_a_request.send_bytes(&frame(4, 1, QUERY, 0, &[0; 100])[..50]);
    let mut half_a_segment = server.client(5);
    half_a_segment.send_bytes(&[1, 2, 3]);
    let mut not_reading = server.client(4);
    for stream in 0..200 {
        not_reading.query(stream, "blob 100000");
    }
    let mut idle = server.client(4);
    server.eventually("the four are cut off", |metrics| metrics.connections.get() == 1);
    for mut client in [silent, half_a_request, half_a_segment] {
        client.assert_closed();
    }
    // Between requests a client may be idle up to the idle timeout.
    idle.query(1, "warn");
    assert_eq!(idle.receive().opcode, RESULT);
}

#[test]
fn request_beyond_the_budget_keeps_the_connection() {
    let limits = Limits { request_bytes_max: 10_000, ..limits() };
    let server = Running::with(limits, None);
    for version in [4, 5] {
        let mut client = server.client(version);
        client.query(1, &"x".repeat(200_000));
        let response = client.receive();
        assert_eq!(response.stream, 1);
        response.assert_error(OVERLOADED, "try again later");
        client.query(2, "warn");
        assert_eq!(client.receive().opcode, RESULT);
    }
    assert_eq!(server.metrics.requests_shed.get(), 2);
}

#[test]
fn request_holds_its_bytes_until_answered() {
    let limits = Limits { request_bytes_max: 10_000, ..limits() };
    let server = Running::with(limits, None);
    let (mut first, mut second) = (server.client(4), server.client(4));
    let padding = " ".repeat(6000);
    first.query(1, &format!("sleep 300{padding}"));
    server.eventually("it runs", |metrics| metrics.requests_in_flight.get() == 1);
    let warn = format!("warn{padding}");
    second.query(1, &warn);
    assert_eq!(first.receive().opcode, RESULT);
    assert_eq!(second.receive().opcode, RESULT, "it waits for memory");
    assert_eq!(server.metrics.requests_shed.get(), 0);
    first.query(1, &format!("sleep 9000{padding}"));
    server.eventually("it runs", |metrics| metrics.requests_in_flight.get() == 1);
    second.query(1, &warn);
    second.receive().assert_error(OVERLOADED, "try again later");
    assert_eq!(server.metrics.requests_in_flight.get(), 1, "it has waited for seconds");
}

#[test]
fn connections_are_charged_to_the_servers_memory() {
    // Half of the memory is enough for two connections.
    let limits =
        Limits { memory_bytes_max: 240 << 10, connections_per_address_max: Some(3), ..limits() };
    let server = Running::with(limits, None);
    let first = server.client(4);
    let mut second = server.client(4);
    second.query(1, "warn");
    assert_eq!(second.receive().opcode, RESULT);
    Client::connect(server.address, 4).assert_closed();
    assert_eq!(server.metrics.connections_refused.get(), 1);
    let (_, metrics) = get(server.http, "/metrics");
    assert!(metrics.contains("carnet_memory_bytes{owner=\"connections\"} 98304\n"), "{metrics}");
    drop(first);
    server.eventually("its memory is given back", |metrics| metrics.connections.get() == 1);
    server.client(4);
}

/// Regression: 16 connections that announced 16 MiB each and sent 14 bytes held the whole budget.
#[test]
fn announced_bytes_take_no_memory() {
    let server = Running::start();
    let announced = frame(4, 1, QUERY, 0, &vec![0; 16 << 20]);
    let liars: Vec<Client> = (0..20)
        .map(|_| {
            let mut liar = server.client(4);
            liar.send_bytes(&announced[..14]);
            liar
        })
        .collect();
    server.eventually("the bytes arrive", |metrics| metrics.received_bytes.get() >= 20 * 14);
    let mut client = server.client(4);
    client.query(1, &format!("warn{}", " ".repeat(1 << 20)));
    assert_eq!(client.receive().opcode, RESULT);
    assert_eq!(server.metrics.requests_shed.get(), 0);
    drop(liars);
}

#[test]
fn trickled_request_is_cut_off() {
    let limits = Limits { frame_timeout: Duration::from_millis(300), ..limits() };
    let server = Running::with(limits, None);
    for version in [4, 5] {
        let mut trickling = server.client(version);
        let mut quick = server.client(version);
        let mut bytes = BytesMut::from(&frame(version, 1, QUERY, 0, &[0; 1000])[..]);
        if version == 5 {
            let payload = bytes.split();
            segment::put(&mut bytes, &payload, true, false);
        }
        let mut sent = 0;
        while server.metrics.connections.get() == 2 {
            assert!(sent < 200, "it takes as long as it likes");
            // The server may just have closed the connection.
            let _ = trickling.try_send_bytes(&bytes[sent..=sent]);
            sent += 1;
            pause(Duration::from_millis(20));
            quick.query(1, "warn");
            assert_eq!(quick.receive().opcode, RESULT);
        }
        drop((trickling, quick));
        server.eventually("both are gone", |metrics| metrics.connections.get() == 0);
    }
}

#[test]
fn silent_connections_are_cut_off() {
    let (greeting_timeout, idle_timeout) = (Duration::from_millis(200), Duration::from_millis(600));
    let server =
        Running::with(Limits { greeting_timeout, idle_timeout, ..limits() }, Some(PASSWORDS));
    let started = || {
        let mut client = Client::connect(server.address, 4);
        client.startup(&[]);
        assert_eq!(client.receive().opcode, AUTHENTICATE);
        client
    };
    let (mut asked, mut idle, mut living) = (started(), started(), started());
    for client in [&mut idle, &mut living] {
        client.log_in("ann", "one");
        assert_eq!(client.receive().opcode, AUTH_SUCCESS);
    }
    let heartbeat = |client: &mut Client| {
        client.send(1, OPTIONS, 0, b"");
        assert_eq!(client.receive().opcode, SUPPORTED);
        pause(Duration::from_millis(50));
    };
    server.eventually("the silent two are cut off", |metrics| {
        heartbeat(&mut living);
        metrics.connections.get() == 1
    });
    asked.assert_closed();
    idle.assert_closed();
    living.query(1, "sleep 900");
    assert_eq!(living.receive().opcode, RESULT, "a client that waits for an answer is not idle");
}

#[test]
fn one_address_holds_half_of_the_connections() {
    let server = Running::with(Limits { connections_max: 4, ..limits() }, None);
    let first = server.client(4);
    let _second = server.client(4);
    Client::connect(server.address, 4).assert_closed();
    assert_eq!(server.metrics.connections_refused.get(), 1);
    let _other = server.client_from("127.0.0.2", 4);
    drop(first);
    server.eventually("there is room again", |metrics| metrics.connections.get() == 2);
    server.client(4);
}

/// Idle connections of one address use neither the memory of statements nor that of all connections.
#[test]
fn idle_connections_leave_memory_to_statements() {
    const CONNECTION_BYTES: usize = 48 << 10;
    let limits = Limits { memory_bytes_max: 16 * CONNECTION_BYTES, ..limits() };
    let server = Running::with(limits, None);
    let mut first = server.client(4);
    let _idle: Vec<Client> = (1..4).map(|_| server.client(4)).collect();
    Client::connect(server.address, 4).assert_closed();
    first.query(1, "warn");
    assert_eq!(first.receive().opcode, RESULT);
    let _others: Vec<Client> = (0..3).map(|_| server.client_from("127.0.0.2", 4)).collect();
    let address = server.address;
    Client::on(server.connect_from("127.0.0.2", address), 4).assert_closed();
    // The last eighth is for addresses with few connections.
    let _third = server.client_from("127.0.0.3", 4);
    first.query(2, "warn");
    assert_eq!(first.receive().opcode, RESULT);
}

#[test]
fn one_address_holds_a_share_of_request_bytes() {
    let limits = Limits {
        request_bytes_max: 20_000,
        request_bytes_per_address_max: Some(10_000),
        ..limits()
    };
    let server = Running::with(limits, None);
    let (mut first, mut second) = (server.client(4), server.client(4));
    let mut other = server.client_from("127.0.0.2", 4);
    let padding = " ".repeat(6000);
    first.query(1, &format!("sleep 300{padding}"));
    server.eventually("it runs", |metrics| metrics.requests_in_flight.get() == 1);
    let warn = format!("warn{padding}");
    second.query(1, &warn);
    other.query(1, &warn);
    assert_eq!(other.receive().opcode, RESULT);
    assert_eq!(server.metrics.requests_in_flight.get(), 1, "the second waits for the first");
    assert_eq!(first.receive().opcode, RESULT);
    assert_eq!(second.receive().opcode, RESULT);
}

#[test]
fn silent_http_connections_leave_room_for_others() {
    let server = Running::start();
    let mut silent: Vec<TcpStream> =
        (0..100).map(|_| TcpStream::connect(server.http).unwrap()).collect();
    let other = server.connect_from("127.0.0.2", server.http);
    let (status, _) = http_over(other, "GET /livez HTTP/1.1\r\n\r\n");
    assert_eq!(status, "HTTP/1.1 200 OK");
    // Connections beyond the share are closed at once; the others at the deadline.
    for stream in &mut silent {
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        assert!(matches!(stream.read(&mut [0]), Ok(0) | Err(_)));
    }
    assert_eq!(get(server.http, "/livez").0, "HTTP/1.1 200 OK");
}

#[test]
fn sending_client_gets_the_last_answer() {
    let server = Running::start();
    let mut client = server.client(4);
    client.send_bytes(&frame(4, 1, QUERY, 0, &vec![0; 17 << 20])[..9]);
    // Closing a socket while bytes arrive resets it, which may destroy the last answer.
    for _ in 0..5 {
        pause(Duration::from_millis(50));
        client.send_bytes(&[0; 1000]);
    }
    client.receive().assert_error(PROTOCOL, "are allowed");
    client.assert_closed();
}

#[test]
fn only_the_right_password_logs_in() {
    let server = Running::with(limits(), Some(PASSWORDS));
    let greet = |version| {
        let mut client = Client::connect(server.address, version);
        client.startup(&[]);
        assert_eq!(client.receive().opcode, AUTHENTICATE);
        client.settle(false);
        client
    };
    for version in [4, 5] {
        let mut right = greet(version);
        right.log_in("ann", "one");
        assert_eq!(right.receive().opcode, AUTH_SUCCESS);
        right.query(2, "whoami");
        let answer = right.receive();
        assert!(answer.body.windows(3).any(|bytes| bytes == b"ann"), "{answer:?}");

        for (user, password) in [("ann", "two"), ("eve", "one"), ("ann", "")] {
            let mut wrong = greet(version);
            wrong.log_in(user, password);
            wrong.receive().assert_error(0x0100, "the user or the password is wrong");
            wrong.assert_closed();
        }
        let mut unasked = greet(version);
        unasked.query(1, "whoami");
        unasked.receive().assert_error(PROTOCOL, "AUTH_RESPONSE");
        unasked.assert_closed();
    }
    assert_eq!(server.metrics.logins_refused.get(), 6);
}

#[test]
fn connections_of_one_user_are_limited() {
    let limits = Limits { connections_per_user_max: Some(2), ..limits() };
    let server = Running::with(limits, Some(PASSWORDS));
    let log_in = |user, password| {
        let client = server.connect_from("127.0.0.1", server.address);
        client.set_nodelay(true).unwrap();
        let mut client = Client::on(client, 4);
        client.startup(&[]);
        assert_eq!(client.receive().opcode, AUTHENTICATE);
        client.log_in(user, password);
        let answer = client.receive();
        (client, answer)
    };
    let (first, answer) = log_in("ann", "one");
    assert_eq!(answer.opcode, AUTH_SUCCESS);
    let (_second, answer) = log_in("ann", "one");
    assert_eq!(answer.opcode, AUTH_SUCCESS);
    let (_, answer) = log_in("ann", "one");
    answer.assert_error(0x1001, "the user has too many connections");
    let (_, answer) = log_in("ann", "two");
    answer.assert_error(0x0100, "the user or the password is wrong");
    drop(first);
    server.eventually("it is gone", |metrics| metrics.connections.get() == 1);
    let (_, answer) = log_in("ann", "one");
    assert_eq!(answer.opcode, AUTH_SUCCESS);
}

/// A client that sends many times its rate is slowed down; another one is not.
#[test]
fn requests_of_one_client_keep_to_their_rate() {
    const RATE: u32 = 50;
    let limits = Limits { requests_per_client_max: Some(RATE), ..limits() };
    let server = Running::with(limits, None);
    let (mut greedy, mut patient) = (server.client(4), server.client_from("127.0.0.2", 4));
    let begun = SystemClock.now();
    let requests = || server.metrics.requests.get(Opcode::Query).get();
    (0..4 * 50).for_each(|stream| greedy.query(stream, "warn"));
    server.eventually("a second's requests are taken", |_| requests() >= u64::from(RATE));
    patient.query(1, "warn");
    assert_eq!(patient.receive().opcode, RESULT);
    assert!(requests() < 150, "the patient client waits for the greedy one");
    (0..4 * 50).for_each(|_| assert_eq!(greedy.receive().opcode, RESULT));
    let took = SystemClock.now().since(begun);
    assert!(took >= Duration::from_millis(2_900), "200 requests took {took:?}");
}

/// Each reading takes a millisecond, so that a pause also passes between two readings.
#[derive(Debug, Default)]
struct ReadingClock(AtomicU64);

impl Clock for ReadingClock {
    fn now(&self) -> Moment {
        Moment(Duration::from_millis(self.0.fetch_add(1, Ordering::Relaxed)))
    }

    fn wall(&self) -> WallTime {
        WallTime(1_700_000_000_000_000)
    }
}

/// The requests are in the server's buffer, and no byte comes that would wake the connection.
#[test]
fn pause_that_passes_before_it_begins_leaves_no_request_behind() {
    const REQUESTS: i16 = 300;
    let limits = Limits { requests_per_client_max: Some(100), ..limits() };
    let server = Running::on_clock(Arc::new(ReadingClock::default()), limits);
    let mut client = server.client(4);
    (0..REQUESTS).for_each(|stream| client.query(stream, "warn"));
    (0..REQUESTS).for_each(|_| assert_eq!(client.receive().opcode, RESULT));
}

#[test]
fn panic_fails_only_its_statement() {
    let server = Running::start();
    let mut client = server.client(4);
    client.query(1, "sleep 100");
    client.query(2, "panic");
    // Printing the panic may take longer than the other statement sleeps.
    let mut responses = [client.receive(), client.receive()];
    responses.sort_by_key(|response| response.stream);
    assert_eq!(responses.each_ref().map(|response| response.stream), [1, 2]);
    responses[1].assert_error(0x0000, "the server failed");
    assert_eq!(server.metrics.requests_in_flight.get(), 0);
}

#[test]
fn disconnect_cancels_running_statements() {
    let server = Running::start();
    let mut client = server.client(4);
    client.query(1, "sleep 60000");
    server.eventually("it runs", |metrics| metrics.requests_in_flight.get() == 1);
    drop(client);
    server.eventually("it is dropped", |metrics| metrics.requests_in_flight.get() == 0);
}

#[test]
fn drain_answers_requests_in_progress() {
    let mut server = Running::start();
    let mut busy = server.client(5);
    let mut idle = server.client(4);
    busy.query(1, "sleep 500");
    server.eventually("it runs", |metrics| metrics.requests_in_flight.get() == 1);
    assert_eq!(get(server.http, "/readyz").0, "HTTP/1.1 200 OK");
    server.shut_down();
    idle.assert_closed();
    let (status, why) = get(server.http, "/readyz");
    assert_eq!((status.as_str(), why.trim()), ("HTTP/1.1 503 Service Unavailable", "draining"));
    assert_eq!(get(server.http, "/livez").0, "HTTP/1.1 200 OK");
    assert!(TcpStream::connect(server.address).is_err(), "nobody is let in");
    busy.query(2, "warn");
    let response = busy.receive();
    assert_eq!((response.stream, response.opcode), (1, RESULT));
    busy.assert_closed();
    server.join();
}

#[test]
fn drain_ends_in_time() {
    let limits = Limits { drain_timeout: Duration::from_millis(200), ..limits() };
    let mut server = Running::with(limits, None);
    let mut client = server.client(4);
    client.query(1, "sleep 60000");
    server.eventually("it runs", |metrics| metrics.requests_in_flight.get() == 1);
    server.shut_down();
    server.join();
    client.assert_closed();
}

#[test]
fn connections_are_limited() {
    let limits = Limits { connections_max: 2, connections_per_address_max: Some(2), ..limits() };
    let server = Running::with(limits, None);
    let first = server.client(4);
    let _second = server.client(4);
    Client::connect(server.address, 4).assert_closed();
    assert_eq!(server.metrics.connections_refused.get(), 1);
    drop(first);
    server.eventually("there is room again", |metrics| metrics.connections.get() == 1);
    server.client(4);
}

#[test]
fn registered_connections_get_schema_changes() {
    let server = Running::start();
    let mut registered = server.client(5);
    registered.register();
    let mut other = server.client(4);
    other.query(3, "create table demo.kv");
    let result = other.receive();
    assert_eq!((result.stream, result.opcode), (3, RESULT));
    let event = registered.receive();
    assert_eq!((event.stream, event.opcode), (-1, EVENT));
    assert_eq!(event.body, b"\0\x0dSCHEMA_CHANGE\0\x07CREATED\0\x05TABLE\0\x04demo\0\x02kv"[..]);

    let beside = SchemaChange {
        kind: ChangeKind::Dropped,
        keyspace: "demo".into(),
        target: ChangeTarget::Keyspace,
    };
    server.events.publish(Event::Schema(beside));
    assert!(registered.receive().body.ends_with(b"\0\x07DROPPED\0\x08KEYSPACE\0\x04demo"));
    other.query(4, "warn");
    assert_eq!(other.receive().stream, 4, "no event was sent to a connection that did not ask");
}

#[test]
fn connection_gets_only_registered_events() {
    let server = Running::start();
    let (mut schema, mut topology) = (server.client(5), server.client(4));
    schema.register();
    topology.register_for(&["TOPOLOGY_CHANGE"]);
    let address = "10.0.0.9:9042".parse().unwrap();
    server.events.publish(Event::Status { is_up: true, address });
    server.events.publish(Event::Topology { is_new: true, address });
    let event = topology.receive();
    assert_eq!((event.stream, event.opcode), (-1, EVENT));
    let new = b"\0\x0fTOPOLOGY_CHANGE\0\x08NEW_NODE\x04\x0a\0\0\x09\0\0\x23\x52";
    assert_eq!(event.body, new[..]);
    topology.register_for(&["STATUS_CHANGE"]);
    server.events.publish(Event::Status { is_up: false, address });
    assert!(topology.receive().body.starts_with(b"\0\x0dSTATUS_CHANGE\0\x04DOWN"));
    schema.query(4, "warn");
    assert_eq!(schema.receive().stream, 4, "it asked for changes of the schema alone");
}

#[test]
fn options_are_answered_before_and_after_startup() {
    let server = Running::start();
    for version in [4, 5] {
        let mut client = Client::connect(server.address, version);
        client.send(0, OPTIONS, 0, b"");
        let before = client.receive();
        assert_eq!((before.opcode, before.version), (SUPPORTED, version));
        assert!(!before.body.windows(6).any(|bytes| bytes == b"SCYLLA"));
        client.startup(&[("DRIVER_NAME", "x"), ("CLIENT_ID", "y"), ("COMPRESSION", "lz4")]);
        assert_eq!(client.receive().opcode, READY);
        client.settle(true);
        client.send(0, OPTIONS, 0, b"");
        assert_eq!(client.receive().body, before.body);
        // Long enough for several segments and for compression.
        client.query(1, "blob 300000");
        let blob = client.receive();
        assert_eq!(blob.opcode, RESULT);
        assert!(blob.body.ends_with(&[b'b'; 300_000]));
    }
}

#[test]
fn warnings_come_with_the_result() {
    let server = Running::start();
    let mut client = server.client(4);
    client.query(1, "warn");
    let response = client.receive();
    assert_eq!((response.opcode, response.flags), (RESULT, 0x08));
    assert!(response.body.starts_with(b"\0\x01\0\x07careful"));
    client.query_with_flags(2, 0x02, "use demo");
    let traced = client.receive();
    assert!(traced.body.starts_with(b"\0\x01\0"), "a trace that is not there is said so");
    assert!(traced.body.windows(7).any(|bytes| bytes == b"tracing"));
}

#[test]
fn custom_payload_is_skipped() {
    let server = Running::start();
    let mut client = server.client(4);
    let body = b"\0\x01\0\x01k\0\0\0\x01v\0\0\0\x08use demo\0\x01\0";
    client.send(1, QUERY, 0x04, body);
    assert_eq!(client.receive().body, b"\0\0\0\x03\0\x04demo"[..]);
}

#[test]
fn retryable_and_unknown_outcomes_have_separate_codes() {
    let server = Running::start();
    for (version, unknown) in [(4, 0x1100), (5, 0x1700)] {
        let mut client = server.client(version);
        client.query(1, "conflict");
        client.receive().assert_error(OVERLOADED, "aborted, safe to retry: row 7");
        client.query(1, "unknown");
        client.receive().assert_error(unknown, "ask outcome(7)");
        client.query(1, "insert into demo.kv (k, v) values (?, ?)");
        client.receive().assert_error(0x2200, "prepare it first");
        client.query(1, "what");
        client.receive().assert_error(0x2000, "no such statement");
    }
}

#[test]
fn http_port_reports_health_and_metrics() {
    let server = Running::start();
    let mut client = server.client(4);
    client.query(1, "warn");
    client.receive();
    assert_eq!(get(server.http, "/livez"), ("HTTP/1.1 200 OK".into(), "ok\n".into()));
    let (_, figures) = get(server.http, "/metrics");
    assert!(figures.contains("\ncarnet_server_connections 1\n"), "{figures}");
    assert!(figures.contains("\ncarnet_server_requests_total{opcode=\"query\"} 1\n"));
    assert!(figures.contains("_duration_seconds_count{opcode=\"query\"} 1\n"));
    assert!(figures.ends_with("toy_rows 0\n"), "the backend's come last");
    assert_eq!(get(server.http, "/else").0, "HTTP/1.1 404 Not Found");
    let (status, body) = http(server.http, "HEAD /livez HTTP/1.1\r\n\r\n");
    assert_eq!((status.as_str(), body.as_str()), ("HTTP/1.1 200 OK", ""));
    let long = format!("GET /{} HTTP/1.1\r\n", "x".repeat(8192 - 16));
    assert_eq!(http(server.http, &long).0, "HTTP/1.1 431 Request Header Fields Too Large");
}

#[test]
fn errors_are_counted_by_code() {
    let server = Running::start();
    let mut client = server.client(4);
    client.query(1, "what");
    assert_eq!(client.receive().opcode, ERROR);
    let (_, figures) = get(server.http, "/metrics");
    assert!(figures.contains("\ncarnet_server_errors_total{code=\"syntax\"} 1\n"), "{figures}");
}

#[test]
fn connections_are_listed_with_their_stage() {
    let server = Running::with(limits(), Some(PASSWORDS));
    let stages = || {
        let mut clients = server.clients.clients();
        clients.sort_by_key(|client| client.address.port());
        clients.into_iter().map(|client| (client.stage, client.username)).collect::<Vec<_>>()
    };
    let mut client = Client::connect(server.address, 4);
    server.eventually("it is listed", |_| stages() == [(ConnectionStage::Establishing, None)]);
    client.startup(&[("DRIVER_NAME", "x")]);
    assert_eq!(client.receive().opcode, AUTHENTICATE);
    assert_eq!(stages(), [(ConnectionStage::Authenticating, None)]);
    client.log_in("ann", "one");
    assert_eq!(client.receive().opcode, AUTH_SUCCESS);
    assert_eq!(stages(), [(ConnectionStage::Ready, Some("ann".to_owned()))]);
    client.query(2, "whoami");
    client.receive();
    let [listed] = &server.clients.clients()[..] else { panic!("one connection") };
    assert_eq!((listed.protocol_version, listed.request_count), (4, 3));
    assert_eq!(listed.options["DRIVER_NAME"], "x");
    drop(client);
    server.eventually("it is gone", |_| stages().is_empty());
}
