//! Metrics of each table on `/metrics`.
//!
//! The number of tables is bounded: the tables with the most operations are shown one by one, and
//! the rest as one table without a name, so that a monitor's memory does not grow with the schema.

use std::cmp::Reverse;
use std::fmt::Write as _;

use carnet::table_statistics::{Distribution, TableStatistics};

use crate::metrics::label_value as label;

type Figure = fn(&TableStatistics) -> u64;
type Latencies = fn(&TableStatistics) -> &Distribution;

/// Counters: name, help text and value.
const COUNTERS: [(&str, &str, Figure); 9] = [
    ("reads", "Point reads of the table.", |of| of.usage.gets),
    ("scans", "Pages of range reads of the table.", |of| of.usage.pages),
    ("reads_on_disk", "Point reads and pages that waited for the disk.", |of| {
        of.usage.gets_on_disk + of.usage.pages_on_disk
    }),
    ("cells_read", "Cells that reads returned.", |of| of.usage.cells_read()),
    ("partitions_read", "Partitions that reads found rows of, partly estimated.", |of| {
        of.usage.partitions_read()
    }),
    ("tombstones_read", "Tombstones that reads met.", |of| of.usage.tombstones_read()),
    ("writes", "Commits that wrote to the table.", |of| of.usage.commits),
    ("cells_written", "Cells that they wrote, tombstones included.", |of| of.usage.cells_written),
    ("bytes_written", "Bytes of keys and values of these cells.", |of| of.usage.bytes_written),
];

/// Kinds of operations with their latencies.
const LATENCIES: [(&str, Latencies); 3] = [
    ("read", |of| &of.usage.get_nanos),
    ("scan", |of| &of.usage.page_nanos),
    ("write", |of| &of.usage.commit_nanos),
];

/// Appends the metrics of the busiest tables, at most `tables_max`.
pub(crate) fn append(out: &mut String, mut all: Vec<TableStatistics>, tables_max: usize) {
    all.sort_by_key(|of| (Reverse(of.operations()), Reverse(of.space.bytes)));
    let rest = all.split_off(tables_max.min(all.len()));
    for (name, help, figure) in COUNTERS {
        let name = format!("carnet_table_{name}_total");
        let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} counter");
        each(out, &name, &all, &rest, figure);
    }
    let name = "carnet_table_disk_bytes";
    let _ = writeln!(out, "# HELP {name} Bytes of the table in files.\n# TYPE {name} gauge");
    each(out, name, &all, &rest, |of| of.space.bytes);
    let name = "carnet_table_latency_seconds";
    let _ = writeln!(
        out,
        "# HELP {name} Latencies of a table's operations since the start, a sample.\n\
         # TYPE {name} gauge"
    );
    for of in &all {
        for (operation, sample) in LATENCIES {
            for (part, text) in [(0.5, "0.5"), (0.99, "0.99"), (1.0, "1")] {
                let seconds = seconds(sample(of).quantile(part));
                let labels = labels(of);
                let _ = writeln!(
                    out,
                    "{name}{{{labels},operation=\"{operation}\",quantile=\"{text}\"}} {seconds}"
                );
            }
        }
    }
}

fn each(
    out: &mut String,
    name: &str,
    shown: &[TableStatistics],
    rest: &[TableStatistics],
    figure: Figure,
) {
    for of in shown {
        let _ = writeln!(out, "{name}{{{}}} {}", labels(of), figure(of));
    }
    if !rest.is_empty() {
        let sum: u64 = rest.iter().map(figure).sum();
        let _ = writeln!(out, "{name}{{keyspace=\"\",table=\"\"}} {sum}");
    }
}

fn labels(of: &TableStatistics) -> String {
    format!("keyspace=\"{}\",table=\"{}\"", label(&of.keyspace), label(&of.name))
}

#[expect(clippy::cast_precision_loss, reason = "figures of a monitor are floats")]
fn seconds(nanos: u64) -> f64 {
    nanos as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use carnet_base::TableId;

    use super::*;

    fn table(name: &str, gets: u64) -> TableStatistics {
        let usage = carnet::table_statistics::TableUse { gets, ..Default::default() };
        let (keyspace, name, id) = ("k\"s".to_owned(), name.to_owned(), TableId(1));
        let space = carnet::table_statistics::TableSpace { bytes: 7, ..Default::default() };
        TableStatistics { keyspace, name, id, is_index: false, usage, space }
    }

    #[test]
    fn busiest_tables_are_shown_and_others_summed() {
        let mut out = String::new();
        append(&mut out, vec![table("a", 1), table("b", 30), table("c", 4), table("d", 20)], 2);
        let reads: Vec<&str> =
            out.lines().filter(|line| line.starts_with("carnet_table_reads_total")).collect();
        assert_eq!(
            reads,
            [
                "carnet_table_reads_total{keyspace=\"k\\\"s\",table=\"b\"} 30",
                "carnet_table_reads_total{keyspace=\"k\\\"s\",table=\"d\"} 20",
                "carnet_table_reads_total{keyspace=\"\",table=\"\"} 5",
            ]
        );
        assert!(out.contains("carnet_table_disk_bytes{keyspace=\"\",table=\"\"} 14\n"));
        assert_eq!(out.matches("carnet_table_latency_seconds{").count(), 2 * 3 * 3);
    }
}
