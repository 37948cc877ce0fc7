//! Statements that run on their connection's task, and their limits.

use std::collections::HashSet;

use bytes::Bytes;
use carnet_server::Limits;
use carnet_server::protocol::Opcode;

use crate::support;
use crate::support::{Client, QUERY, RESULT, Running, frame, toy};

/// Sends queries in one write.
fn send_together(client: &mut Client, texts: &[&str]) {
    let frames = texts.iter().zip(1..).map(|(text, stream)| {
        let len = u32::try_from(text.len()).expect("it is short").to_be_bytes();
        let body = [&len[..], text.as_bytes(), &[0, 1, 0]].concat();
        frame(4, stream, QUERY, 0, &body)
    });
    client.send_bytes(&frames.collect::<Vec<_>>().concat());
}

/// Returns the ids of the tasks that ran statements.
fn tasks(client: &mut Client, count: usize) -> Vec<Bytes> {
    let received = (0..count).map(|_| client.receive());
    let last = |body: Bytes| body.slice(body.len() - 4..);
    received
        .map(|response| {
            assert_eq!(response.opcode, RESULT);
            last(response.body)
        })
        .collect()
}

#[test]
fn short_statements_run_on_the_connections_task() {
    let server = Running::start();
    let mut client = server.client(4);
    send_together(&mut client, &["task 0"; 20]);
    let ids: HashSet<Bytes> = tasks(&mut client, 20).into_iter().collect();
    assert_eq!(ids.len(), 1, "{ids:?}");
}

#[test]
fn statements_that_wait_become_tasks() {
    let server = Running::start();
    let mut client = server.client(4);
    send_together(&mut client, &["task 20"; 20]);
    let ids: HashSet<Bytes> = tasks(&mut client, 20).into_iter().collect();
    assert_eq!(ids.len(), 20, "{ids:?}");
}

/// With one thread for all connections, a client waits for a turn of another one and not for all of
/// its requests. The rest of the requests stays with the kernel.
///
/// On a busy machine the requests can all end before the test's thread runs, which shows nothing.
#[test]
fn pipelined_statements_let_other_connections_run() {
    const COUNT: usize = 300;
    const LEN: usize = 1_000;
    let mut attempts = Vec::new();
    for _ in 0..20 {
        let (taken, received) = taken_before_another_client(COUNT, LEN);
        if taken < COUNT as u64 / 2 && received < (COUNT * LEN / 2) as u64 {
            return;
        }
        attempts.push((taken, received));
    }
    panic!("requests and bytes taken before another client's ten requests: {attempts:?}");
}

/// Sends many requests at once. Returns how many of them the server has taken, and the bytes that it
/// has received, when ten requests of another client are answered.
fn taken_before_another_client(count: usize, len: usize) -> (u64, u64) {
    let server = Running::on_one_thread(toy::Toy::default());
    let (mut many, mut other) = (server.client(4), server.client(4));
    let before = server.metrics.received_bytes.get();
    let long = format!("hog 1{}", " ".repeat(len));
    send_together(&mut many, &vec![&long[..]; count]);
    server.eventually("one ran", |metrics| metrics.requests.get(Opcode::Query).get() > 0);
    for _ in 0..10 {
        other.query(1, "warn");
        assert_eq!(other.receive().opcode, RESULT);
    }
    let taken = server.metrics.requests.get(Opcode::Query).get();
    let received = server.metrics.received_bytes.get() - before;
    (0..count).for_each(|_| drop(many.receive()));
    (taken, received)
}

/// The answers of a turn wait for the turn's end, and no longer than for their memory.
#[test]
fn answers_of_statements_that_end_at_once_are_limited() {
    const LEN: usize = 64 << 10;
    let limits = Limits { unsent_bytes_max: 4 * LEN, ..Limits::default() };
    let toy = toy::Toy::default();
    let blob_bytes = std::sync::Arc::clone(&toy.blob_bytes);
    let server = Running::of(toy, limits, None);
    let mut client = server.client(4);
    send_together(&mut client, &[&format!("blob {LEN}")[..]; 500]);
    server.eventually("some ran", |_| blob_bytes.load(std::sync::atomic::Ordering::Relaxed) > 0);
    support::pause(std::time::Duration::from_millis(200));
    let made = blob_bytes.load(std::sync::atomic::Ordering::Relaxed);
    assert!(made < 400 * LEN, "{made} bytes were made for a client that reads nothing");
    (0..500).for_each(|_| drop(client.receive()));
}
