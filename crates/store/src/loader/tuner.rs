//! Chooses how many cells go into a batch, and how many batches are under way at once.

use std::ops::Range;
use std::time::Duration;

use super::fit::{Costs, Fit};

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
const NEARLY: f64 = 1.01;

/// No read is made longer by more than this part, by intention, to learn what batches cost.
const VARY_MAX: f64 = 0.25;

/// No batches are smaller or larger than any sent before by more than this factor: a curve says little
/// of what lies far from where it was seen.
const STRIDE: f64 = 2.0;

/// How much of a crowd of reads is expected at the next one. Reads come together as a rule: the first of
/// ten would else take the lanes of all.
const CROWD_LEFT: f64 = 0.95;

/// After how many reads a neighbour of the level in use is tried again, at first and at last.
const TRY_AGAIN: (u64, u64) = (16, 256);

/// Between these surprises the server is taken to be what it was.
const SURPRISES: Range<f64> = -0.3..1.0;

/// No answer is more of a surprise than this.
const SURPRISE_MAX: f64 = 2.0;

/// Over how many reads surprises are averaged.
const SURPRISE_READS: f64 = 12.0;

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

/// What became of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// How many cells it asked for.
    pub cells: usize,
    /// In how many batches.
    pub batches: usize,
    /// How many bytes came back.
    pub bytes: usize,
    /// How long it took.
    pub took: Duration,
}

/// Learns from reads which settings are fast. Reads that share one are alike.
#[derive(Clone, Debug, Default)]
pub struct Tuner {
    levels: [Level; LEVELS],
    /// Reads that began and have not ended.
    active: usize,
    /// How many there were at a time of late.
    crowd: f64,
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
    /// The smallest and the largest batches, in cells, that were sent on it.
    sent: Option<(f64, f64)>,
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
        self.crowd = (self.crowd * CROWD_LEFT).max(self.active as f64);
        let cells = cells.max(1) as f64 * self.sharers();
        let Some(prospect) = self.choose(cells) else {
            return self.setting(LEVEL_FIRST, cells, 1.0, BATCH_FIRST_CELLS);
        };
        let waves = self.vary(prospect);
        self.setting(prospect.level, cells, waves, BATCH_MAX_CELLS)
    }

    /// A read ended well.
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
            self.look_around();
            self.levels.iter_mut().for_each(|level| level.fit.fade());
        }
    }

    /// A read failed: its parallelism is taken to be twice as slow as it was.
    pub fn fail(&mut self, setting: Setting) {
        self.give_up();
        let level = level_of((setting.lanes * setting.sharers) as f64);
        if self.levels[level].fit.costs().is_none() {
            self.levels[level].fit = self.levels[self.best].fit.clone();
        }
        self.levels[level].fit.double();
    }

    /// A read was given up, and says nothing.
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

    /// How many reads share the parallelism, those among them that come soon if they come as they did.
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
            self.look_around();
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

    /// Says how long a read of so many cells takes on a level, in the best number of waves.
    ///
    /// The waves cost `batch · waves + late · cells / (lanes · waves)`, least where the two are even.
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

    /// Takes what is known of other levels to be old.
    fn look_around(&mut self) {
        self.surprise = 0.0;
        self.levels.iter_mut().for_each(|level| level.try_again = 0);
    }

    fn batch_max(&self) -> f64 {
        let bytes = self.cell_bytes.map_or(f64::MAX, |bytes| BATCH_BYTES / bytes.max(1.0));
        bytes.floor().clamp(1.0, BATCH_MAX_CELLS as f64)
    }

    /// Takes other sizes of batches now and then: what a batch costs is seen from them alone.
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
        weather_per_mille: 0,
        gust_reads: 0,
    };

    const TWO: Server = Server { workers: 2, network_micros: 100, ..SERVER };
    const CROWD: Server = Server { workers: 6, crowd_per_mille: 60, ..SERVER };

    /// Servers that want very different settings.
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

    /// How much of the speed of the best fixed setting reads have.
    fn share(server: &Server, cells: usize, times: &[f64]) -> f64 {
        sweep(server, cells).0 / mean(times)
    }

    /// Compares reads of several sizes with the best fixed settings: the first hundred reads, and
    /// those behind the first two hundred, whatever is tried out among them.
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
    fn it_is_nearly_as_fast_as_the_best_fixed_setting() {
        for (name, server) in SERVERS {
            compare(name, &server, 0.7, 0.95);
        }
    }

    #[test]
    fn a_machine_with_other_work_does_not_confuse_it() {
        for server in [SERVER, TWO, CROWD] {
            compare("bad weather", &Server { weather_per_mille: 2000, ..server }, 0.5, 0.9);
        }
    }

    #[test]
    fn bad_weather_that_lasts_does_not_confuse_it() {
        for gust_reads in [10, 25] {
            for server in [SERVER, TWO, CROWD] {
                let server = Server { weather_per_mille: 1000, gust_reads, ..server };
                compare("gusts", &server, 0.8, 0.9);
            }
        }
    }

    #[test]
    fn a_server_that_changes_is_learned_anew() {
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
    fn reads_at_one_time_share_the_lanes() {
        let mut tuner = Tuner::default();
        tuned(&mut tuner, &SERVER, 200, |_| 10_000);
        let burst = |tuner: &mut Tuner| {
            let settings: Vec<Setting> = (0..10).map(|_| tuner.begin(10_000)).collect();
            (0..10).for_each(|_| tuner.give_up());
            settings
        };
        let first = burst(&mut tuner);
        assert!(first[0].lanes > first[9].lanes && first[9].sharers == 10, "{first:?}");
        // The next ones are expected, from the first of them on.
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
    fn it_gives_way_where_batches_fail() {
        let mut tuner = Tuner::default();
        tuned(&mut tuner, &SERVER, 100, |_| 10_000);
        let mut rng = SeededRng::new(3);
        let mut failed = 0;
        for _ in 0..200 {
            let setting = tuner.begin(10_000);
            // A node that refuses what is more than 8 at a time.
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
