//! Compares the ways to group reads of many cells into requests, on a real Cassandra.
//!
//! ```sh
//! cargo run --release -p carnet-store-cql --example loader -- --json
//! ```
//!
//! A node is started for each `concurrent_reads`. The three reads of the transactions2 decision
//! record are made like its loaders would make them, with fixed settings, and with this crate's
//! loader. All take turns, one read each, so that noise on the machine affects all alike.
//!
//! The smallest of many medians is partly luck. So the best fixed setting of the sweep and the
//! loader are compared again in a duel as long as the sweep.
#![expect(clippy::unwrap_used, reason = "a benchmark that cannot go on ends")]

#[path = "../common/node.rs"]
mod node;
mod way;
mod workload;

use std::sync::Arc;
use std::time::Duration;
use std::{fs, process};

use carnet_base::{CellKey, Clock as _, SeededRng, SystemClock, Timestamp, block_on};
use carnet_store::Context;
use carnet_store::cluster::ClusterCells as _;
use carnet_store_cql::{CqlCluster, CqlOptions, Replication};
use clap::Parser;

use crate::node::Node;
use crate::way::Way;
use crate::workload::{WORKLOADS, Workload};

/// Measures reads of many cells over a single-node Cassandra.
#[derive(Parser)]
struct Arguments {
    /// Values of `concurrent_reads`; a node is started for each.
    #[arg(long, value_delimiter = ',', default_values_t = [2, 32])]
    concurrent_reads: Vec<u32>,
    /// Numbers of concurrent readers.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 10])]
    readers: Vec<usize>,
    /// Seconds for which each workload is measured with each number of readers.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Seconds of warm-up of a node: right after its start it is half as fast, and its speed
    /// changes from minute to minute.
    #[arg(long, default_value_t = 60)]
    warm: u64,
    /// Number of reads that the loader learns from before the measurement.
    #[arg(long, default_value_t = 200)]
    learn: usize,
    /// Print a line of JSON for each figure.
    #[arg(long)]
    json: bool,
}

/// State that all reads share.
struct Bench<'a> {
    arguments: &'a Arguments,
    cluster: &'a CqlCluster,
    concurrent_reads: u32,
}

fn main() {
    let arguments = Arguments::parse();
    for &concurrent_reads in &arguments.concurrent_reads {
        let node = Node::start(&format!("concurrent_reads: {concurrent_reads}"));
        let options = CqlOptions {
            replication: Replication::EveryDatacenter(1),
            ..CqlOptions::new(vec![node.contact_point.clone()], format!("load{}", process::id()))
        };
        let cluster = block_on(CqlCluster::connect(&options, Arc::new(SystemClock))).unwrap();
        WORKLOADS.iter().for_each(|workload| workload.fill(&cluster));
        let bench = Bench { arguments: &arguments, cluster: &cluster, concurrent_reads };
        let warm = Duration::from_secs(arguments.warm) / u32::try_from(WORKLOADS.len()).unwrap();
        for workload in &WORKLOADS {
            let ways: Vec<Way> =
                Way::all().into_iter().filter(|way| way.setting().is_some()).collect();
            bench.take_turns(workload, &ways, (2, warm), &mut SeededRng::new(0));
        }
        for &readers in &arguments.readers {
            WORKLOADS.iter().for_each(|workload| bench.compare(workload, readers));
        }
    }
}

impl Bench<'_> {
    /// Lets all ways take turns until the time is over, then the best fixed one and the loader, and
    /// prints the times.
    fn compare(&self, workload: &Workload, readers: usize) {
        let mut rng = SeededRng::new(1);
        for _ in 0..self.arguments.learn / readers {
            self.round(workload, Way::Learned, readers, &mut rng);
        }
        let time = Duration::from_secs(self.arguments.seconds);
        let sweep = self.take_turns(workload, &Way::all(), (readers, time), &mut rng);
        let fixed = sweep.iter().filter(|(way, _)| way.setting().is_some());
        let best = fixed.min_by_key(|(_, times)| middle(times)).unwrap().0;
        let duel = self.take_turns(workload, &[best, Way::Learned], (readers, time), &mut rng);
        if !self.arguments.json {
            let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
            println!(
                "\n{}, {readers} readers, concurrent_reads {}; load {load}\
                 {:<34} {:>8} {:>8} {:>8} {:>8} {:>6} {:>11}",
                workload.name(),
                self.concurrent_reads,
                "",
                "requests",
                "p50 ms",
                "p95 ms",
                "p99 ms",
                "reads",
                "of the best"
            );
        }
        for (phase, turns) in [("sweep", &sweep), ("duel", &duel)] {
            let best = turns.iter().find(|(way, _)| *way == best).unwrap();
            let best = middle(&best.1);
            for (way, times) in turns {
                self.print(workload, readers, (phase, *way), times, best);
            }
        }
    }

    /// Lets ways take turns until the time is over; returns the sorted times of each.
    fn take_turns(
        &self,
        workload: &Workload,
        ways: &[Way],
        (readers, time): (usize, Duration),
        rng: &mut SeededRng,
    ) -> Vec<(Way, Vec<Duration>)> {
        let mut times: Vec<(Way, Vec<Duration>)> =
            ways.iter().map(|way| (*way, Vec::new())).collect();
        let clock = SystemClock;
        let began = clock.now();
        let mut turn = 0;
        while clock.now().since(began) < time || turn == 0 {
            for (way, times) in &mut times {
                if turn % way.rarity() == 0 {
                    times.extend(self.round(workload, *way, readers, rng));
                }
            }
            turn += 1;
        }
        times.iter_mut().for_each(|(_, times)| times.sort_unstable());
        times
    }

    fn print(
        &self,
        workload: &Workload,
        readers: usize,
        (phase, way): (&str, Way),
        times: &[Duration],
        best: Duration,
    ) {
        let at = |percent: usize| millis(times[(times.len() - 1) * percent / 100]);
        let share = best.as_secs_f64() / middle(times).as_secs_f64();
        let requests = way.requests(&workload.cells(&mut SeededRng::new(1)));
        if self.arguments.json {
            let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
            println!(
                "{}",
                serde_json::json!({
                    "concurrent_reads": self.concurrent_reads, "readers": readers,
                    "workload": workload.name(), "phase": phase, "way": way.to_string(),
                    "requests": requests, "reads": times.len(),
                    "p50_ms": at(50), "p95_ms": at(95), "p99_ms": at(99),
                    "of_best_fixed": share, "load": load.trim(),
                })
            );
        } else {
            let requests = requests.map_or("".to_owned(), |requests| requests.to_string());
            println!(
                "{:<34} {requests:>8} {:>8.1} {:>8.1} {:>8.1} {:>6} {share:>11.2}",
                format!("{phase}: {way}"),
                at(50),
                at(95),
                at(99),
                times.len()
            );
        }
    }

    /// Lets all readers read once, concurrently.
    fn round(
        &self,
        workload: &Workload,
        way: Way,
        readers: usize,
        rng: &mut SeededRng,
    ) -> Vec<Duration> {
        let reads: Vec<Vec<CellKey>> = (0..readers).map(|_| workload.cells(rng)).collect();
        std::thread::scope(|scope| {
            let readers: Vec<_> =
                reads.iter().map(|cells| scope.spawn(|| self.read(workload, way, cells))).collect();
            readers.into_iter().map(|reader| reader.join().unwrap()).collect()
        })
    }

    /// Reads once, including the planning.
    fn read(&self, workload: &Workload, way: Way, cells: &[CellKey]) -> Duration {
        let (context, through) = (Context::unbounded(), Timestamp::new(5).unwrap());
        let began = SystemClock.now();
        let found = if let Some(setting) = way.setting() {
            let read = self.cluster.read_versions_with(&context, cells, through, setting);
            block_on(read).unwrap().iter().flatten().count()
        } else if let Some((batches, lanes)) = way.plan(cells) {
            let read =
                self.cluster.read_batches(&context, (workload.table, through), batches, lanes);
            block_on(read).unwrap().len()
        } else {
            let read = self.cluster.read_versions(&context, cells, through);
            block_on(read).unwrap().iter().flatten().count()
        };
        let took = SystemClock.now().since(began);
        assert_eq!(found, cells.len(), "every cell is there");
        took
    }
}

/// Returns the median of sorted times.
fn middle(times: &[Duration]) -> Duration {
    times[times.len() / 2]
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
