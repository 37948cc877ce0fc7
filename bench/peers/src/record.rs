//! A result: one line of JSON, the input of the report.

use serde::{Deserialize, Serialize};

use crate::engine::{Direction, Durability, Shape};
use crate::measure::Sample;
use crate::workloads::read::Place;
use crate::workloads::transaction::{Access, Spread};

/// The figures of one engine in one configuration.
///
/// Throughput and latencies are those of the pass with the median throughput.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) engine: String,
    /// Name of the workload: `write`, `read`, `scan` or `transaction`.
    pub(crate) workload: String,
    pub(crate) threads: usize,
    pub(crate) durability: Durability,
    /// Keys written, rows read, or transactions committed, by all threads together.
    pub(crate) keys_per_second: f64,
    /// Median latency of a transaction of 8 puts, a read, a scan of 100 rows, or a committed
    /// transaction with its aborted attempts.
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    /// Throughput of the slowest pass.
    pub(crate) keys_per_second_min: f64,
    /// Throughput of the fastest pass.
    pub(crate) keys_per_second_max: f64,
    pub(crate) passes: usize,
    /// Number of keys in the median pass. A slow engine may not reach all within the time.
    pub(crate) keys: u64,
    pub(crate) shape: Shape,
    pub(crate) memtable_bytes: usize,
    pub(crate) cache_bytes: usize,
    #[serde(rename = "where", default, skip_serializing_if = "Option::is_none")]
    pub(crate) place: Option<Place>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) direction: Option<Direction>,
    /// Number of reads or scans per snapshot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) per_snapshot: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) access: Option<Access>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) spread: Option<Spread>,
    /// Processor time per key in nanoseconds, of all threads including the engine's own.
    #[serde(default)]
    pub(crate) cpu_ns_per_key: f64,
    /// Number of retries per committed transaction.
    #[serde(default)]
    pub(crate) aborts_per_key: f64,
}

impl Record {
    /// Sets the figures from the passes; `self` holds the configuration.
    pub(crate) fn with_figures(mut self, mut passes: Vec<Sample>) -> Self {
        passes.sort_by(|a, b| a.keys_per_second().total_cmp(&b.keys_per_second()));
        let (Some(slowest), Some(fastest)) = (passes.first(), passes.last()) else { return self };
        let median = &passes[(passes.len() - 1) / 2];
        self.keys_per_second = median.keys_per_second().round();
        self.keys_per_second_min = slowest.keys_per_second().round();
        self.keys_per_second_max = fastest.keys_per_second().round();
        self.p50_us = median.micros_at(0.5);
        self.p99_us = median.micros_at(0.99);
        self.keys = median.keys;
        self.cpu_ns_per_key = median.cpu_nanos_per_key().round();
        self.aborts_per_key = median.aborts as f64 / (median.keys as f64).max(1.0);
        self.passes = passes.len();
        self
    }

    /// Returns the common configuration of results that are compared, without the number of
    /// threads.
    pub(crate) fn title(&self) -> String {
        let memtable = bytes(self.memtable_bytes);
        if let (Some(access), Some(spread)) = (self.access, self.spread) {
            return format!("transaction · {} · {}", access_text(access), spread_text(spread));
        }
        match (self.place, self.direction) {
            (Some(place), _) => format!(
                "read · {} · {}",
                place_text(place),
                snapshot_text(self.per_snapshot.unwrap_or(1), "read")
            ),
            (None, Some(direction)) => format!(
                "scan of 100 rows · {} · {}",
                match direction {
                    Direction::Forward => "forward",
                    Direction::Reversed => "reversed",
                },
                snapshot_text(self.per_snapshot.unwrap_or(1), "scan")
            ),
            (None, None) => format!(
                "write · {} · memtable {memtable}",
                match self.durability {
                    Durability::None => "log without fsync",
                    Durability::Always => "fsync before each acknowledgement",
                }
            ),
        }
    }

    /// Returns the engine's name, with the shape if it has two.
    pub(crate) fn subject(&self) -> String {
        match self.shape {
            Shape::Hashed => format!("{} (hashed)", self.engine),
            Shape::Raw => format!("{} (raw)", self.engine),
            Shape::Ordered => self.engine.clone(),
        }
    }

    /// Returns `true` for RocksDB's settings.
    pub(crate) fn is_rocksdb(&self) -> bool {
        self.engine.starts_with("rocksdb")
    }
}

const fn place_text(place: Place) -> &'static str {
    match place {
        Place::Memtable => "in the memtable",
        Place::Cache => "in cache",
        Place::Disk => "on disk",
        Place::Miss => "a key that is not there",
    }
}

const fn access_text(access: Access) -> &'static str {
    match access {
        Access::Update => "reads a row and puts it",
        Access::Pair => "reads a row and puts another",
        Access::Read => "reads a row",
    }
}

const fn spread_text(spread: Spread) -> &'static str {
    match spread {
        Spread::Uniform => "of all rows",
        Spread::Hot => "of a hundred rows",
    }
}

fn snapshot_text(count: usize, what: &str) -> String {
    if count == 1 {
        format!("each {what} by itself")
    } else {
        format!("{count} {what}s a snapshot")
    }
}

/// Formats a number of bytes in the largest unit that divides it.
pub(crate) fn bytes(count: usize) -> String {
    let units = [("GiB", 30), ("MiB", 20), ("KiB", 10)];
    let unit = units.into_iter().find(|(_, shift)| count > 0 && count.is_multiple_of(1 << shift));
    unit.map_or_else(|| format!("{count} B"), |(unit, shift)| format!("{} {unit}", count >> shift))
}

/// Returns the throughput of the fastest RocksDB setting among results of one configuration.
pub(crate) fn best_rocksdb<'a>(records: impl IntoIterator<Item = &'a Record>) -> Option<f64> {
    let rates = records.into_iter().filter(|record| record.is_rocksdb());
    rates.map(|record| record.keys_per_second).max_by(f64::total_cmp)
}

#[cfg(test)]
pub(crate) mod tests {
    use std::time::Duration;

    use hdrhistogram::Histogram;

    use super::*;

    /// Makes a result without figures.
    pub(crate) fn blank(engine: &str, threads: usize) -> Record {
        Record {
            engine: engine.to_owned(),
            workload: "write".to_owned(),
            threads,
            durability: Durability::None,
            keys_per_second: 0.0,
            p50_us: 0.0,
            p99_us: 0.0,
            keys_per_second_min: 0.0,
            keys_per_second_max: 0.0,
            passes: 0,
            keys: 0,
            shape: Shape::Ordered,
            memtable_bytes: 1 << 30,
            cache_bytes: 0,
            place: None,
            direction: None,
            per_snapshot: None,
            access: None,
            spread: None,
            cpu_ns_per_key: 0.0,
            aborts_per_key: 0.0,
        }
    }

    fn sample(keys: u64) -> Sample {
        let mut latency = Histogram::new(3).unwrap();
        latency.record(keys * 1000).unwrap();
        let cpu = Duration::from_micros(keys);
        Sample { keys, elapsed: Duration::from_secs(1), latency, cpu, aborts: keys / 10 }
    }

    #[test]
    fn median_pass_is_reported_with_spread() {
        let passes = [50, 10, 30, 20, 40].map(sample).to_vec();
        let record = blank("rocksdb", 1).with_figures(passes);
        let rates =
            (record.keys_per_second_min, record.keys_per_second, record.keys_per_second_max);
        assert_eq!(rates, (10.0, 30.0, 50.0));
        assert_eq!((record.keys, record.passes), (30, 5));
        assert_eq!((record.cpu_ns_per_key, record.aborts_per_key), (1000.0, 0.1));
        assert!((29.9..30.1).contains(&record.p50_us));
    }

    #[test]
    fn record_round_trips_with_all_fields() {
        let record = blank("carnet", 8).with_figures(vec![sample(7)]);
        let text = serde_json::to_string(&record).unwrap();
        for field in ["engine", "workload", "threads", "durability", "keys_per_second", "p50_us"] {
            assert!(text.contains(&format!("\"{field}\":")), "{text}");
        }
        let read: Record = serde_json::from_str(&text).unwrap();
        assert_eq!((read.engine, read.durability), ("carnet".to_owned(), Durability::None));
    }
}
