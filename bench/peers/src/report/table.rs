//! The table on a terminal.

use std::fmt::Write;

use super::{aborts, micros, thousands};
use crate::record::{Record, best_rocksdb};

/// Renders results of one configuration.
pub(crate) fn table(records: &[Record]) -> String {
    let Some(first) = records.first() else { return String::new() };
    let best = best_rocksdb(records);
    let names: Vec<String> = records.iter().map(Record::subject).collect();
    let width = names.iter().map(String::len).max().unwrap_or(0).max("engine".len());
    let mut text = String::new();
    let threads = if first.threads == 1 { "thread" } else { "threads" };
    let _ = writeln!(text, "{} · {} {threads}", first.title(), first.threads);
    let _ = writeln!(
        text,
        "  {:<width$} {:>9} {:>17} {:>9} {:>9} {:>9} {:>9} {:>9}",
        "engine",
        "k keys/s",
        "slowest–fastest",
        "p50 µs",
        "p99 µs",
        "CPU ns",
        "aborts",
        "× RocksDB"
    );
    for (record, name) in records.iter().zip(names) {
        let spread = format!(
            "{}–{}",
            thousands(record.keys_per_second_min),
            thousands(record.keys_per_second_max)
        );
        let ratio =
            best.map_or_else(String::new, |best| format!("{:.2}", record.keys_per_second / best));
        let _ = writeln!(
            text,
            "  {name:<width$} {:>9} {spread:>17} {:>9} {:>9} {:>9} {:>9} {ratio:>9}",
            thousands(record.keys_per_second),
            micros(record.p50_us),
            micros(record.p99_us),
            record.cpu_ns_per_key,
            aborts(record.aborts_per_key),
        );
    }
    text
}
