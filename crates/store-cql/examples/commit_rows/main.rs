//! Measures the rate of commit entries on a real Cassandra, by the size of the batches and the
//! number of rows.
//!
//! ```sh
//! cargo run --release -p carnet-store-cql --example commit_rows -- --json
//! ```
//!
//! Paxos orders the conditional writes of one partition one after the other, whatever their
//! content. So the transactions2 decision record puts many starts into a row, sends the entries of
//! a row together, and uses several rows. Each writer here puts full batches behind the row's
//! fence, like a leader, into a row of its own. At the end several writers share one row, like
//! processes that do not know of each other.
#![expect(clippy::unwrap_used, reason = "a benchmark that cannot go on ends")]

#[path = "../common/node.rs"]
mod node;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use std::{fs, process, thread};

use carnet_base::{Bytes, Clock as _, Epoch, SystemClock, block_on};
use carnet_store::cluster::{
    CommitRow, CommitRows as _, CommitTable, Fault, Faulty, NewEntry, RowAnswer,
};
use carnet_store_cql::{CqlCluster, CqlOptions, Replication};
use clap::Parser;

use crate::node::Node;

/// Measures puts into the commit table over a Cassandra of one node.
#[derive(Parser)]
struct Arguments {
    /// Numbers of entries in a batch.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 4, 16, 64, 256])]
    batches: Vec<usize>,
    /// Numbers of rows, with one writer each.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 4, 16, 64])]
    rows: Vec<usize>,
    /// Number of writers that share one row at the end.
    #[arg(long, default_value_t = 8)]
    contending: usize,
    /// Duration of each turn in seconds.
    #[arg(long, default_value_t = 3)]
    seconds: u64,
    /// Number of passes; the median by entries per second is shown.
    #[arg(long, default_value_t = 3)]
    passes: usize,
    /// Print a line of JSON for each figure.
    #[arg(long)]
    json: bool,
}

/// A way to write entries.
#[derive(Clone, Copy)]
struct Way {
    batch: usize,
    rows: usize,
    writers: usize,
}

/// Result of a turn.
#[derive(Clone, Copy)]
struct Turn {
    entries_per_second: f64,
    batches_per_second: f64,
    /// Batches whose outcome the cluster does not report.
    unknown: u64,
}

struct Bench<'a> {
    cluster: &'a CqlCluster,
    time: Duration,
    /// Number of turns so far; every turn uses new rows.
    turns: AtomicU64,
}

fn main() {
    let arguments = Arguments::parse();
    let node = Node::start("");
    let options = CqlOptions {
        replication: Replication::EveryDatacenter(1),
        ..CqlOptions::new(vec![node.contact_point.clone()], format!("commits{}", process::id()))
    };
    let cluster = block_on(CqlCluster::connect(&options, Arc::new(SystemClock))).unwrap();
    let time = Duration::from_secs(arguments.seconds);
    let bench = Bench { cluster: &cluster, time, turns: AtomicU64::new(0) };
    let ways = arguments.ways();
    // Warm-up: a node that has just started compiles its code first.
    for _ in 0..3 {
        bench.turn(Way { batch: 16, rows: 16, writers: 16 });
    }
    let mut turns: Vec<Vec<Turn>> = vec![Vec::new(); ways.len()];
    for _ in 0..arguments.passes {
        for (way, turns) in ways.iter().zip(&mut turns) {
            turns.push(bench.turn(*way));
        }
    }
    if !arguments.json {
        println!(
            "{:>8} {:>8} {:>8} {:>12} {:>12}",
            "batch", "rows", "writers", "entries/s", "batches/s"
        );
    }
    for (way, mut turns) in ways.into_iter().zip(turns) {
        turns.sort_by(|a, b| a.entries_per_second.total_cmp(&b.entries_per_second));
        print(way, turns[turns.len() / 2], arguments.json);
    }
}

impl Arguments {
    fn ways(&self) -> Vec<Way> {
        let of = |rows: usize| {
            self.batches.iter().map(move |batch| Way { batch: *batch, rows, writers: rows })
        };
        let contending = |batch: &usize| Way { batch: *batch, rows: 1, writers: self.contending };
        let own = self.rows.iter().flat_map(|rows| of(*rows));
        own.chain(self.batches.iter().map(contending)).collect()
    }
}

impl Bench<'_> {
    #[expect(clippy::cast_precision_loss, reason = "a rate")]
    fn turn(&self, way: Way) -> Turn {
        let turn = self.turns.fetch_add(1, Ordering::Relaxed);
        let rows: Vec<CommitRow> = (0..way.rows)
            .map(|row| CommitRow { table: CommitTable::V3, row: format!("{turn}.{row}").into() })
            .collect();
        let fence = Epoch(1);
        for row in &rows {
            let moved = block_on(self.cluster.move_epoch(row, None, fence)).unwrap();
            assert_eq!(moved, RowAnswer::Applied);
        }
        let (applied, unknown) = (AtomicU64::new(0), AtomicU64::new(0));
        let (clock, begun) = (SystemClock, SystemClock.now());
        let writer = |number: usize| {
            let row = &rows[number % rows.len()];
            let mut puts = 0;
            while clock.now().since(begun) < self.time {
                let entries = entries(number, puts, way.batch);
                puts += 1;
                match settled(block_on(self.cluster.put_unless_exists(row, Some(fence), &entries)))
                {
                    true => applied.fetch_add(1, Ordering::Relaxed),
                    false => unknown.fetch_add(1, Ordering::Relaxed),
                };
            }
        };
        thread::scope(|scope| {
            for number in 0..way.writers {
                let writer = &writer;
                scope.spawn(move || writer(number));
            }
        });
        let seconds = clock.now().since(begun).as_secs_f64();
        let batches_per_second = applied.into_inner() as f64 / seconds;
        Turn {
            entries_per_second: batches_per_second * way.batch as f64,
            batches_per_second,
            unknown: unknown.into_inner(),
        }
    }
}

/// Returns `true` if a batch is known to be applied. Another writer cannot cause a refusal here.
fn settled(answer: Faulty<RowAnswer>) -> bool {
    match answer {
        Ok(RowAnswer::Applied) => true,
        Err(Fault::Unknown(_)) => false,
        Ok(refused) => panic!("no other writer puts these entries: {refused:?}"),
        Err(fault) => panic!("{fault}"),
    }
}

/// Returns entries like those of a v3 table: a column of a few bytes, and the distance to the
/// commit.
fn entries(writer: usize, put: usize, batch: usize) -> Vec<NewEntry> {
    let entry = |number: usize| {
        let column = ((writer << 40) + put * batch + number).to_be_bytes();
        NewEntry {
            column: Bytes::copy_from_slice(&column[2..]),
            value: Bytes::from_static(b"C\x80\x82"),
        }
    };
    (0..batch).map(entry).collect()
}

fn print(way: Way, turn: Turn, json: bool) {
    let Way { batch, rows, writers } = way;
    let Turn { entries_per_second, batches_per_second, unknown } = turn;
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    if json {
        let line = serde_json::json!({
            "batch": batch, "rows": rows, "writers": writers, "unknown": unknown,
            "entries_per_second": entries_per_second.round(),
            "batches_per_second": batches_per_second.round(), "load": load.trim(),
        });
        println!("{line}");
    } else {
        println!(
            "{batch:>8} {rows:>8} {writers:>8} {entries_per_second:>12.0} {batches_per_second:>12.0}"
        );
    }
}
