//! Load generators: a closed loop, which measures capacity, and an open one, which does not wait
//! for replies.

use std::io::{self, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use carnet_base::sync::lock;
use carnet_base::{Clock, Moment, Rng, SeededRng, SystemClock};

use super::wire::{self, ResponseKind};

/// Time after which a reply is useless, because clients have given up.
const GOOD_WITHIN: Duration = Duration::from_millis(100);
/// Maximum number of requests in flight per connection.
const STREAMS: usize = 16_384;
/// Number of connections of the open loop.
const CONNECTIONS: usize = 8;
/// Interval between two sends of the open loop.
const SEND_EVERY: Duration = Duration::from_micros(100);
/// Time that the open loop waits for replies after its last request.
const ANSWERS_TIMEOUT: Duration = Duration::from_secs(10);

/// The request of all generators: a multi-get of random keys.
#[derive(Clone)]
pub(super) struct Statement {
    pub(super) id: Vec<u8>,
    pub(super) keys: usize,
    pub(super) rows: u64,
    pub(super) page_rows: Option<i32>,
}

impl Statement {
    pub(super) fn frame(&self, stream: u16, rng: &mut SeededRng) -> Vec<u8> {
        let key = |_| i32::try_from(rng.below(self.rows)).expect("there are fewer rows");
        let keys: Vec<i32> = (0..self.keys).map(key).collect();
        wire::execute(stream, &self.id, &keys, self.page_rows)
    }
}

/// Counts of an open loop's requests by result.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Outcome {
    pub(super) offered: u64,
    /// Answered within 100 ms of the scheduled time.
    pub(super) good: u64,
    pub(super) late: u64,
    pub(super) shed: u64,
    pub(super) failed: u64,
    /// Not answered within ten seconds of the end, or never sent because no stream was free.
    pub(super) lost: u64,
    /// Maximum delay between the scheduled and the actual time of a send.
    pub(super) lag: Duration,
}

impl Outcome {
    #[expect(clippy::cast_precision_loss, reason = "it is far below 2^52")]
    pub(super) fn answered(&self) -> f64 {
        (self.good + self.late + self.shed + self.failed) as f64
    }
}

/// Runs a closed loop of clients that wait for each reply; returns the good replies per second.
pub(super) fn closed(
    address: SocketAddr,
    statement: &Statement,
    clients: u64,
    time: Duration,
) -> io::Result<f64> {
    let good = AtomicU64::new(0);
    let ends = SystemClock.now().after(time);
    thread::scope(|scope| {
        let client = |seed| {
            let good = &good;
            move || -> io::Result<()> {
                let (mut tcp, mut rng) = (wire::connect(address)?, SeededRng::new(seed));
                while SystemClock.now() < ends {
                    let sent = SystemClock.now();
                    tcp.write_all(&statement.frame(1, &mut rng))?;
                    let response = wire::receive(&mut tcp)?;
                    let took = SystemClock.now().since(sent);
                    if response.answer == ResponseKind::Good && took <= GOOD_WITHIN {
                        good.fetch_add(1, Ordering::Relaxed);
                    }
                }
                Ok(())
            }
        };
        let threads: Vec<_> = (0..clients).map(|seed| scope.spawn(client(seed))).collect();
        threads.into_iter().try_for_each(|thread| {
            thread.join().map_err(|_| io::Error::other("a client panicked"))?
        })
    })?;
    #[expect(clippy::cast_precision_loss, reason = "it is far below 2^52")]
    Ok(good.load(Ordering::Relaxed) as f64 / time.as_secs_f64())
}

/// One connection of the open loop. Each stream holds the scheduled time of its request, in
/// nanoseconds since the start plus one; zero if the stream is free.
struct Lane {
    tcp: Mutex<TcpStream>,
    sent: Vec<AtomicU64>,
    next: AtomicU32,
}

struct Tally {
    good: AtomicU64,
    late: AtomicU64,
    shed: AtomicU64,
    failed: AtomicU64,
    is_over: AtomicBool,
}

/// Runs an open loop with `rate` requests per second, independent of replies.
pub(super) fn open(
    address: SocketAddr,
    statement: &Statement,
    rate: f64,
    time: Duration,
) -> io::Result<Outcome> {
    let begun = SystemClock.now();
    let tally = Arc::new(Tally {
        good: AtomicU64::new(0),
        late: AtomicU64::new(0),
        shed: AtomicU64::new(0),
        failed: AtomicU64::new(0),
        is_over: AtomicBool::new(false),
    });
    let mut lanes = Vec::new();
    let mut receivers = Vec::new();
    for _ in 0..CONNECTIONS {
        let tcp = wire::connect(address)?;
        // A server that stops reading must not delay the schedule.
        tcp.set_write_timeout(Some(Duration::from_millis(1)))?;
        let reader = tcp.try_clone()?;
        let sent = (0..STREAMS).map(|_| AtomicU64::new(0)).collect();
        let lane = Arc::new(Lane { tcp: Mutex::new(tcp), sent, next: AtomicU32::new(0) });
        let (of_thread, tally) = (Arc::clone(&lane), Arc::clone(&tally));
        receivers.push(start(move || receive_all(reader, &of_thread, &tally, begun)));
        lanes.push(lane);
    }
    let mut outcome = send_all(&lanes, statement, rate, time, begun);
    let gives_up = SystemClock.now().after(ANSWERS_TIMEOUT);
    while lanes.iter().any(|lane| lane.under_way() > 0) && SystemClock.now() < gives_up {
        pause(Duration::from_millis(20));
    }
    tally.is_over.store(true, Ordering::Relaxed);
    for lane in &lanes {
        outcome.lost += lane.under_way();
        let tcp = lock(&lane.tcp);
        // This ends the receiver. An error means that the server has closed the connection already.
        let _ = tcp.shutdown(std::net::Shutdown::Both);
    }
    for receiver in receivers {
        receiver.join().map_err(|_| io::Error::other("a receiver panicked"))?;
    }
    let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
    outcome.good = load(&tally.good);
    outcome.late = load(&tally.late);
    outcome.shed = load(&tally.shed);
    outcome.failed = load(&tally.failed);
    Ok(outcome)
}

impl Lane {
    /// Takes the next stream for a request scheduled at `due`; `None` if it is in use.
    fn take_stream(&self, due: Moment, begun: Moment) -> Option<u16> {
        let stream = self.next.fetch_add(1, Ordering::Relaxed) as usize % STREAMS;
        let nanos = u64::try_from(due.since(begun).as_nanos()).unwrap_or(u64::MAX);
        let (relaxed, sent) = (Ordering::Relaxed, &self.sent[stream]);
        sent.compare_exchange(0, nanos + 1, relaxed, relaxed).ok()?;
        Some(u16::try_from(stream).expect("streams are fewer than 2^15"))
    }

    fn send(&self, unsent: &mut Vec<u8>) {
        if unsent.is_empty() {
            return;
        }
        let mut tcp = lock(&self.tcp);
        if let Ok(sent) = tcp.write(unsent) {
            unsent.drain(..sent);
        }
    }

    fn under_way(&self) -> u64 {
        self.sent.iter().filter(|sent| sent.load(Ordering::Relaxed) > 0).count() as u64
    }
}

/// Sends the due requests, one system call per connection: one per request would cost the generator
/// more than a refusal costs the server.
fn send_all(
    lanes: &[Arc<Lane>],
    statement: &Statement,
    rate: f64,
    time: Duration,
    begun: Moment,
) -> Outcome {
    let mut rng = SeededRng::new(1);
    let mut outcome = Outcome::default();
    // Bytes that a full socket did not accept, by connection: frames must be sent whole.
    let mut unsent: Vec<Vec<u8>> = vec![Vec::new(); lanes.len()];
    let interval = Duration::from_secs_f64(1.0 / rate);
    let mut due = SystemClock.now();
    let ends = due.after(time);
    while due < ends {
        let now = SystemClock.now();
        outcome.lag = outcome.lag.max(now.since(due));
        while due <= now && due < ends {
            let at = usize::try_from(outcome.offered).unwrap_or(0) % lanes.len();
            outcome.offered += 1;
            let has_room = unsent[at].len() < 1 << 20;
            match has_room.then(|| lanes[at].take_stream(due, begun)).flatten() {
                Some(name) => unsent[at].extend(statement.frame(name, &mut rng)),
                None => outcome.lost += 1,
            }
            due = due.after(interval);
        }
        lanes.iter().zip(&mut unsent).for_each(|(lane, unsent)| lane.send(unsent));
        pause(SEND_EVERY);
    }
    outcome
}

fn receive_all(tcp: TcpStream, lane: &Lane, tally: &Tally, begun: Moment) {
    let mut reader = BufReader::with_capacity(64 << 10, tcp);
    while let Ok(response) = wire::receive(&mut reader) {
        let now = SystemClock.now().since(begun);
        let sent = lane.sent[usize::from(response.stream) % STREAMS].swap(0, Ordering::Relaxed);
        let took = now.saturating_sub(Duration::from_nanos(sent.saturating_sub(1)));
        let count = match response.answer {
            ResponseKind::Good if took <= GOOD_WITHIN => &tally.good,
            ResponseKind::Good => &tally.late,
            ResponseKind::Overloaded => &tally.shed,
            ResponseKind::OtherError => &tally.failed,
        };
        if !tally.is_over.load(Ordering::Relaxed) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "a generator of load has threads of its own")]
fn start(run: impl FnOnce() + Send + 'static) -> thread::JoinHandle<()> {
    thread::spawn(run)
}

#[expect(clippy::disallowed_methods, reason = "a generator of load waits for the wall clock")]
pub(crate) fn pause(time: Duration) {
    thread::sleep(time);
}
