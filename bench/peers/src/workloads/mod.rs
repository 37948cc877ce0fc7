//! Workloads. Each one prepares a database and takes samples.

pub(crate) mod read;
pub(crate) mod scan;
pub(crate) mod transaction;
pub(crate) mod write;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Result, ensure};

use crate::data::{Row, Rows};
use crate::engine::Store;
use crate::measure;

/// Number of rows per transaction while filling a database for reads.
const LOAD_BATCH: u64 = 1000;
/// Number of threads that fill and warm a database: the number of cores of the benchmark machine.
const LOAD_THREADS: usize = 2;
/// Time limit of filling, which is not measured.
const UNBOUNDED: Duration = Duration::from_secs(24 * 3600);

/// Numbers assigned to threads in pieces, so that all threads work until the last piece.
struct Claims {
    next: AtomicU64,
    end: u64,
    piece: u64,
}

impl Claims {
    const fn new(end: u64, piece: u64) -> Self {
        Self { next: AtomicU64::new(0), end, piece }
    }

    fn claim(&self) -> Option<std::ops::Range<u64>> {
        let first = self.next.fetch_add(self.piece, Ordering::Relaxed);
        (first < self.end).then(|| first..(first + self.piece).min(self.end))
    }
}

/// Writes rows 0 to `count` to an empty database.
pub(crate) fn load(store: &dyn Store, rows: Rows, count: u64) -> Result<()> {
    let claims = Claims::new(count, LOAD_BATCH);
    measure::run(store, LOAD_THREADS, UNBOUNDED, |_, session, _| {
        while let Some(numbers) = claims.claim() {
            let batch: Vec<Row> = numbers.map(|number| rows.row(number)).collect();
            session.write(&batch)?;
        }
        Ok(())
    })?;
    Ok(())
}

/// Reads every row once, to fill the caches.
pub(crate) fn warm(store: &dyn Store, rows: Rows, count: u64) -> Result<()> {
    let claims = Claims::new(count, LOAD_BATCH);
    let (_, seen) = measure::run(store, LOAD_THREADS, UNBOUNDED, |_, session, meter| {
        while let Some(numbers) = claims.claim() {
            session.snapshot(&mut |snapshot| {
                for number in numbers.clone() {
                    snapshot.get(&rows.key(number), &mut meter.seen)?;
                }
                Ok(())
            })?;
        }
        Ok(())
    })?;
    ensure!(seen.absent == 0, "{} of {count} loaded rows are not there", seen.absent);
    Ok(())
}
