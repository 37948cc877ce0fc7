//! Measures the rate of strict begins that a follower gets from its leader over TCP, on the
//! loopback device.
//!
//! `cargo run --release -p carnet-sequencer --example begins [seconds a measurement]`
//!
//! The cluster is in memory and answers at once; each *round* stands for a SERIAL read of the
//! lease, which takes a real cluster milliseconds. The example measures the wire protocol and the
//! leader.
#![expect(clippy::unwrap_used, reason = "an example that cannot go on ends")]

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use carnet_base::{Clock as _, SeededRng, SystemClock, Task, Tasks, ThreadSpawn, ThreadTimer};
use carnet_sequencer::{ClusterLog, Environment, Options, Secret, Security, TcpNetwork};
use carnet_store::cluster::MemoryCluster;
use carnet_store::{BeginKind, CommitLog as _, Context};
use carnet_txn::CommitChecker;
use tokio::runtime::{Handle, Runtime};

type Log = ClusterLog<MemoryCluster, TcpNetwork>;

struct RuntimeTasks(Handle);

impl Tasks for RuntimeTasks {
    fn spawn(&self, task: Task) {
        self.0.spawn(task);
    }
}

fn open(cluster: &Arc<MemoryCluster>, runtime: &Handle, seed: u64) -> Arc<Log> {
    let clock = Arc::new(SystemClock);
    let environment = Environment {
        timer: Arc::new(ThreadTimer::new(Arc::clone(&clock) as _, &ThreadSpawn)),
        clock,
        tasks: Arc::new(RuntimeTasks(runtime.clone())),
        row_tables: Arc::default(),
    };
    let security = Security::Secret(Secret::new("an example's secret").unwrap());
    let listen = (Ipv4Addr::LOCALHOST, 0).into();
    let network = TcpNetwork::bind(listen, None, security, runtime.clone()).unwrap();
    let log = ClusterLog::open(
        Arc::clone(cluster),
        network.clone(),
        network.address().clone(),
        environment,
        &mut SeededRng::new(seed),
        Options::default(),
        Arc::new(|start| Box::new(CommitChecker::resuming(start))),
    );
    network.serve(&log.handler());
    Arc::new(log)
}

/// Begins and ends snapshots until told to stop, and counts them.
async fn caller(log: Arc<Log>, is_over: Arc<AtomicBool>, begins: Arc<AtomicU64>) {
    let context = Context::unbounded();
    while !is_over.load(Ordering::Relaxed) {
        let begun = log.begin(&context, BeginKind::ReadOnly).await.unwrap();
        log.end(begun);
        begins.fetch_add(1, Ordering::Relaxed);
    }
}

fn measure(
    runtime: &Runtime,
    cluster: &MemoryCluster,
    log: &Arc<Log>,
    callers: u32,
    long: Duration,
) {
    let (is_over, begins) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let (clock, rounds) = (SystemClock, cluster.rounds());
    let began = clock.now();
    let tasks: Vec<_> = (0..callers)
        .map(|_| {
            let (log, is_over, begins) =
                (Arc::clone(log), Arc::clone(&is_over), Arc::clone(&begins));
            runtime.spawn(caller(log, is_over, begins))
        })
        .collect();
    while clock.now().since(began) < long {
        std::thread::park_timeout(long - clock.now().since(began));
    }
    is_over.store(true, Ordering::Relaxed);
    for task in tasks {
        runtime.block_on(task).unwrap();
    }
    let elapsed = clock.now().since(began);
    let begins = u32::try_from(begins.load(Ordering::Relaxed)).unwrap_or(u32::MAX);
    let rounds = u32::try_from(cluster.rounds() - rounds).unwrap_or(u32::MAX);
    println!(
        "{callers:>7}  {:>9.0}  {:>12.1}  {:>16.3}",
        f64::from(begins) / elapsed.as_secs_f64(),
        elapsed.as_secs_f64() * 1e6 * f64::from(callers) / f64::from(begins),
        f64::from(rounds) / f64::from(begins),
    );
}

fn main() {
    let seconds = std::env::args().nth(1).map_or(3, |text| text.parse().unwrap());
    // One runtime for each process, to keep the two apart.
    let runtimes = [(); 2].map(|()| {
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        runtime.worker_threads(2).enable_all().build().unwrap()
    });
    let cluster = Arc::new(MemoryCluster::new());
    let leader = open(&cluster, runtimes[0].handle(), 1);
    runtimes[0].block_on(leader.begin(&Context::unbounded(), BeginKind::ReadOnly)).unwrap();
    let follower = open(&cluster, runtimes[1].handle(), 2);
    runtimes[1].block_on(follower.begin(&Context::unbounded(), BeginKind::ReadOnly)).unwrap();
    println!("callers  begins/s   µs a begin  rounds a begin");
    for callers in [1, 16, 64, 256] {
        measure(&runtimes[1], &cluster, &follower, callers, Duration::from_secs(seconds));
    }
    drop((follower, leader));
}
