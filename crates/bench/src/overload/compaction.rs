//! Point reads beside compactions, which a steady stream of writes causes.

use std::io;
use std::time::Duration;

use serde::Serialize;

use super::beside::{self, Beside};
use super::load::{Statement, pause};
use super::server::{Figures, Process};

/// Time after which compactions keep pace with the writes.
const WARM_UP: Duration = Duration::from_secs(4);
/// Interval of the reads of each of the two clients. Clients that read without a pause would take the processors
/// that the compaction needs.
const EVERY: Duration = Duration::from_millis(1);

/// Point reads and compaction, alone and beside each other.
#[derive(Serialize)]
pub(super) struct Compacted {
    pub(super) alone_p50_us: u64,
    pub(super) alone_p99_us: u64,
    pub(super) beside_p50_us: u64,
    pub(super) beside_p99_us: u64,
    pub(super) alone_mib_per_s: f64,
    pub(super) beside_mib_per_s: f64,
    /// Percentages of reads that took the server more than 250 µs, from its histogram.
    pub(super) alone_slow_percent: f64,
    pub(super) beside_slow_percent: f64,
}

/// Times point reads alone, then compactions alone, both, and compactions alone again.
pub(super) fn measure(
    server: &mut Process,
    point: &Statement,
    time: Duration,
) -> io::Result<Compacted> {
    let address = server.address;
    let reads = || {
        beside::measure(address, point, &Beside { every: Some(EVERY), time, ..Beside::nothing() })
    };
    let first = server.figures()?;
    let alone = reads()?;
    let second = server.figures()?;
    server.compact()?;
    pause(WARM_UP);
    let before = server.figures()?;
    pause(time);
    let between = server.figures()?;
    let beside = reads()?;
    let after = server.figures()?;
    pause(time);
    let end = server.figures()?;
    let speed = |bytes: f64| bytes / f64::from(1 << 20) / time.as_secs_f64();
    let compacted = |from: &Figures, to: &Figures| to.compacted_bytes - from.compacted_bytes;
    let slow = |from: &Figures, to: &Figures| {
        let executed = (to.executed - from.executed).max(1.0);
        100.0 * (to.executed_slowly - from.executed_slowly) / executed
    };
    Ok(Compacted {
        alone_slow_percent: slow(&first, &second),
        beside_slow_percent: slow(&between, &after),
        alone_p50_us: alone.p50_micros,
        alone_p99_us: alone.p99_micros,
        beside_p50_us: beside.p50_micros,
        beside_p99_us: beside.p99_micros,
        // Compactions grow while the tables do: alone is the mean of before and after the reads.
        alone_mib_per_s: speed(compacted(&before, &between) + compacted(&after, &end)) / 2.0,
        beside_mib_per_s: speed(compacted(&between, &after)),
    })
}
