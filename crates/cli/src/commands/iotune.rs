//! `carnet iotune`: measures a disk, so that the I/O scheduler knows the cost of requests.
//!
//! ```text
//!  one read at a time ─▶ latency          four corners ─┐
//!                                                       ├─▶ Model::fit ─▶ file in the directory
//!                                         three mixes ──┘
//! ```
#![expect(clippy::disallowed_methods, reason = "it measures the machine")]

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use carnet_base::{Rng, SeededRng};
use carnet_storage::disk::{BulkReader, Disk, File, Place, RealDisk, model_file};
use carnet_storage::io::{Combine, Direction, Flow, Model};
use clap::Args;

/// Scratch file for the measurement, removed at the end.
const SCRATCH: &str = "iotune.tmp";
const SCRATCH_MIB: RangeInclusive<u64> = 16..=65536;

const SMALL: usize = 4 << 10;
const MIDDLE: usize = 32 << 10;
const LARGE: usize = 128 << 10;

/// Number of threads per direction, with one request each.
const THREADS: u64 = 16;

/// Number of steps: the loads and the measurement of latency.
const STEPS: u32 = 8;

const SECONDS: RangeInclusive<u64> = 2..=60;

/// Measure the disk of a directory: reads and writes alone, small and large, and mixed. The result
/// is stored in the directory and used by databases that are opened there afterwards. Nothing else
/// should use the disk meanwhile.
#[derive(Args)]
pub(crate) struct Iotune {
    /// The directory of the database, which must not be in use.
    #[arg(long, default_value = "carnet-data")]
    dir: PathBuf,
    /// Duration of the measurement in seconds, from 2 to 60.
    #[arg(long, default_value_t = 24)]
    seconds: u64,
    /// Size of the file to measure with in MiB, from 16 to 65536; larger than the device's cache.
    #[arg(long, default_value_t = 256)]
    scratch_mib: u64,
}

/// Load of several threads.
#[derive(Clone, Copy)]
struct Load {
    direction: Direction,
    bytes: usize,
}

impl Iotune {
    /// Measures the disk, shows the model and stores it.
    pub(crate) fn run(self) -> Result<()> {
        if !SECONDS.contains(&self.seconds) {
            bail!("--seconds {}: expected from 2 to 60", self.seconds);
        }
        if !SCRATCH_MIB.contains(&self.scratch_mib) {
            bail!("--scratch-mib {}: expected from 16 to 65536", self.scratch_mib);
        }
        let disk = RealDisk::open(&self.dir)?;
        let _lock = disk.lock()?;
        let measured = Measuring::new(&disk, &self).and_then(|measuring| measuring.run());
        if let Err(error) = disk.remove(SCRATCH) {
            eprintln!("{} stays behind: {error}", disk.path(SCRATCH));
        }
        let model = measured?;
        show(&model);
        model_file::store(&disk, &model)?;
        println!("stored in {}", disk.path(model_file::FILE_NAME));
        Ok(())
    }
}

struct Measuring<'a> {
    disk: &'a RealDisk,
    scratch: std::sync::Arc<dyn File>,
    scratch_bytes: u64,
    /// Duration of each load.
    time: Duration,
}

impl<'a> Measuring<'a> {
    fn new(disk: &'a RealDisk, options: &Iotune) -> Result<Self> {
        let scratch = disk.create_bulk(SCRATCH)?;
        let noise = Aligned::noise(1 << 20);
        for at in 0..options.scratch_mib {
            scratch.write_at(noise.bytes(), at << 20).with_context(|| {
                let mib = options.scratch_mib;
                format!("no room for {mib} MiB to measure with; free some or pass --scratch-mib")
            })?;
        }
        scratch.sync_data()?;
        let time = Duration::from_secs(options.seconds) / STEPS;
        Ok(Self { disk, scratch, scratch_bytes: options.scratch_mib << 20, time })
    }

    fn run(&self) -> Result<Model> {
        let (read, write) = (Direction::Read, Direction::Write);
        let load = |direction, bytes| Load { direction, bytes };
        let (read_median_nanos, read_p99_nanos) = self.latency()?;
        let alone = |direction, bytes| -> Result<Flow> {
            let flows = self.flows(&[load(direction, bytes)])?;
            Ok(flows[0])
        };
        let corners =
            [alone(read, SMALL)?, alone(read, LARGE)?, alone(write, SMALL)?, alone(write, LARGE)?];
        let mixes = [
            [load(read, SMALL), load(write, LARGE)],
            [load(read, MIDDLE), load(write, MIDDLE)],
            [load(read, LARGE), load(write, SMALL)],
        ];
        let mixed = mixes.iter().map(|mix| self.flows(mix)).collect::<Result<Vec<_>>>()?;
        corners.iter().for_each(|flow| println!("{}", line(flow)));
        for mix in &mixed {
            println!("{}", mix.iter().map(line).collect::<Vec<_>>().join(" beside "));
        }
        let model = Model::fit(&corners, &mixed).context(
            "larger requests were not slower than small ones: something else uses the disk",
        )?;
        Ok(Model { read_median_nanos, read_p99_nanos, ..model })
    }

    /// Reads one block after the other; returns the median and the 99th percentile in nanoseconds.
    fn latency(&self) -> Result<(u64, u64)> {
        let (mut rng, begun) = (SeededRng::new(2), Instant::now());
        let mut reader = BulkReader::open(self.disk, SCRATCH)?;
        let mut latencies = Vec::new();
        while begun.elapsed() < self.time {
            let before = Instant::now();
            reader.read(self.place(&mut rng, SMALL))?;
            latencies.push(before.elapsed());
        }
        latencies.sort_unstable();
        let at = |percent| {
            let latency: Duration = latencies[latencies.len() * percent / 100];
            u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX)
        };
        Ok((at(50), at(99)))
    }

    /// Puts loads on the disk concurrently; returns the flow that each achieved.
    fn flows(&self, loads: &[Load]) -> Result<Vec<Flow>> {
        let ended = AtomicBool::new(false);
        let counts: Vec<_> = loads.iter().map(|_| AtomicU64::new(0)).collect();
        let begun = Instant::now();
        thread::scope(|scope| -> Result<()> {
            let ended = &ended;
            let mut threads = Vec::new();
            for (load, count) in loads.iter().zip(&counts) {
                for seed in 0..THREADS {
                    threads.push(scope.spawn(move || self.requests(*load, seed, ended, count)));
                }
            }
            thread::sleep(self.time);
            ended.store(true, Ordering::Relaxed);
            threads.into_iter().try_for_each(|it| it.join().expect("it does not panic"))
        })?;
        let seconds = begun.elapsed().as_secs_f64();
        #[expect(clippy::cast_precision_loss, reason = "it is a figure for people")]
        let flow = |(load, count): (&Load, &AtomicU64)| Flow {
            direction: load.direction,
            bytes: load.bytes,
            per_second: count.load(Ordering::Relaxed) as f64 / seconds,
        };
        Ok(loads.iter().zip(&counts).map(flow).collect())
    }

    fn requests(&self, load: Load, seed: u64, ended: &AtomicBool, count: &AtomicU64) -> Result<()> {
        let mut rng = SeededRng::new(seed);
        let mut reader = BulkReader::open(self.disk, SCRATCH)?;
        let noise = Aligned::noise(load.bytes);
        while !ended.load(Ordering::Relaxed) {
            let place = self.place(&mut rng, load.bytes);
            match load.direction {
                Direction::Read => reader.read(place)?,
                Direction::Write => self.scratch.write_at(noise.bytes(), place.offset)?,
            }
            count.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Chooses a random place in the scratch file.
    fn place(&self, rng: &mut SeededRng, len: usize) -> Place {
        Place { offset: rng.below(self.scratch_bytes / len as u64) * len as u64, len }
    }
}

/// Memory for direct I/O: offsets, lengths and addresses are multiples of 4 KiB.
struct Aligned {
    memory: Vec<u8>,
    start: usize,
    len: usize,
}

impl Aligned {
    /// Returns random bytes. A device may store zeros without writing them.
    fn noise(len: usize) -> Self {
        let mut rng = SeededRng::new(1);
        let words = (len + SMALL) / 8;
        let memory: Vec<u8> = (0..words).flat_map(|_| rng.next_u64().to_le_bytes()).collect();
        let start = memory.as_ptr().align_offset(SMALL);
        Self { memory, start, len }
    }

    fn bytes(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.len]
    }
}

fn line(flow: &Flow) -> String {
    let Flow { direction, bytes, per_second } = flow;
    let name = match direction {
        Direction::Read => "reads",
        Direction::Write => "writes",
    };
    #[expect(clippy::cast_precision_loss, reason = "it is a figure for people")]
    let mega = *bytes as f64 * per_second / 1e6;
    format!("{per_second:.0} {name} of {} KiB a second, {mega:.0} MB/s", bytes >> 10)
}

fn show(model: &Model) {
    let Model { combine, residual_permille, read_median_nanos, read_p99_nanos, .. } = model;
    let cost = match combine {
        Combine::Max => "the larger of operation and bytes",
        Combine::Sum => "operation and bytes together",
    };
    println!(
        "reads: {} operations, {} bytes a second; one at a time {} µs, 99th percentile {} µs\n\
         writes: {} operations, {} bytes a second\n\
         a request costs {cost}; the mixed loads differ from that by up to {}.{} %",
        model.read_iops,
        model.read_bytes_per_second,
        read_median_nanos / 1000,
        read_p99_nanos / 1000,
        model.write_iops,
        model.write_bytes_per_second,
        residual_permille / 10,
        residual_permille % 10,
    );
}
