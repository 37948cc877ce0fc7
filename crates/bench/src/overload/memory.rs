//! Memory of the server under replies that exceed its budget, and afterwards.

use std::io::{self, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use serde::Serialize;

use super::load::pause;
use super::server::Process;
use super::table::create_keyspace;
use super::wire::{self, ResponseKind};

/// Number of rows in the table.
const ROWS: usize = 64;
/// Size of a row: a MiB minus the other parts of its statement.
const ROW_BYTES: usize = (1 << 20) - (4 << 10);
/// Interval between samples of the server's memory.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Time after the load at which the memory should be released.
const AFTER: Duration = Duration::from_secs(10);

/// A load of long replies.
pub(super) struct Load {
    pub(super) name: &'static str,
    connections: usize,
    /// Number of requests that each connection sends at once.
    pipelined: u16,
    text: &'static str,
    page_rows: Option<i32>,
    reads: bool,
}

/// The measured loads.
pub(super) const LOADS: [Load; 3] = [
    Load {
        name: "200 scans of 1-MiB rows",
        connections: 200,
        pipelined: 1,
        text: "SELECT v FROM ks.b",
        page_rows: Some(5_000),
        reads: true,
    },
    Load {
        name: "1,000 unread pages",
        connections: 100,
        pipelined: 10,
        text: "SELECT v FROM ks.b",
        page_rows: Some(5_000),
        reads: false,
    },
    Load {
        name: "250 × 20 MiB, one connection",
        connections: 1,
        pipelined: 250,
        text: "SELECT v FROM ks.b LIMIT 20",
        page_rows: None,
        reads: true,
    },
];

/// Effects of a load on the server.
#[derive(Serialize)]
pub(super) struct Held {
    pub(super) before_mib: u64,
    pub(super) peak_mib: u64,
    pub(super) after_mib: u64,
    pub(super) answered: u64,
    pub(super) refused: u64,
    pub(super) failed: u64,
    /// Number of connections that the server closed.
    pub(super) closed: u64,
}

/// Creates and fills the table of long rows.
pub(super) fn fill(server: &Process) -> io::Result<()> {
    let mut tcp = wire::connect(server.address)?;
    create_keyspace(&mut tcp)?;
    wire::query(&mut tcp, "CREATE TABLE ks.b (k int PRIMARY KEY, v text)")?;
    let value = "x".repeat(ROW_BYTES);
    (0..ROWS).try_for_each(|key| {
        wire::query(&mut tcp, &format!("INSERT INTO ks.b (k, v) VALUES ({key}, '{value}')"))
    })
}

#[derive(Default)]
struct Tally {
    answered: AtomicU64,
    refused: AtomicU64,
    failed: AtomicU64,
    closed: AtomicU64,
    is_over: AtomicBool,
}

/// Runs a load on the server for a time.
pub(super) fn measure(server: &Process, load: &Load, time: Duration) -> io::Result<Held> {
    let mib = || server.resident_bytes().unwrap_or(0) >> 20;
    let (before_mib, tally) = (mib(), Tally::default());
    let mut peak_mib = before_mib;
    let clients: io::Result<Vec<TcpStream>> =
        (0..load.connections).map(|_| wire::connect(server.address)).collect();
    thread::scope(|scope| {
        for tcp in clients? {
            let tally = &tally;
            scope.spawn(move || {
                if ask(tcp, load, tally).is_err() && !tally.is_over.load(Ordering::Relaxed) {
                    tally.closed.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let looks = time.as_nanos() / LOOK_EVERY.as_nanos();
        for _ in 0..looks {
            pause(LOOK_EVERY);
            peak_mib = peak_mib.max(mib());
        }
        tally.is_over.store(true, Ordering::Relaxed);
        io::Result::Ok(())
    })?;
    pause(AFTER);
    let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
    Ok(Held {
        before_mib,
        peak_mib,
        after_mib: mib(),
        answered: load(&tally.answered),
        refused: load(&tally.refused),
        failed: load(&tally.failed),
        closed: load(&tally.closed),
    })
}

fn ask(mut tcp: TcpStream, load: &Load, tally: &Tally) -> io::Result<()> {
    tcp.set_read_timeout(Some(Duration::from_secs(2)))?;
    let frame = |stream| wire::query_frame(stream, load.text, load.page_rows);
    let all: Vec<u8> = (0..load.pipelined).flat_map(frame).collect();
    while !tally.is_over.load(Ordering::Relaxed) {
        tcp.write_all(&all)?;
        if !load.reads {
            while !tally.is_over.load(Ordering::Relaxed) {
                pause(LOOK_EVERY);
            }
            return Ok(());
        }
        for _ in 0..load.pipelined {
            if tally.is_over.load(Ordering::Relaxed) {
                return Ok(());
            }
            let count = match wire::receive(&mut tcp)?.answer {
                ResponseKind::Good => &tally.answered,
                ResponseKind::Overloaded => {
                    // The retry delay of the refusal.
                    pause(Duration::from_millis(100));
                    &tally.refused
                }
                ResponseKind::OtherError => &tally.failed,
            };
            count.fetch_add(1, Ordering::Relaxed);
        }
    }
    Ok(())
}
