//! Markdown tables: throughput and its ratio to the best RocksDB setting, then latencies.

use std::fmt::Write;

use super::{Group, aborts, micros, thousands};
use crate::engine::Durability;
use crate::record::{Record, best_rocksdb};
use crate::workloads::read::Place;

/// Renders all groups.
pub(super) fn render(groups: &[Group]) -> String {
    let mut text = String::new();
    for group in groups {
        let passes = group.records.iter().map(|record| record.passes).min().unwrap_or(0);
        let _ = writeln!(text, "### {}\n", group.title);
        let _ = writeln!(
            text,
            "Thousands of keys a second, median of {passes} passes · times the fastest RocksDB at \
             that number of threads.\n"
        );
        grid(&mut text, group, |record| {
            let rate = format!("**{}**", thousands(record.keys_per_second));
            let best = best_rocksdb(group.at(record.threads));
            best.map_or_else(
                || rate.clone(),
                |best| format!("{rate} · {:.1}×", record.keys_per_second / best),
            )
        });
        let _ = writeln!(text, "\nMicroseconds of an operation, median / 99th percentile.\n");
        grid(&mut text, group, |record| {
            format!("{} / {}", micros(record.p50_us), micros(record.p99_us))
        });
        if group.records.iter().any(|record| record.access.is_some()) {
            text.push_str(
                "\nNanoseconds of processor for each transaction · aborted ones for each that \
                 committed.\n\n",
            );
            grid(&mut text, group, |record| match aborts(record.aborts_per_key) {
                none if none.is_empty() => format!("{}", record.cpu_ns_per_key),
                share => format!("{} · {share}", record.cpu_ns_per_key),
            });
        }
        if let Some(note) = note(group) {
            let _ = writeln!(text, "\n{note}");
        }
        text.push('\n');
    }
    text
}

/// Returns a note that explains a group's figures.
fn note(group: &Group) -> Option<&'static str> {
    let has = |engine| group.records.iter().any(|record| record.engine == engine);
    let first = group.records.first()?;
    if first.workload == "write" && first.durability == Durability::None {
        (has("redb") || has("lmdb")).then_some(
            "redb and LMDB have no log: without fsync a commit of theirs is in memory only, and \
             the end of the process loses redb's.",
        )
    } else if first.place == Some(Place::Memtable) {
        (has("redb") || has("lmdb"))
            .then_some("redb and LMDB have no memtable: their rows are in their page caches.")
    } else {
        None
    }
}

fn grid(text: &mut String, group: &Group, cell: impl Fn(&Record) -> String) {
    text.push_str("| engine |");
    for threads in &group.threads {
        let _ = write!(text, " {threads} {} |", if *threads == 1 { "thread" } else { "threads" });
    }
    text.push_str("\n| --- |");
    text.push_str(&" --- |".repeat(group.threads.len()));
    text.push('\n');
    for subject in &group.subjects {
        let _ = write!(text, "| {subject} |");
        for &threads in &group.threads {
            let cell = group.get(subject, threads).map_or_else(|| "–".to_owned(), &cell);
            let _ = write!(text, " {cell} |");
        }
        text.push('\n');
    }
}
