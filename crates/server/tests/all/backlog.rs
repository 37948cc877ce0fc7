//! A server that is offered far more than it can do, by clients that do not wait for answers. A file of its own, so that
//! no other test runs at the same time.

use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use carnet::Db;
use carnet_admission::{AdmissionLimits, Workload};
use carnet_base::{Clock, SystemClock};

use crate::support::toy::Toy;
use crate::support::{Client, RESULT, Running, pause};

const OVERLOADED: i32 = 0x1001;

/// Bytes at the end of a statement, so that a read from the socket takes a few requests only.
const PADDING: usize = 2_000;

/// Requests of each client.
const REQUESTS: i16 = 5_000;

/// Answers of an overloaded server.
#[derive(Clone, Copy, Debug, Default)]
struct Answers {
    /// Within [`USEFUL_WITHIN`].
    good: usize,
    late: usize,
    refused: usize,
}

/// Time within which an answer is of use: ten times `shed_after` of the gate, because other processes of the machine
/// may delay the client. Without refusals all but a tenth of the answers would be later.
const USEFUL_WITHIN: Duration = Duration::from_millis(500);

/// Sends requests of 1 ms at a rate, whether or not they are answered. Returns their answers.
fn flood(mut client: Client, requests: i16, per_second: u32) -> Answers {
    let mut sender = Client::over(client.tcp.try_clone().unwrap(), 4);
    let (sent, received) = mpsc::channel();
    let statement = format!("hog 1{:PADDING$}", "");
    let sends = start(move || {
        let (clock, begun) = (SystemClock, SystemClock.now());
        for stream in 0..requests {
            let due =
                begun.after(Duration::from_secs(1) * u32::from(stream.unsigned_abs()) / per_second);
            pause(due.since(clock.now()));
            sent.send(clock.now()).unwrap();
            sender.query(stream, &statement);
        }
    });
    let (mut answers, mut sent_at) = (Answers::default(), Vec::new());
    for _ in 0..requests {
        let response = client.receive();
        sent_at.extend(received.try_iter());
        let took = SystemClock.now().since(sent_at[usize::try_from(response.stream).unwrap()]);
        match response.opcode {
            RESULT if took <= USEFUL_WITHIN => answers.good += 1,
            RESULT => answers.late += 1,
            _ => {
                response.assert_error(OVERLOADED, "try again after ");
                answers.refused += 1;
            }
        }
    }
    sends.join().unwrap();
    answers
}

#[expect(clippy::disallowed_methods, reason = "clients have threads of their own")]
fn start<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    std::thread::spawn(run)
}

/// Two seconds of five times what the server can do. Statements run on their connection's task, so that the backlog
/// stands in the kernel, where the gate sees it only by the age of the requests.
fn offer_too_much() -> [Answers; 2] {
    let db = Db::builder().admission(AdmissionLimits::of_server(1)).in_memory();
    let server = Running::on_one_thread(Toy::behind(db, Workload::Interactive));
    let clients = [(); 2].map(|()| {
        let client = server.client(4);
        start(move || flood(client, REQUESTS, 2_500))
    });
    let answers = clients.map(|client| client.join().unwrap());
    let mut client = server.client(4);
    client.query(1, "hog 1");
    assert_eq!(client.receive().opcode, RESULT, "it is over");
    answers
}

/// Other processes of the machine may delay the clients: one of three attempts has to succeed.
#[test]
fn backlog_in_the_kernel_is_refused_by_its_age() {
    let is_in_time = |answers: &Answers| {
        let Answers { good, late, refused } = *answers;
        refused > usize::try_from(REQUESTS).unwrap() / 2 && late <= (good + late) / 10
    };
    let mut seen = Vec::new();
    for _ in 0..3 {
        let answers = offer_too_much();
        if answers.iter().all(is_in_time) {
            return;
        }
        seen.push(answers);
    }
    panic!("{seen:?}");
}
