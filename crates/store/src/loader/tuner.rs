//! Tunes the number of cells in a batch, and the number of batches in flight.

use std::ops::Range;
use std::time::Duration;

use super::fit::{Costs, Fit};

/// Numbers of lanes that are tried, in steps of about a half.
const LANES: [u32; LEVELS] = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256];

const LEVELS: usize = 16;

/// Level of the first read.
const LEVEL_FIRST: usize = 3;

/// Number of cells in a batch before anything is known.
const BATCH_FIRST_CELLS: usize = 128;

/// Maximum number of cells in a batch, however small they are.
const BATCH_MAX_CELLS: usize = 4096;

/// Maximum bytes that the answer to a batch should have.
const BATCH_BYTES: f64 = (1_u32 << 20) as f64;

/// Ratio up to which two levels count as equally fast; the smaller one is taken, because other
/// reads need lanes as well.
const NEARLY: f64 = 1.01;

/// Maximum relative slowdown of a read that is made to learn the cost of batches.
const VARY_MAX: f64 = 0.25;

/// Maximum ratio by which batches may be smaller or larger than any sent before: a curve says
/// little far from its data.
const STRIDE: f64 = 2.0;

/// Decay of the number of concurrent reads that is expected at the next read. Reads usually come
/// together; without the expectation the first of ten would take the lanes of all.
const CROWD_LEFT: f64 = 0.95;

/// Number of reads after which a neighbour of the level in use is tried again, at first and at
/// most.
const TRY_AGAIN: (u64, u64) = (16, 256);

/// Range of the mean surprise within which the server counts as unchanged.
const SURPRISES: Range<f64> = -0.3..1.0;

/// Maximum surprise of one answer.
const SURPRISE_MAX: f64 = 2.0;

/// Number of reads over which surprises are averaged.
const SURPRISE_READS: f64 = 12.0;

/// Settings of a read of many cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Number of cells in a batch.
    pub batch_cells: usize,
    /// Number of batches in flight.
    pub lanes: usize,
    /// Number of reads that share the parallelism, including this one.
    pub sharers: usize,
}

/// Measurements of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// Number of requested cells.
    pub cells: usize,
    /// Number of batches.
    pub batches: usize,
    /// Number of bytes received.
    pub bytes: usize,
    /// Duration of the read.
    pub took: Duration,
}

/// Learns fast settings from reads. Reads that share a tuner should be alike.
#[derive(Clone, Debug, Default)]
pub struct Tuner {
    levels: [Level; LEVELS],
    /// Number of reads in flight.
    active: usize,
    /// Decaying maximum of concurrent reads.
    crowd: f64,
    reads: u64,
    /// Best level at the last read.
    best: usize,
    cell_bytes: Option<f64>,
    /// Recent relative difference between actual and expected times.
    surprise: f64,
}

#[derive(Clone, Debug, Default)]
struct Level {
    fit: Fit,
    /// Smallest and largest batch sent on this level, in cells.
    sent: Option<(f64, f64)>,
    /// Number of the last read on this level.
    used: u64,
    /// Number of reads on this level.
    uses: u64,
    /// Number of reads after which it is tried again.
    try_again: u64,
}

/// A level and the expected time of a read on it.
#[derive(Clone, Copy, Debug)]
struct Prospect {
    level: usize,
    waves: f64,
    seconds: f64,
}

impl Tuner {
    /// Begins a read of a number of cells. [`Tuner::end`], [`Tuner::fail`] or [`Tuner::give_up`]
    /// has to follow.
    pub fn begin(&mut self, cells: usize) -> Setting {
        self.active += 1;
        self.reads += 1;
        self.crowd = (self.crowd * CROWD_LEFT).max(self.active as f64);
        let cells = cells.max(1) as f64 * self.sharers();
        let Some(prospect) = self.choose(cells) else {
            return self.setting(LEVEL_FIRST, cells, 1.0, BATCH_FIRST_CELLS);
        };
        let waves = self.vary(prospect);
        self.setting(prospect.level, cells, waves, BATCH_MAX_CELLS)
    }

    /// Ends a successful read.
    pub fn end(&mut self, setting: Setting, done: &Done) {
        self.give_up();
        let (cells, batches) = (done.cells.max(1) as f64, done.batches.max(1) as f64);
        let bytes = done.bytes as f64 / cells;
        self.cell_bytes = Some(self.cell_bytes.map_or(bytes, |mean| mean + (bytes - mean) / 8.0));
        let lanes = setting.lanes as f64;
        let each = done.took.as_secs_f64().max(1e-9) * lanes / cells;
        let level = &mut self.levels[level_of(lanes * setting.sharers as f64)];
        let batch = cells / batches;
        let (least, most) = level.sent.unwrap_or((batch, batch));
        level.sent = Some((least.min(batch), most.max(batch)));
        let surprise = level.fit.add(each, batch, batches / lanes) - 1.0;
        self.surprise += (surprise.min(SURPRISE_MAX) - self.surprise) / SURPRISE_READS;
        if !SURPRISES.contains(&self.surprise) {
            self.retry_neighbours();
            self.levels.iter_mut().for_each(|level| level.fit.fade());
        }
    }

    /// Ends a failed read: its parallelism is assumed to be twice as slow as before.
    pub fn fail(&mut self, setting: Setting) {
        self.give_up();
        let level = level_of((setting.lanes * setting.sharers) as f64);
        if self.levels[level].fit.costs().is_none() {
            self.levels[level].fit = self.levels[self.best].fit.clone();
        }
        self.levels[level].fit.double();
    }

    /// Ends a cancelled read, which teaches nothing.
    pub fn give_up(&mut self) {
        self.active = self.active.saturating_sub(1);
    }

    fn setting(&mut self, level: usize, cells: f64, waves: f64, cells_max: usize) -> Setting {
        self.levels[level].used = self.reads;
        self.levels[level].uses += 1;
        let sharers = self.sharers();
        let lanes = (lanes_of(level) / sharers).floor().max(1.0);
        let own = cells / sharers;
        let most = self.batch_max().min(cells_max as f64);
        let batch = (own / (lanes * waves)).ceil().clamp(1.0, most);
        Setting { batch_cells: whole(batch), lanes: whole(lanes), sharers: whole(sharers) }
    }

    /// Returns the number of reads that share the parallelism, including the expected ones.
    fn sharers(&self) -> f64 {
        self.crowd.round()
    }

    /// Chooses a level and a number of waves; `None` before the first answer.
    fn choose(&mut self, cells: f64) -> Option<Prospect> {
        let known = (0..LEVELS).filter_map(|level| self.prospect(level, cells));
        let best = smallest(known)?;
        // The wider steps first: the answers lead back.
        let neighbours = [
            Some(best.level + 2),
            best.level.checked_sub(2),
            Some(best.level + 1),
            best.level.checked_sub(1),
        ];
        let neighbours: Vec<usize> = neighbours
            .into_iter()
            .flatten()
            .filter(|level| *level < LEVELS && lanes_of(*level) <= cells)
            .collect();
        if self.best.abs_diff(best.level) > 1 {
            self.retry_neighbours();
        }
        self.best = best.level;
        let is_unknown = |level: &&usize| self.levels[**level].fit.costs().is_none();
        let is_due = |level: &&usize| self.levels[**level].is_due(self.reads);
        let tried = neighbours.iter().find(is_unknown).or_else(|| neighbours.iter().find(is_due));
        let Some(&tried) = tried else { return Some(best) };
        let level = &mut self.levels[tried];
        level.fit.fade();
        level.try_again = (level.try_again * 2).clamp(TRY_AGAIN.0, TRY_AGAIN.1);
        Some(self.prospect(tried, cells).unwrap_or(Prospect { level: tried, ..best }))
    }

    /// Returns the expected time of a read on a level, with the best number of waves.
    ///
    /// The waves cost `batch · waves + late · cells / (lanes · waves)`, least if the two terms are
    /// equal.
    fn prospect(&self, level: usize, cells: f64) -> Option<Prospect> {
        let lanes = lanes_of(level);
        if lanes > cells {
            return None;
        }
        let costs = self.levels[level].fit.costs()?;
        let Costs { batch, late, .. } = costs;
        let each = cells / lanes;
        let fewest = (each / self.batch_max()).ceil().max(1.0);
        let (least, most) = self.levels[level].sent.unwrap_or((1.0, f64::MAX));
        let near = (each / most / STRIDE, each / least * STRIDE);
        let waves = (late * each / batch).sqrt().round().clamp(near.0, near.1);
        let waves = waves.clamp(fewest, each.max(fewest));
        Some(Prospect { level, waves, seconds: each * costs.each(each / waves, waves) })
    }

    /// Treats the knowledge of all levels as outdated.
    fn retry_neighbours(&mut self) {
        self.surprise = 0.0;
        self.levels.iter_mut().for_each(|level| level.try_again = 0);
    }

    fn batch_max(&self) -> f64 {
        let bytes = self.cell_bytes.map_or(f64::MAX, |bytes| BATCH_BYTES / bytes.max(1.0));
        bytes.floor().clamp(1.0, BATCH_MAX_CELLS as f64)
    }

    /// Varies the size of batches from time to time: otherwise the cost of a batch cannot be
    /// determined.
    fn vary(&self, Prospect { level, waves, seconds }: Prospect) -> f64 {
        let Level { fit, uses, .. } = &self.levels[level];
        let more = fit.costs().map_or(0.0, |costs| costs.batch * waves);
        match uses % 32 {
            1 if *uses == 1 => waves * 2.0,
            16 if more < seconds * VARY_MAX => waves * 2.0,
            31 => (waves / 2.0).ceil(),
            _ => waves,
        }
    }
}

impl Level {
    fn is_due(&self, reads: u64) -> bool {
        reads - self.used > self.try_again.max(TRY_AGAIN.0)
    }
}

/// Returns the smallest level among the prospects nearly as fast as the fastest.
fn smallest(prospects: impl Iterator<Item = Prospect> + Clone) -> Option<Prospect> {
    let seconds = prospects.clone().map(|prospect| prospect.seconds);
    let fastest = seconds.min_by(f64::total_cmp)?;
    prospects.into_iter().find(|prospect| prospect.seconds <= fastest * NEARLY)
}

fn lanes_of(level: usize) -> f64 {
    LANES[level].into()
}

/// Returns the highest level with at most `in_flight` lanes.
fn level_of(in_flight: f64) -> usize {
    LANES.partition_point(|lanes| f64::from(*lanes) <= in_flight).saturating_sub(1)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates")]
fn whole(number: f64) -> usize {
    number as usize
}

#[cfg(test)]
mod tests {
    use carnet_base::SeededRng;

    use super::super::simulated::{Server, read, sweep, tuned, tuned_seeded};
    use super::*;

    const SERVER: Server = Server {
        workers: 32,
        network_micros: 1000,
        batch_micros: 200,
        cell_nanos: 8000,
        crowd_per_mille: 0,
        noise_per_mille: 300,
        slowdown_per_mille: 0,
        burst_reads: 0,
    };

    const TWO: Server = Server { workers: 2, network_micros: 100, ..SERVER };
    const CROWD: Server = Server { workers: 6, crowd_per_mille: 60, ..SERVER };

    /// Servers with very different best settings.
    const SERVERS: [(&str, Server); 6] = [
        ("two readers", TWO),
        ("32 readers", SERVER),
        ("32 readers, far away", Server { network_micros: 20_000, ..SERVER }),
        ("two readers, dear batches", Server { batch_micros: 2000, ..TWO }),
        ("six that suffer in a crowd", CROWD),
        ("one reader, dear cells", Server { workers: 1, cell_nanos: 200_000, ..SERVER }),
    ];

    fn mean(times: &[f64]) -> f64 {
        times.iter().sum::<f64>() / times.len() as f64
    }

    /// Returns the speed of reads relative to the best fixed setting.
    fn share(server: &Server, cells: usize, times: &[f64]) -> f64 {
        sweep(server, cells).0 / mean(times)
    }

    /// Compares reads of several sizes with the best fixed settings: the first hundred reads, and
    /// those after the first two hundred, including trials.
    fn compare(name: &str, server: &Server, first_least: f64, then_least: f64) {
        for cells in [10_000, 1000, 100] {
            let (mut early, mut late) = (Vec::new(), Vec::new());
            for seed in 0..4 {
                let times = tuned_seeded(seed, &mut Tuner::default(), server, 600, |_| cells);
                early.extend_from_slice(&times[..100]);
                late.extend_from_slice(&times[200..]);
            }
            let (first, then) = (share(server, cells, &early), share(server, cells, &late));
            println!("{name}, {cells} cells: {first:.3}, then {then:.3}");
            assert!(first >= first_least && then >= then_least, "{cells}: {first}, {then}");
        }
    }

    #[test]
    fn tuner_nearly_matches_the_best_fixed_setting() {
        for (name, server) in SERVERS {
            compare(name, &server, 0.7, 0.95);
        }
    }

    #[test]
    fn random_slow_reads_do_not_mislead_the_tuner() {
        for server in [SERVER, TWO, CROWD] {
            compare("bad slowdown", &Server { slowdown_per_mille: 2000, ..server }, 0.5, 0.9);
        }
    }

    #[test]
    fn bursts_of_slow_reads_do_not_mislead_the_tuner() {
        for burst_reads in [10, 25] {
            for server in [SERVER, TWO, CROWD] {
                let server = Server { slowdown_per_mille: 1000, burst_reads, ..server };
                compare("bursts", &server, 0.8, 0.9);
            }
        }
    }

    #[test]
    fn changed_server_is_learned_anew() {
        for (before, after) in [(TWO, SERVER), (SERVER, TWO)] {
            let mut tuner = Tuner::default();
            tuned(&mut tuner, &before, 500, |_| 10_000);
            tuned(&mut tuner, &after, 100, |_| 10_000);
            let then = share(&after, 10_000, &tuned(&mut tuner, &after, 200, |_| 10_000));
            assert!(then >= 0.8, "{then}");
        }
    }

    #[test]
    fn reads_of_many_sizes_learn_from_each_other() {
        let sizes = [1200, 2500, 1700, 800, 3000];
        let times = tuned(&mut Tuner::default(), &SERVER, 1000, |number| sizes[number % 5]);
        for (place, size) in sizes.into_iter().enumerate() {
            let times: Vec<f64> = times[200..].iter().copied().skip(place).step_by(5).collect();
            let share = share(&SERVER, size, &times);
            println!("{size} cells: {share:.3}");
            assert!(share >= 0.95, "{size} cells: {share}");
        }
    }

    #[test]
    fn a_batch_stays_small_in_bytes() {
        let mut tuner = Tuner::default();
        let setting = tuner.begin(1_000_000);
        assert!(setting.batch_cells <= BATCH_FIRST_CELLS);
        let took = Duration::from_millis(5);
        tuner.end(setting, &Done { cells: 100, batches: 9, bytes: 10_000_000, took });
        for cells in [1, 50, 1_000_000] {
            let setting = tuner.begin(cells);
            assert!((1..=10).contains(&setting.batch_cells), "{setting:?}");
            tuner.give_up();
        }
    }

    #[test]
    fn concurrent_reads_share_the_lanes() {
        let mut tuner = Tuner::default();
        tuned(&mut tuner, &SERVER, 200, |_| 10_000);
        let burst = |tuner: &mut Tuner| {
            let settings: Vec<Setting> = (0..10).map(|_| tuner.begin(10_000)).collect();
            (0..10).for_each(|_| tuner.give_up());
            settings
        };
        let first = burst(&mut tuner);
        assert!(first[0].lanes > first[9].lanes && first[9].sharers == 10, "{first:?}");
        // From the first read of the next burst on, the others are expected.
        for setting in burst(&mut tuner) {
            assert!(setting.lanes * 10 < 100 && setting.sharers >= 6, "{setting:?}");
        }
        let alone: Vec<usize> = (0..60)
            .map(|_| {
                let setting = tuner.begin(10_000);
                tuner.give_up();
                setting.sharers
            })
            .collect();
        assert!(alone[10] < 8 && alone[59] == 1, "{alone:?}");
    }

    #[test]
    fn failing_batches_reduce_the_lanes() {
        let mut tuner = Tuner::default();
        tuned(&mut tuner, &SERVER, 100, |_| 10_000);
        let mut rng = SeededRng::new(3);
        let mut failed = 0;
        for _ in 0..200 {
            let setting = tuner.begin(10_000);
            // A node that refuses more than 8 batches at a time.
            if setting.lanes > 8 {
                failed += 1;
                tuner.fail(setting);
            } else {
                tuner.end(setting, &read(&SERVER, &mut rng, 10_000, setting, false));
            }
        }
        assert!(failed < 40, "{failed} of 200 reads failed");
    }
}
