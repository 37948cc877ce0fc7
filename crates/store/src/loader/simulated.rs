//! Simulated servers for tests: the times of reads under any setting.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use carnet_base::{Rng as _, SeededRng};

use super::tuner::{Done, Setting, Tuner};

/// A server with workers, a queue before them, and a network.
#[derive(Clone, Copy, Debug)]
pub(super) struct Server {
    pub(super) workers: usize,
    /// Round-trip time, in microseconds.
    pub(super) network_micros: u64,
    pub(super) batch_micros: u64,
    pub(super) cell_nanos: u64,
    /// Slowdown for each waiting batch, by context switches and garbage.
    pub(super) crowd_per_mille: u64,
    /// Maximum random slowdown.
    pub(super) noise_per_mille: u64,
    /// Slowdown of a quarter of the reads by other work on the machine.
    pub(super) slowdown_per_mille: u64,
    /// Number of consecutive slow reads; 0 makes single reads slow at random.
    pub(super) burst_reads: usize,
}

/// Simulates a read of a number of cells.
pub(super) fn read(
    server: &Server,
    rng: &mut SeededRng,
    cells: usize,
    setting: Setting,
    is_bad: bool,
) -> Done {
    let mut left = cells;
    let mut workers: BinaryHeap<Reverse<u64>> = (0..server.workers).map(|_| Reverse(0)).collect();
    let batches = cells.div_ceil(setting.batch_cells);
    let in_flight = batches.min(setting.lanes);
    let mut lanes: BinaryHeap<Reverse<u64>> = (0..in_flight).map(|_| Reverse(0)).collect();
    let crowd = in_flight.saturating_sub(server.workers) as u64;
    let slowdown = 1000 + if is_bad { server.slowdown_per_mille } else { 0 };
    while left > 0 {
        let batch = left.min(setting.batch_cells);
        left -= batch;
        let Reverse(sent) = lanes.pop().expect("there is a lane");
        let Reverse(free) = workers.pop().expect("there is a worker");
        let work = server.batch_micros * 1000 + server.cell_nanos * batch as u64;
        let mut work = work * slowdown / 1000;
        work +=
            work * (crowd * server.crowd_per_mille + rng.below(server.noise_per_mille + 1)) / 1000;
        let done = free.max(sent + server.network_micros * 500) + work;
        workers.push(Reverse(done));
        let back = done + server.network_micros * 500;
        lanes.push(Reverse(back));
    }
    let last = lanes.into_iter().map(|Reverse(lane)| lane).max().unwrap_or(0);
    Done { cells, batches, bytes: cells * 100, took: Duration::from_nanos(last) }
}

/// Returns the best of all fixed settings: the mean seconds of a read, and the setting.
pub(super) fn sweep(server: &Server, cells: usize) -> (f64, usize, usize) {
    let lanes = [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 20, 24, 28, 32, 36, 40, 48, 64, 96, 128];
    // In eighths of waves of batches.
    let waves = [4, 6, 7, 8, 10, 12, 16, 20, 24, 32, 48, 64];
    let mut best = (f64::INFINITY, 0, 0);
    for lanes in lanes.into_iter().filter(|lanes| *lanes <= cells) {
        for waves in waves {
            let batch_cells = (cells * 8).div_ceil(lanes * waves).clamp(1, 4096);
            let time = fixed(server, cells, batch_cells, lanes);
            if time < best.0 {
                best = (time, batch_cells, lanes);
            }
        }
    }
    best
}

/// Returns the mean seconds of a read under a fixed setting.
fn fixed(server: &Server, cells: usize, batch_cells: usize, lanes: usize) -> f64 {
    const READS: u32 = 20;
    let mut rng = SeededRng::new(1);
    let setting = Setting { batch_cells, lanes, sharers: 1 };
    let took = |n: u32| read(server, &mut rng, cells, setting, n.is_multiple_of(4)).took;
    (0..READS).map(took).sum::<Duration>().as_secs_f64() / f64::from(READS)
}

/// Reads repeatedly with the tuner's settings; returns the time of each read.
pub(super) fn tuned(
    tuner: &mut Tuner,
    server: &Server,
    reads: usize,
    cells: impl FnMut(usize) -> usize,
) -> Vec<f64> {
    tuned_seeded(2, tuner, server, reads, cells)
}

/// Like [`tuned`], with a seed.
pub(super) fn tuned_seeded(
    seed: u64,
    tuner: &mut Tuner,
    server: &Server,
    reads: usize,
    mut cells: impl FnMut(usize) -> usize,
) -> Vec<f64> {
    let mut rng = SeededRng::new(seed);
    let mut times = Vec::new();
    for number in 0..reads {
        let cells = cells(number);
        let setting = tuner.begin(cells);
        let is_bad = match number.checked_div(server.burst_reads) {
            Some(burst) => burst % 4 == 3,
            None => rng.below(4) == 0,
        };
        let done = read(server, &mut rng, cells, setting, is_bad);
        tuner.end(setting, &done);
        times.push(done.took.as_secs_f64());
    }
    times
}
