//! Two service levels that both have more to do than the server can: how they share it.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use carnet_base::{Clock, Moment, SeededRng, SystemClock};
use serde::Serialize;

use super::beside::joined;
use super::load::Statement;
use super::server::Process;
use super::table::ROWS;
use super::wire::{self, ResponseKind};

/// The levels, and their shares.
const LEVELS: [(&str, u32); 2] = [("large", 1_000), ("small", 100)];
/// Connections of a level, and requests in flight on each: several times as many as run at a time, so that requests of
/// both levels always wait at the server.
const CONNECTIONS: u64 = 4;
const UNDER_WAY: u16 = 200;
/// Keys of a request: the server has more to do for it than its client, which shares the machine.
const KEYS: usize = 80;

/// How two levels shared the server.
#[derive(Serialize)]
pub(super) struct Shared {
    /// Good answers a second of each level.
    pub(super) large_per_s: f64,
    pub(super) small_per_s: f64,
    /// The quotient of the two; that of their shares is 10.
    pub(super) quotient: f64,
}

/// Asks by clients of both levels at the same time.
pub(super) fn measure(server: &Process, time: Duration) -> io::Result<Shared> {
    let statements = prepare(server.address)?;
    let answers = [AtomicU64::new(0), AtomicU64::new(0)];
    let ends = SystemClock.now().after(time);
    thread::scope(|scope| {
        let clients = (0..CONNECTIONS)
            .flat_map(|seed| statements.iter().zip(&answers).map(move |it| (seed, it)));
        let threads: Vec<_> = clients
            .map(|(seed, (statement, answers))| {
                scope.spawn(move || ask(server.address, statement, seed, ends, answers))
            })
            .collect();
        threads.into_iter().try_for_each(joined)
    })?;
    #[expect(clippy::cast_precision_loss, reason = "it is far below 2^52")]
    let [large_per_s, small_per_s] =
        answers.map(|answers| answers.into_inner() as f64 / time.as_secs_f64());
    Ok(Shared { large_per_s, small_per_s, quotient: large_per_s / small_per_s.max(1.0) })
}

/// Keeps requests under way until the time is over, and counts the answers.
fn ask(
    address: SocketAddr,
    statement: &Statement,
    seed: u64,
    ends: Moment,
    answers: &AtomicU64,
) -> io::Result<()> {
    let (mut tcp, mut rng) = (wire::connect(address)?, SeededRng::new(seed));
    for stream in 1..=UNDER_WAY {
        tcp.write_all(&statement.frame(stream, &mut rng))?;
    }
    while SystemClock.now() < ends {
        let response = wire::receive(&mut tcp)?;
        if response.answer != ResponseKind::Good {
            return Err(io::Error::other("a request was refused"));
        }
        answers.fetch_add(1, Ordering::Relaxed);
        tcp.write_all(&statement.frame(response.stream, &mut rng))?;
    }
    Ok(())
}

fn prepare(address: SocketAddr) -> io::Result<[Statement; 2]> {
    let mut tcp = wire::connect(address)?;
    let markers = vec!["?"; KEYS].join(", ");
    let mut statement = |(level, shares): (&str, u32)| {
        let options =
            format!("workload_type = 'interactive' AND timeout = 1m AND shares = {shares}");
        wire::query(&mut tcp, &format!("CREATE SERVICE LEVEL {level} WITH {options}"))?;
        let select = format!("SELECT k, v FROM ks.t WHERE k IN ({markers})");
        let id = wire::prepare(&mut tcp, &format!("{select} USING SERVICE LEVEL {level}"))?;
        io::Result::Ok(Statement { id, keys: KEYS, rows: ROWS, page_rows: None })
    };
    let [large, small] = LEVELS;
    Ok([statement(large)?, statement(small)?])
}
