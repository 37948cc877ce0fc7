//! Chooses how many cells go into a batch, and how many batches are under way at once.

use std::ops::Range;
use std::time::Duration;

use super::fit::{Fit, Line};

/// The parallelisms that are tried, in steps of about a half.
const LANES: [u32; LEVELS] = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256];

const LEVELS: usize = 16;

/// The level of the first read.
const LEVEL_FIRST: usize = 3;

/// How many cells a batch holds of which nothing is known yet.
const BATCH_FIRST_CELLS: usize = 128;

/// How many cells a batch holds at most, however small they are.
const BATCH_MAX_CELLS: usize = 4096;

/// How many bytes of cells a batch should bring at most.
const BATCH_BYTES: f64 = (1_u32 << 20) as f64;

/// Of two levels nearly as fast as each other the smaller one is taken: others read as well.
const NEARLY: f64 = 1.02;

/// How many deviations the last answer of a read is late.
const LATE_DEVIATIONS: f64 = 1.5;

/// After how many reads a neighbour of the level in use is tried again, at first and at last.
const TRY_AGAIN: (u64, u64) = (16, 256);

/// Between these surprises the server is taken to be what it was.
const SURPRISES: Range<f64> = -0.3..0.5;

/// Over how many waves of batches surprises are averaged.
const SURPRISE_WAVES: f64 = 4.0;

/// How a read of many cells is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    /// How many cells a batch should hold.
    pub batch_cells: usize,
    /// How many batches are under way at once.
    pub lanes: usize,
    /// How many reads share the parallelism, this one among them.
    pub sharers: usize,
}

/// What became of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answered {
    /// How many cells it asked for.
    pub cells: usize,
    /// How many bytes came back.
    pub bytes: usize,
    /// How many batches were under way, of all reads that shared.
    pub in_flight: usize,
    /// How long it took.
    pub took: Duration,
}

/// Learns from the answers of reads which settings are fast. Reads that share one are alike.
#[derive(Clone, Debug, Default)]
pub struct Tuner {
    levels: [Level; LEVELS],
    /// Reads that began and have not ended.
    active: usize,
    reads: u64,
    /// The level that was the best at the last read.
    best: usize,
    cell_bytes: Option<f64>,
    /// How much longer answers took of late than was expected, as a part of that.
    surprise: f64,
}

#[derive(Clone, Debug, Default)]
struct Level {
    fit: Fit,
    /// The number of the last read on it.
    used: u64,
    /// How many reads were on it.
    uses: u64,
    /// After how many reads it is tried again.
    try_again: u64,
}

/// A level and how long a read on it would take.
#[derive(Clone, Copy, Debug)]
struct Prospect {
    level: usize,
    waves: f64,
    seconds: f64,
}

impl Tuner {
    /// A read of so many cells begins. [`Tuner::end`] has to follow.
    pub fn begin(&mut self, cells: usize) -> Setting {
        self.active += 1;
        self.reads += 1;
        let cells = (cells.max(1) * self.active) as f64;
        let Some(prospect) = self.choose(cells) else {
            return self.setting(LEVEL_FIRST, cells, 1.0, BATCH_FIRST_CELLS);
        };
        let waves = self.vary(prospect);
        self.setting(prospect.level, cells, waves, BATCH_MAX_CELLS)
    }

    /// A batch was answered.
    pub fn answered(&mut self, answered: &Answered) {
        let cells = answered.cells.max(1) as f64;
        let bytes = answered.bytes as f64 / cells;
        self.cell_bytes = Some(self.cell_bytes.map_or(bytes, |mean| mean + (bytes - mean) / 32.0));
        let level = level_of(answered.in_flight);
        let (seconds, lanes) = (answered.took.as_secs_f64().max(1e-9), lanes_of(level));
        let surprise = self.levels[level].fit.add(cells, seconds, lanes);
        self.surprise += (surprise - 1.0 - self.surprise) / (SURPRISE_WAVES * lanes);
        if !SURPRISES.contains(&self.surprise) {
            self.look_around();
        }
    }

    /// A batch failed: so many at a time are taken to be twice as slow.
    pub fn failed(&mut self, in_flight: usize) {
        let level = level_of(in_flight);
        if self.levels[level].fit.line().is_none() {
            self.levels[level].fit = self.levels[self.best].fit.clone();
        }
        self.levels[level].fit.double();
    }

    /// A read ended, well or not.
    pub fn end(&mut self) {
        self.active = self.active.saturating_sub(1);
    }

    fn setting(&mut self, level: usize, cells: f64, waves: f64, cells_max: usize) -> Setting {
        self.levels[level].used = self.reads;
        self.levels[level].uses += 1;
        let lanes = (lanes_of(level) / self.active as f64).floor().max(1.0);
        let own = cells / self.active as f64;
        let most = self.batch_max().min(cells_max as f64);
        let batch = (own / (lanes * waves)).ceil().clamp(1.0, most);
        Setting { batch_cells: whole(batch), lanes: whole(lanes), sharers: self.active }
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
        if self.best != best.level {
            self.best = best.level;
            self.look_around();
        }
        let is_unknown = |level: &&usize| self.levels[**level].fit.line().is_none();
        let is_due = |level: &&usize| self.levels[**level].is_due(self.reads);
        let tried = neighbours.iter().find(is_unknown).or_else(|| neighbours.iter().find(is_due));
        let Some(&tried) = tried else { return Some(best) };
        let level = &mut self.levels[tried];
        level.fit.fade();
        level.try_again = (level.try_again * 2).clamp(TRY_AGAIN.0, TRY_AGAIN.1);
        Some(self.prospect(tried, cells).unwrap_or(Prospect { level: tried, ..best }))
    }

    /// Says how long a read of so many cells takes on a level, in the best number of waves.
    ///
    /// With b = cells / (lanes · waves) a wave takes t(b), and the last answer is late by a part L
    /// of one: (waves + L) · (t0 + c·b), whose minimum lies at waves² = L·c·cells / (lanes·t0).
    fn prospect(&self, level: usize, cells: f64) -> Option<Prospect> {
        let lanes = lanes_of(level);
        if lanes > cells {
            return None;
        }
        let Line { batch, cell, deviation } = self.levels[level].fit.line()?;
        let late = deviation * LATE_DEVIATIONS;
        let each = cells / lanes;
        let fewest = (each / self.batch_max()).ceil().max(1.0);
        let waves = (late * cell * each / batch).sqrt().round().clamp(fewest, each.max(fewest));
        let seconds = (waves + late) * (batch + cell * each / waves);
        Some(Prospect { level, waves, seconds })
    }

    /// The server is not what it was: takes what is known to be old.
    fn look_around(&mut self) {
        self.surprise = 0.0;
        self.levels.iter_mut().for_each(|level| level.try_again = 0);
    }

    fn batch_max(&self) -> f64 {
        let bytes = self.cell_bytes.map_or(f64::MAX, |bytes| BATCH_BYTES / bytes.max(1.0));
        bytes.floor().clamp(1.0, BATCH_MAX_CELLS as f64)
    }

    /// Takes other sizes of batches now and then: what a batch costs is seen from them alone.
    fn vary(&self, prospect: Prospect) -> f64 {
        match self.levels[prospect.level].uses {
            1 => prospect.waves * 2.0,
            uses if uses % 32 == 16 => prospect.waves * 2.0,
            uses if uses % 32 == 0 => (prospect.waves / 2.0).ceil(),
            _ => prospect.waves,
        }
    }
}

impl Level {
    fn is_due(&self, reads: u64) -> bool {
        reads - self.used > self.try_again.max(TRY_AGAIN.0)
    }
}

/// Of the prospects nearly as fast as the fastest, the one with the smallest level.
fn smallest(prospects: impl Iterator<Item = Prospect> + Clone) -> Option<Prospect> {
    let seconds = prospects.clone().map(|prospect| prospect.seconds);
    let fastest = seconds.min_by(f64::total_cmp)?;
    prospects.into_iter().find(|prospect| prospect.seconds <= fastest * NEARLY)
}

fn lanes_of(level: usize) -> f64 {
    LANES[level].into()
}

/// Returns the highest level of at most so many lanes.
fn level_of(in_flight: usize) -> usize {
    LANES.partition_point(|lanes| *lanes as usize <= in_flight).saturating_sub(1)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates")]
fn whole(number: f64) -> usize {
    number as usize
}

#[cfg(test)]
mod tests {
    use carnet_base::SeededRng;

    use super::super::simulated::{Server, read, sweep, tuned};
    use super::*;

    const SERVER: Server = Server {
        workers: 32,
        network_micros: 1000,
        batch_micros: 200,
        cell_nanos: 8000,
        crowd_per_mille: 0,
        noise_per_mille: 300,
    };

    /// Servers that want very different settings.
    const SERVERS: [(&str, Server); 6] = [
        ("two readers", Server { workers: 2, network_micros: 100, ..SERVER }),
        ("32 readers", SERVER),
        ("32 readers, far away", Server { network_micros: 20_000, ..SERVER }),
        ("two readers, dear batches", Server { workers: 2, batch_micros: 2000, ..SERVER }),
        ("six that suffer in a crowd", Server { workers: 6, crowd_per_mille: 60, ..SERVER }),
        ("one reader, dear cells", Server { workers: 1, cell_nanos: 200_000, ..SERVER }),
    ];

    fn mean(times: &[u64]) -> f64 {
        times.iter().sum::<u64>() as f64 / times.len() as f64
    }

    /// How much of the speed of the best fixed setting reads have.
    fn share(server: &Server, cells: usize, times: &[u64]) -> f64 {
        sweep(server, cells).0 / mean(times)
    }

    #[test]
    fn it_is_nearly_as_fast_as_the_best_fixed_setting() {
        for (name, server) in SERVERS {
            for cells in [10_000, 1000, 100] {
                let times = tuned(&mut Tuner::default(), &server, 600, |_| cells);
                // Whatever it tries out meanwhile is part of it.
                let first = share(&server, cells, &times[..100]);
                let then = share(&server, cells, &times[200..]);
                println!("{name}, {cells} cells: {first:.3}, then {then:.3}");
                assert!(then >= 0.95 && first >= 0.7, "{name}, {cells} cells: {first}, {then}");
            }
        }
    }

    #[test]
    fn a_server_that_changes_is_learned_anew() {
        let [(_, two), (_, many), ..] = SERVERS;
        for (before, after) in [(two, many), (many, two)] {
            let mut tuner = Tuner::default();
            tuned(&mut tuner, &before, 500, |_| 10_000);
            tuned(&mut tuner, &after, 100, |_| 10_000);
            let then = share(&after, 10_000, &tuned(&mut tuner, &after, 200, |_| 10_000));
            println!("{then:.3}");
            assert!(then >= 0.9, "{then}");
        }
    }

    #[test]
    fn reads_of_many_sizes_learn_from_each_other() {
        let (_, server) = SERVERS[1];
        let sizes = [20, 10_000, 300, 2, 3000];
        let times = tuned(&mut Tuner::default(), &server, 1000, |number| sizes[number % 5]);
        for (place, size) in sizes.into_iter().enumerate() {
            let times: Vec<u64> = times[200..].iter().copied().skip(place).step_by(5).collect();
            let share = share(&server, size, &times);
            println!("{size} cells: {share:.3}");
            assert!(share >= 0.85, "{size} cells: {share}");
        }
    }

    #[test]
    fn a_batch_stays_small_in_bytes() {
        let mut tuner = Tuner::default();
        assert!(tuner.begin(1_000_000).batch_cells <= BATCH_FIRST_CELLS);
        let took = Duration::from_millis(5);
        let answered = Answered { cells: 10, bytes: 1_000_000, in_flight: 4, took };
        (0..9).for_each(|_| tuner.answered(&answered));
        tuner.end();
        for cells in [1, 50, 1_000_000] {
            let setting = tuner.begin(cells);
            assert!((1..=10).contains(&setting.batch_cells), "{setting:?}");
            tuner.end();
        }
    }

    #[test]
    fn reads_at_one_time_share_the_lanes() {
        let (_, server) = SERVERS[1];
        let mut tuner = Tuner::default();
        tuned(&mut tuner, &server, 200, |_| 10_000);
        let settings: Vec<Setting> = (0..10).map(|_| tuner.begin(10_000)).collect();
        let lanes: usize = settings[1..].iter().map(|setting| setting.lanes).sum();
        assert!(settings[0].lanes > settings[9].lanes && lanes < 150, "{settings:?}");
        assert_eq!(settings[9].sharers, 10);
        (0..10).for_each(|_| tuner.end());
        assert_eq!(tuner.begin(10_000).sharers, 1);
    }

    #[test]
    fn it_gives_way_where_batches_fail() {
        let (_, server) = SERVERS[1];
        let mut tuner = Tuner::default();
        tuned(&mut tuner, &server, 100, |_| 10_000);
        let mut rng = SeededRng::new(3);
        let mut failed = 0;
        for _ in 0..200 {
            let setting = tuner.begin(10_000);
            // A node that refuses what is more than 8 at a time.
            if setting.lanes > 8 {
                failed += 1;
                tuner.failed(setting.lanes);
            } else {
                let (_, answers) = read(&server, &mut rng, 10_000, setting);
                answers.iter().for_each(|answered| tuner.answered(answered));
            }
            tuner.end();
        }
        assert!(failed < 40, "{failed} of 200 reads failed");
    }
}
