//! Scans of a hundred rows from random positions, in both directions, in cache.

use std::time::Duration;

use anyhow::{Result, ensure};

use crate::data::{Places, Rows};
use crate::engine::{Direction, Store};
use crate::measure::{self, Sample};

/// Number of rows per scan. A scan that begins near the end of the key space returns fewer.
pub(crate) const ROWS: usize = 100;

/// Settings of a sample.
pub(crate) struct Request {
    pub(crate) rows: Rows,
    pub(crate) count: u64,
    pub(crate) threads: usize,
    pub(crate) direction: Direction,
    /// Number of scans per snapshot.
    pub(crate) per_snapshot: usize,
    pub(crate) time: Duration,
    pub(crate) seed: u64,
}

/// Takes a sample. An operation is a scan; keys are the returned rows.
pub(crate) fn sample(store: &dyn Store, request: &Request) -> Result<Sample> {
    let (sample, seen) =
        measure::run(store, request.threads, request.time, |thread, session, meter| {
            let mut places = Places::new(request.seed ^ ((thread as u64 + 1) << 32));
            let mut goes_on = true;
            while goes_on {
                session.snapshot(&mut |snapshot| {
                    for _ in 0..request.per_snapshot {
                        let from = request.rows.key(places.below(request.count));
                        let before = meter.seen.rows;
                        snapshot.scan(&from, request.direction, ROWS, &mut meter.seen)?;
                        goes_on = meter.done(meter.seen.rows - before);
                        if !goes_on {
                            break;
                        }
                    }
                    Ok(())
                })?;
            }
            Ok(())
        })?;
    let scans = sample.latency.len();
    // Only scans that begin among the last hundred rows are shorter.
    ensure!(
        seen.rows >= scans * (ROWS as u64) / 2,
        "{scans} scans returned only {} rows",
        seen.rows
    );
    Ok(sample)
}
