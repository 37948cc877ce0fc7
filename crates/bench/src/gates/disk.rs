//! Latency and throughput of file access; see docs/design/0014-io-scheduler.md#figures.
#![allow(clippy::disallowed_methods, reason = "a measurement reads the clock and starts threads")]
#![allow(clippy::cast_possible_truncation, reason = "only printed")]

use std::error::Error;
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use carnet_base::{Rng, SeededRng, ThreadSpawn, block_on};
use carnet_storage::disk::{Backend, BulkWriter, Disk, File, ReadFuture, RealDisk};
use clap::{Args, ValueEnum};

use super::{median, processor_time};

const PAGE: usize = 4096;
const ROUNDS: usize = 5;
const MIB: u64 = 1 << 20;

type Done<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

/// Measure file access. Every value is the median of five rounds in which the variants alternate.
/// The directory must be on the device to measure; about 5 GiB are written there.
#[derive(Args)]
pub(crate) struct DiskAccess {
    /// The parts to measure; all of them by default.
    #[arg(value_enum)]
    parts: Vec<Part>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Reads of one page, by each backend.
    Reads,
    /// Sequential reads of a file.
    Scans,
    /// Synced appends to a log.
    Appends,
    /// Writes of a large file, beside a log and reads.
    Bulk,
}

impl DiskAccess {
    pub(crate) fn run(&self, dir: &Path) -> carnet_base::Result<()> {
        let parts = if self.parts.is_empty() { Part::value_variants() } else { &self.parts };
        parts.iter().try_for_each(|part| part.run(dir)).map_err(|error| {
            carnet_base::Error::unavailable("cannot measure the disk").with_source(error)
        })
    }
}

impl Part {
    fn run(self, dir: &Path) -> Done {
        match self {
            Self::Reads => reads(dir),
            Self::Scans => scans(dir),
            Self::Appends => appends(dir),
            Self::Bulk => bulk(dir),
        }
    }
}

/// Latencies in microseconds, and statistics.
#[derive(Clone, Copy, Default)]
struct Times {
    /// CPU time of the process per operation.
    cpu: f64,
    count_per_second: f64,
    p50: f64,
    p99: f64,
}

impl Times {
    fn of(mut times: Vec<Duration>, elapsed: Duration, cpu: Duration) -> Self {
        times.sort_unstable();
        let at = |share: usize| match times.len() {
            0 => 0.0,
            len => times[(len - 1) * share / 100].as_secs_f64() * 1e6,
        };
        let count_per_second = times.len() as f64 / elapsed.as_secs_f64();
        let cpu = cpu.as_secs_f64() * 1e6 / times.len().max(1) as f64;
        Self { cpu, count_per_second, p50: at(50), p99: at(99) }
    }
}

fn medians(rounds: &[Times]) -> Times {
    let of = |figure: fn(&Times) -> f64| median(rounds.iter().map(figure).collect());
    Times {
        cpu: of(|times| times.cpu),
        count_per_second: of(|times| times.count_per_second),
        p50: of(|times| times.p50),
        p99: of(|times| times.p99),
    }
}

// ---- reads -------------------------------------------------------------------------------

/// How reads are issued.
#[derive(Clone, Copy)]
enum Shape {
    /// The file is in the page cache; reads are sequential.
    Cached,
    /// Nothing is cached; one thread keeps this number of reads in flight.
    Window(usize),
    /// Nothing is cached; this number of threads read one page at a time.
    Threads(usize),
}

fn reads(directory: &Path) -> Done {
    const BYTES: u64 = 4 << 30;
    let shapes = [
        ("cached", Shape::Cached),
        ("cold, 1", Shape::Window(1)),
        ("cold, 16 of one thread", Shape::Window(16)),
        ("cold, 64 of one thread", Shape::Window(64)),
        ("cold, 16 threads", Shape::Threads(16)),
        ("cold, 64 threads", Shape::Threads(64)),
    ];
    let backends = [Backend::Inline, Backend::Pool, Backend::Uring];
    fill(&RealDisk::open(directory)?, "reads", BYTES)?;
    println!(
        "{:<24} {:<8} {:>10} {:>9} {:>9} {:>9}",
        "4 KiB reads", "backend", "reads/s", "p50 us", "p99 us", "cpu us"
    );
    for (name, shape) in shapes {
        let mut rounds = [const { Vec::new() }; 3];
        for round in 0..ROUNDS {
            for (rounds, backend) in rounds.iter_mut().zip(backends) {
                let disk = RealDisk::open_with(directory, backend, Arc::new(ThreadSpawn))?;
                let file = disk.open("reads")?;
                rounds.push(read_round(&file, BYTES, shape, round as u64)?);
            }
        }
        for (rounds, backend) in rounds.iter().zip(backends) {
            let Times { cpu, count_per_second, p50, p99 } = medians(rounds);
            let backend = format!("{backend:?}");
            println!(
                "{name:<24} {backend:<8} {count_per_second:>10.0} {p50:>9.1} {p99:>9.1} {cpu:>9.1}"
            );
        }
    }
    Ok(())
}

fn fill(disk: &RealDisk, name: &str, bytes: u64) -> Done {
    let file = disk.create(name)?;
    let mut rng = SeededRng::new(1);
    let piece: Vec<u8> = (0..MIB / 8).flat_map(|_| rng.next_u64().to_le_bytes()).collect();
    for at in 0..bytes / MIB {
        file.write_at(&piece, at * MIB)?;
    }
    Ok(file.sync_data()?)
}

fn read_round(file: &Arc<dyn File>, bytes: u64, shape: Shape, seed: u64) -> Done<Times> {
    let time = Duration::from_millis(700);
    Ok(match shape {
        Shape::Cached => {
            let bytes = 256 * MIB;
            let mut piece = vec![0; MIB as usize];
            for at in 0..bytes / MIB {
                file.read_at(&mut piece, at * MIB)?;
            }
            read_window(file, bytes, 1, time, seed)?
        }
        Shape::Window(window) => {
            file.evict()?;
            read_window(file, bytes, window, time, seed)?
        }
        Shape::Threads(threads) => {
            file.evict()?;
            let (began, cpu_before) = (Instant::now(), processor_time());
            let times = thread::scope(|scope| {
                let one = |thread| {
                    let mut rng = SeededRng::new(seed * 1000 + thread);
                    move || {
                        let mut times = Vec::new();
                        while began.elapsed() < time {
                            let began = Instant::now();
                            let read = Arc::clone(file).read(page(&mut rng, bytes), PAGE);
                            block_on(read).expect("the file can be read");
                            times.push(began.elapsed());
                        }
                        times
                    }
                };
                let threads: Vec<_> =
                    (0..threads as u64).map(|thread| scope.spawn(one(thread))).collect();
                threads.into_iter().flat_map(|thread| thread.join().expect("it reads")).collect()
            });
            Times::of(times, began.elapsed(), processor_time().saturating_sub(cpu_before))
        }
    })
}

fn page(rng: &mut SeededRng, bytes: u64) -> u64 {
    rng.below(bytes / PAGE as u64) * PAGE as u64
}

/// Wakes the measuring thread.
struct Unpark(Thread, AtomicBool);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.1.store(true, Ordering::Release);
        self.0.unpark();
    }
}

/// Keeps `window` reads in flight on this thread.
fn read_window(
    file: &Arc<dyn File>,
    bytes: u64,
    window: usize,
    time: Duration,
    seed: u64,
) -> io::Result<Times> {
    let mut rng = SeededRng::new(seed);
    let woken = Arc::new(Unpark(thread::current(), AtomicBool::new(false)));
    let waker = Waker::from(Arc::clone(&woken));
    let mut context = Context::from_waker(&waker);
    let mut waiting: Vec<(Instant, ReadFuture)> = Vec::new();
    let mut times = Vec::new();
    let (began, cpu_before) = (Instant::now(), processor_time());
    while began.elapsed() < time || !waiting.is_empty() {
        while waiting.len() < window && began.elapsed() < time {
            waiting.push((Instant::now(), Arc::clone(file).read(page(&mut rng, bytes), PAGE)));
        }
        let before = times.len();
        let mut at = 0;
        while at < waiting.len() {
            match Pin::new(&mut waiting[at].1).poll(&mut context) {
                Poll::Pending => at += 1,
                Poll::Ready(read) => {
                    read?;
                    times.push(waiting.swap_remove(at).0.elapsed());
                }
            }
        }
        while !waiting.is_empty()
            && times.len() == before
            && !woken.1.swap(false, Ordering::Acquire)
        {
            thread::park();
        }
    }
    Ok(Times::of(times, began.elapsed(), processor_time().saturating_sub(cpu_before)))
}

// ---- scans -------------------------------------------------------------------------------

/// How a file is read sequentially.
#[derive(Clone, Copy)]
enum Scan {
    /// Blocking reads, one after the other.
    Plain,
    /// The same, after read-ahead advice.
    Advised(rustix::fs::Advice),
    /// With this number of reads in flight.
    Ahead(usize),
}

fn scans(directory: &Path) -> Done {
    const BYTES: u64 = 512 * MIB;
    let disk = RealDisk::open(directory)?;
    fill(&disk, "scans", BYTES)?;
    let ways = [
        ("plain", Scan::Plain),
        ("advised Sequential", Scan::Advised(rustix::fs::Advice::Sequential)),
        ("advised WillNeed", Scan::Advised(rustix::fs::Advice::WillNeed)),
        ("4 reads ahead", Scan::Ahead(4)),
        ("16 reads ahead", Scan::Ahead(16)),
    ];
    println!("{:<44} {:>7}", "512 MiB read cold, from end to end, in", "MiB/s");
    for (pieces, piece) in [("16 KiB pieces", 16 << 10), ("256 KiB pieces", 256 << 10)] {
        let mut rounds = [const { Vec::new() }; 5];
        for _ in 0..ROUNDS {
            for (rounds, (_, way)) in rounds.iter_mut().zip(ways) {
                rounds.push(scan(directory, &disk, way, piece, BYTES)?);
            }
        }
        for (rounds, (name, _)) in rounds.into_iter().zip(ways) {
            println!("{:<44} {:>7.0}", format!("{pieces}, {name}"), median(rounds));
        }
    }
    Ok(())
}

fn scan(directory: &Path, disk: &RealDisk, way: Scan, piece: usize, bytes: u64) -> Done<f64> {
    let file = disk.open("scans")?;
    file.evict()?;
    let began = Instant::now();
    if let Scan::Advised(advice) = way {
        let advised = std::fs::File::open(directory.join("scans"))?;
        rustix::fs::fadvise(&advised, 0, None, advice)?;
    }
    let offsets = (0..bytes).step_by(piece);
    if let Scan::Ahead(ahead) = way {
        let mut waiting = std::collections::VecDeque::new();
        for offset in offsets {
            waiting.push_back(Arc::clone(&file).read(offset, piece));
            if waiting.len() > ahead {
                block_on(waiting.pop_front().ok_or("just pushed")?)?;
            }
        }
        for read in waiting {
            block_on(read)?;
        }
    } else {
        let mut buffer = vec![0; piece];
        for offset in offsets {
            file.read_at(&mut buffer, offset)?;
        }
    }
    Ok((bytes / MIB) as f64 / began.elapsed().as_secs_f64())
}

// ---- appends -----------------------------------------------------------------------------

fn appends(directory: &Path) -> Done {
    const APPENDS: u64 = 2000;
    let disk = RealDisk::open(directory)?;
    let names = ["growing", "preallocated, zeros written", "recycled", "fallocate alone"];
    let mut rounds = [const { Vec::new() }; 4];
    for _ in 0..ROUNDS {
        for (way, rounds) in rounds.iter_mut().enumerate() {
            let file = match way {
                2 => disk.open("log-1")?,
                _ => disk.create(&format!("log-{way}"))?,
            };
            match way {
                1 => file.preallocate(APPENDS * PAGE as u64)?,
                3 => allocate_only(&directory.join("log-3"), APPENDS * PAGE as u64)?,
                _ => {}
            }
            file.sync_data()?;
            disk.sync_dir()?;
            let stop = AtomicBool::new(false);
            rounds.push(append(&*file, APPENDS, &stop)?);
        }
    }
    println!("{:<30} {:>9} {:>9}", "4 KiB append + sync_data", "p50 us", "p99 us");
    for (name, rounds) in names.iter().zip(&rounds) {
        let Times { p50, p99, .. } = medians(rounds);
        println!("{name:<30} {p50:>9.1} {p99:>9.1}");
    }
    Ok(())
}

fn allocate_only(path: &Path, len: u64) -> Done {
    let file = OpenOptions::new().write(true).open(path)?;
    Ok(rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, len)?)
}

fn append(file: &dyn File, appends_max: u64, stop: &AtomicBool) -> io::Result<Times> {
    let record = [7; PAGE];
    let mut times = Vec::new();
    let began = Instant::now();
    for at in 0..appends_max {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let began = Instant::now();
        file.write_at(&record, at * PAGE as u64)?;
        file.sync_data()?;
        times.push(began.elapsed());
    }
    Ok(Times::of(times, began.elapsed(), Duration::ZERO))
}

// ---- bulk writes -------------------------------------------------------------------------

/// How a large file is written.
#[derive(Clone, Copy)]
enum Way {
    /// Not at all, as a baseline.
    Idle,
    /// Buffered, with one sync at the end.
    Buffered,
    /// The same, and the pages are evicted after the sync.
    BufferedEvicted,
    /// With the engine's bulk writer.
    Bulk,
    /// With a sync after this number of bytes.
    SyncEvery(u64),
    /// Write-back starts after this number of bytes, and is awaited one step later; one sync at the
    /// end.
    RangeEvery(u64),
    /// Direct I/O from aligned memory, with one sync at the end.
    Direct,
}

fn bulk(directory: &Path) -> Done {
    let disk = RealDisk::open(directory)?;
    fill(&disk, "cached", 256 * MIB)?;
    println!(
        "{:<36} {:>7} {:>9} {:>9} {:>9} {:>9}",
        "256 MiB written in", "MiB/s", "log p50", "log p99", "read p50", "read p99"
    );
    for (pieces, piece) in [("256 KiB pieces", 256 << 10), ("1 MiB pieces", 1 << 20)] {
        let ways = [
            ("nothing", Way::Idle),
            ("buffered", Way::Buffered),
            ("buffered, evicted after", Way::BufferedEvicted),
            ("BulkWriter", Way::Bulk),
            ("sync every 1 MiB", Way::SyncEvery(MIB)),
            ("sync every 8 MiB", Way::SyncEvery(8 * MIB)),
            ("sync_file_range, 1 MiB", Way::RangeEvery(MIB)),
            ("sync_file_range, 8 MiB", Way::RangeEvery(8 * MIB)),
            ("O_DIRECT", Way::Direct),
        ];
        let mut rounds = [const { Vec::new() }; 9];
        for _ in 0..ROUNDS {
            for (rounds, (_, way)) in rounds.iter_mut().zip(ways) {
                rounds.push(beside(directory, &disk, way, piece)?);
            }
        }
        for (rounds, (name, _)) in rounds.iter().zip(ways) {
            let of = |at: usize| median(rounds.iter().map(|round: &[f64; 5]| round[at]).collect());
            let [speed, p50, p99, read50, read99] = [0, 1, 2, 3, 4].map(of);
            let name = format!("{pieces}, {name}");
            println!("{name:<42} {speed:>7.0} {p50:>9.0} {p99:>9.0} {read50:>9.1} {read99:>9.1}");
        }
    }
    Ok(())
}

/// Writes a large file, with concurrent appends to a log and cached reads.
fn beside(directory: &Path, disk: &RealDisk, way: Way, piece: usize) -> Done<[f64; 5]> {
    const LOG_APPENDS: u64 = 20_000;
    let log = disk.create("log")?;
    log.preallocate(LOG_APPENDS * PAGE as u64)?;
    log.sync_data()?;
    let cached = disk.open("cached")?;
    let stop = AtomicBool::new(false);
    let (speed, log, reads) = thread::scope(|scope| {
        let appends = scope.spawn(|| append(&*log, LOG_APPENDS, &stop));
        let reads = scope.spawn(|| {
            let mut rng = SeededRng::new(1);
            let mut times = Vec::new();
            let began = Instant::now();
            while !stop.load(Ordering::Relaxed) {
                thread::sleep(Duration::from_micros(100));
                let began = Instant::now();
                let read = Arc::clone(&cached).read(page(&mut rng, 256 * MIB), PAGE);
                block_on(read).expect("the file can be read");
                times.push(began.elapsed());
            }
            Times::of(times, began.elapsed(), Duration::ZERO)
        });
        let speed = write_bulk(directory, disk, way, piece, 256 * MIB);
        stop.store(true, Ordering::Relaxed);
        (speed, appends.join().expect("it appends"), reads.join().expect("it reads"))
    });
    let log = log?;
    Ok([speed?, log.p50, log.p99, reads.p50, reads.p99])
}

fn write_bulk(
    directory: &Path,
    disk: &RealDisk,
    way: Way,
    piece: usize,
    bytes: u64,
) -> io::Result<f64> {
    if matches!(way, Way::Idle) {
        thread::sleep(Duration::from_millis(500));
        return Ok(0.0);
    }
    if matches!(way, Way::Bulk) {
        let began = Instant::now();
        let mut writer = BulkWriter::create(disk, "bulk")?;
        let memory = vec![0x5a; piece];
        for _ in (0..bytes).step_by(piece) {
            writer.write(&memory)?;
        }
        writer.finish()?;
        let elapsed = began.elapsed();
        disk.remove("bulk")?;
        return Ok((bytes / MIB) as f64 / elapsed.as_secs_f64());
    }
    let direct = if matches!(way, Way::Direct) { rustix::fs::OFlags::DIRECT.bits() } else { 0 };
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .custom_flags(direct as i32)
        .open(directory.join("bulk"))?;
    let memory = vec![0x5a_u8; piece + PAGE];
    let aligned = memory.as_ptr().align_offset(PAGE);
    let memory = &memory[aligned..aligned + piece];
    let began = Instant::now();
    let mut unsynced = 0;
    for at in (0..bytes).step_by(piece) {
        file.write_all_at(memory, at)?;
        unsynced += piece as u64;
        match way {
            Way::SyncEvery(every) if unsynced >= every => {
                file.sync_data()?;
                unsynced = 0;
            }
            Way::RangeEvery(every) if unsynced >= every => {
                let from = at + piece as u64 - unsynced;
                if from >= every {
                    range::write_back(&file, from - every, every, true)?;
                }
                range::write_back(&file, from, unsynced, false)?;
                unsynced = 0;
            }
            _ => {}
        }
    }
    file.sync_data()?;
    let elapsed = began.elapsed();
    if matches!(way, Way::BufferedEvicted) {
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
    }
    drop(file);
    std::fs::remove_file(directory.join("bulk"))?;
    Ok((bytes / MIB) as f64 / elapsed.as_secs_f64())
}

#[expect(unsafe_code, reason = "the standard library has no sync_file_range to compare with")]
mod range {
    use std::ffi::{c_int, c_uint};
    use std::fs::File;
    use std::io;
    use std::os::fd::AsRawFd;

    unsafe extern "C" {
        fn sync_file_range(file: c_int, offset: i64, len: i64, flags: c_uint) -> c_int;
    }

    /// Starts write-back of a range, or waits for its end.
    pub(super) fn write_back(file: &File, offset: u64, len: u64, wait: bool) -> io::Result<()> {
        let flags = if wait { 7 } else { 2 };
        // SAFETY: the call refers to no memory, and the descriptor is open.
        let done = unsafe {
            sync_file_range(file.as_raw_fd(), offset.cast_signed(), len.cast_signed(), flags)
        };
        if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}
