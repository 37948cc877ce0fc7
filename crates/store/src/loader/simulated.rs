//! Servers in virtual time, for tests: how fast reads are under any setting.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use carnet_base::{Rng as _, SeededRng};

use super::tuner::{Answered, Setting, Tuner};

/// A server with some workers, a queue before them, and a network.
#[derive(Clone, Copy, Debug)]
pub(super) struct Server {
    pub(super) workers: usize,
    /// There and back.
    pub(super) network_micros: u64,
    pub(super) batch_micros: u64,
    pub(super) cell_nanos: u64,
    /// How much longer work takes for each batch that waits: context switches, garbage.
    pub(super) crowd_per_mille: u64,
    /// Work takes up to so much longer, at random.
    pub(super) noise_per_mille: u64,
}

/// One read of so many cells, in nanoseconds; its answers.
pub(super) fn read(
    server: &Server,
    rng: &mut SeededRng,
    cells: usize,
    setting: Setting,
) -> (u64, Vec<Answered>) {
    let mut left = cells;
    let mut workers: BinaryHeap<Reverse<u64>> = (0..server.workers).map(|_| Reverse(0)).collect();
    let batches = cells.div_ceil(setting.batch_cells);
    let in_flight = batches.min(setting.lanes);
    let mut lanes: BinaryHeap<Reverse<u64>> = (0..in_flight).map(|_| Reverse(0)).collect();
    let crowd = in_flight.saturating_sub(server.workers) as u64;
    let mut answers = Vec::new();
    while left > 0 {
        let batch = left.min(setting.batch_cells);
        left -= batch;
        let Reverse(sent) = lanes.pop().expect("there is a lane");
        let Reverse(free) = workers.pop().expect("there is a worker");
        let mut work = server.batch_micros * 1000 + server.cell_nanos * batch as u64;
        work +=
            work * (crowd * server.crowd_per_mille + rng.below(server.noise_per_mille + 1)) / 1000;
        let done = free.max(sent + server.network_micros * 500) + work;
        workers.push(Reverse(done));
        let back = done + server.network_micros * 500;
        lanes.push(Reverse(back));
        let took = Duration::from_nanos(back - sent);
        answers.push(Answered { cells: batch, bytes: batch * 100, in_flight, took });
    }
    let last = lanes.into_iter().map(|Reverse(lane)| lane).max();
    (last.unwrap_or(0), answers)
}

/// The best of all fixed settings: the mean time of a read in nanoseconds, and the setting.
pub(super) fn sweep(server: &Server, cells: usize) -> (f64, usize, usize) {
    let lanes = [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 20, 24, 28, 32, 36, 40, 48, 64, 96, 128];
    // Eighths of waves of batches.
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

/// The mean time of a read under a fixed setting, in nanoseconds.
fn fixed(server: &Server, cells: usize, batch_cells: usize, lanes: usize) -> f64 {
    const READS: u64 = 20;
    let mut rng = SeededRng::new(1);
    let setting = Setting { batch_cells, lanes, sharers: 1 };
    let sum: u64 = (0..READS).map(|_| read(server, &mut rng, cells, setting).0).sum();
    sum as f64 / READS as f64
}

/// Reads again and again as the tuner says; returns what each read took.
pub(super) fn tuned(
    tuner: &mut Tuner,
    server: &Server,
    reads: usize,
    mut cells: impl FnMut(usize) -> usize,
) -> Vec<u64> {
    let mut rng = SeededRng::new(2);
    let mut times = Vec::new();
    for number in 0..reads {
        let cells = cells(number);
        let setting = tuner.begin(cells);
        let (time, answers) = read(server, &mut rng, cells, setting);
        answers.iter().for_each(|answered| tuner.answered(answered));
        tuner.end();
        times.push(time);
    }
    times
}
