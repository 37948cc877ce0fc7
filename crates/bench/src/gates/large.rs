//! One large transaction: its memory and time, and the latency of small transactions beside it.

use std::path::Path;
use std::time::Duration;

use carnet::{Db, Durability, Result, TransactionLimits};
use carnet_base::SeededRng;
use carnet_base::{Clock, SystemClock};
use clap::Args;

use super::noise;

/// Size of a value in bytes.
const VALUE_BYTES: usize = 1000;

/// Commit one transaction of many puts, in a random order of keys, beside small transactions.
#[derive(Args)]
pub(crate) struct Large {
    /// Total size of the values in MiB.
    #[arg(long, default_value_t = 1000)]
    mebibytes: u64,
}

impl Large {
    pub(crate) fn run(&self, dir: &Path) -> Result<()> {
        let limits = TransactionLimits { write_bytes: u64::MAX, ..TransactionLimits::default() };
        let builder = Db::builder().durability(Durability::Always).transaction_limits(limits);
        let db = builder.open(dir.join("data"))?;
        let (table, small) = (db.raw("large")?, db.raw("small")?);
        let cells = (self.mebibytes << 20) / VALUE_BYTES as u64;
        let before = resident_bytes();
        let begun = SystemClock.now();
        let tx = db.begin()?;
        for cell in 0..cells {
            let mut rng = SeededRng::new(cell);
            let value = noise(&mut rng, VALUE_BYTES);
            table.put(&tx, [noise(&mut rng, 8), cell.to_be_bytes().to_vec()].concat(), value)?;
        }
        let written = SystemClock.now();
        let memory = resident_bytes().saturating_sub(before);
        let committing = std::sync::atomic::AtomicBool::new(true);
        let waits = std::thread::scope(|scope| {
            let beside = scope.spawn(|| {
                let mut longest = Duration::ZERO;
                while committing.load(std::sync::atomic::Ordering::Relaxed) {
                    let before = SystemClock.now();
                    db.transact(|tx| small.put(tx, "k", "v"))?;
                    longest = longest.max(SystemClock.now().since(before));
                }
                Ok(longest)
            });
            let committed = tx.commit();
            committing.store(false, std::sync::atomic::Ordering::Relaxed);
            let longest: Result<Duration> = beside.join().expect("it does not panic");
            committed.and(longest)
        })?;
        let ended = SystemClock.now();
        println!(
            "{cells} puts, {} MiB: written in {:.1} s with {} MiB of memory, committed in {:.1} s \
             with {} MiB at most in all; the longest small commit beside it took {} ms",
            self.mebibytes,
            written.since(begun).as_secs_f64(),
            memory >> 20,
            ended.since(written).as_secs_f64(),
            peak_bytes() >> 20,
            waits.as_millis(),
        );
        Ok(())
    }
}

/// Reads a field of `/proc/self/status`; zero if it does not exist.
fn status(field: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(field));
    let kibibytes = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
    kibibytes.unwrap_or_default() << 10
}

fn resident_bytes() -> u64 {
    status("VmRSS")
}

fn peak_bytes() -> u64 {
    status("VmHWM")
}
