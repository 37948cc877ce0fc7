//! Many concurrent clients that run one statement.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use carnet::{Error, Result};
use carnet_base::{Clock, SeededRng, SystemClock};

use super::client::Client;
use crate::overload;

/// Clients of one run, and the busy threads beside them.
pub(super) struct Load {
    pub(super) clients: usize,
    pub(super) busy: usize,
    pub(super) millis: u64,
}

/// Result of a run.
#[derive(Default)]
pub(super) struct Done {
    /// Time of each statement that succeeded, in ascending order.
    pub(super) latencies: Vec<Duration>,
    pub(super) failed: u64,
    /// Text of a failure.
    pub(super) failure: Option<String>,
}

impl Load {
    /// Runs a statement with random values, by clients that are divided among the processes.
    pub(super) fn run(
        &self,
        processes: &[Client],
        statement: &str,
        values: impl Fn(&mut SeededRng) -> Vec<Vec<u8>> + Clone + Send + 'static,
    ) -> Result<Done> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build();
        let runtime = runtime.map_err(|error| {
            Error::unavailable("cannot start the threads of the clients").with_source(error)
        })?;
        let ends = Arc::new(AtomicBool::new(false));
        let mut tasks = Vec::new();
        for number in 0..self.clients {
            let client = processes[number % processes.len()].clone();
            let (prepared, values) = (client.prepare(statement)?, values.clone());
            let (ends, mut rng) = (Arc::clone(&ends), SeededRng::new(number as u64));
            tasks.push(runtime.spawn(async move {
                let mut done = Done::default();
                while !ends.load(Ordering::Relaxed) {
                    let begun = SystemClock.now();
                    match client.execute(&prepared, values(&mut rng)).await {
                        Ok(()) => done.latencies.push(SystemClock.now().since(begun)),
                        Err(failure) => {
                            done.failed += 1;
                            done.failure = Some(failure.to_string());
                        }
                    }
                    tokio::task::yield_now().await;
                }
                done
            }));
        }
        std::thread::scope(|scope| {
            for _ in 0..self.busy {
                scope.spawn(|| {
                    while !ends.load(Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                });
            }
            overload::pause(Duration::from_millis(self.millis));
            ends.store(true, Ordering::Relaxed);
        });
        let mut all = Done::default();
        for task in tasks {
            let done = runtime.block_on(task).expect("no client panics");
            all.latencies.extend(done.latencies);
            all.failed += done.failed;
            all.failure = all.failure.or(done.failure);
        }
        all.latencies.sort_unstable();
        Ok(all)
    }
}
