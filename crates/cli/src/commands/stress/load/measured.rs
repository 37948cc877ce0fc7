//! Measurements of a load.

use std::time::Duration;

use carnet_base::Moment;
use hdrhistogram::Histogram;

use super::load_target::Done;

/// Measurements of a run. Times are in microseconds.
pub(super) struct Measured {
    /// Latencies from the due times, or in a closed loop from the beginnings.
    pub(super) latency: Histogram<u64>,
    /// Latencies from the beginnings.
    pub(super) service: Histogram<u64>,
    pub(super) rows: u64,
    pub(super) refused: u64,
    pub(super) failed: u64,
    pub(super) elapsed: Duration,
}

impl Measured {
    pub(super) fn new() -> Self {
        let histogram = || Histogram::new(3).expect("three digits are allowed");
        let (rows, refused, failed, elapsed) = (0, 0, 0, Duration::ZERO);
        Self { latency: histogram(), service: histogram(), rows, refused, failed, elapsed }
    }

    pub(super) fn record(&mut self, done: &Done, (due, begun, ended): (Moment, Moment, Moment)) {
        match done {
            Done::Refused => self.refused += 1,
            Done::Failed => self.failed += 1,
            Done::Rows(rows) => {
                self.rows += rows;
                for (histogram, from) in [(&mut self.latency, due), (&mut self.service, begun)] {
                    let micros = u64::try_from(ended.since(from).as_micros()).unwrap_or(u64::MAX);
                    histogram.record(micros).expect("it grows with what it records");
                }
            }
        }
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.latency.add(&other.latency).expect("it grows with what it records");
        self.service.add(&other.service).expect("it grows with what it records");
        self.rows += other.rows;
        self.refused += other.refused;
        self.failed += other.failed;
    }
}
