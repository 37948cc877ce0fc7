//! The tables of `system_views` with statistics of each table: Cassandra's tables by their names,
//! and `table_statistics` with all numbers of a table in one row.
//!
//! ```text
//! local_read_latency    point reads        count, p50th_ms, p99th_ms, max_ms, per_second
//! local_scan_latency    pages of ranges
//! local_write_latency   commits
//! rows_per_read         point reads, pages count, p50th, p99th, max
//! tombstones_per_read
//! disk_usage            files              mebibytes
//! ```
//!
//! Latencies and the numbers per read are a sample; `count` counts all operations. `per_second` is the mean
//! since the server's start, where Cassandra's decays over 15 minutes.

use std::time::Duration;

use carnet::table_statistics::{Distribution, TableStatistics};
use carnet::{DataType, Uuid};

use super::encode::{self, Cell};
use super::table::{Content, SystemColumn, SystemTable, VIEWS, clustering, partition, regular};
use super::table_figure::TableFigure;

/// Returns the tables, by name.
pub(super) fn tables() -> [SystemTable; 7] {
    use TableFigure::{
        All, DiskUsage, ReadLatency, RowsPerRead, ScanLatency, TombstonesPerRead, WriteLatency,
    };
    [
        table("disk_usage", "space of each table in files", DiskUsage),
        table("local_read_latency", "latencies of point reads of each table", ReadLatency),
        table("local_scan_latency", "latencies of pages of range reads", ScanLatency),
        table("local_write_latency", "latencies of commits to each table", WriteLatency),
        table("rows_per_read", "rows that a read of a table returned", RowsPerRead),
        table("table_statistics", "reads, writes and space of each table", All),
        table("tombstones_per_read", "tombstones that a read of a table met", TombstonesPerRead),
    ]
}

fn table(name: &'static str, comment: &'static str, shown: TableFigure) -> SystemTable {
    let regular_columns: Vec<SystemColumn> = match shown {
        TableFigure::DiskUsage => vec![regular("mebibytes", DataType::Bigint)],
        TableFigure::RowsPerRead | TableFigure::TombstonesPerRead => vec![
            regular("count", DataType::Bigint),
            regular("max", DataType::Double),
            regular("p50th", DataType::Double),
            regular("p99th", DataType::Double),
        ],
        TableFigure::ReadLatency | TableFigure::ScanLatency | TableFigure::WriteLatency => vec![
            regular("count", DataType::Bigint),
            regular("max_ms", DataType::Double),
            regular("p50th_ms", DataType::Double),
            regular("p99th_ms", DataType::Double),
            regular("per_second", DataType::Double),
        ],
        TableFigure::All => ALL.map(|(name, data_type)| regular(name, data_type)).into(),
    };
    let key = match shown {
        // One partition for each keyspace, so that a keyspace's tables are read at once.
        TableFigure::All => clustering("table_name", DataType::Text),
        _ => partition("table_name", DataType::Text),
    };
    let mut columns = vec![partition("keyspace_name", DataType::Text), key];
    columns.extend(regular_columns);
    let content = Content::TableStatistics(shown);
    SystemTable { keyspace: VIEWS, name, comment, uuid: Uuid::nil(), content, columns }
}

/// Columns of `table_statistics`, sorted.
const ALL: [(&str, DataType); 25] = [
    ("bytes_written", DataType::Bigint),
    ("cache_hit_rate", DataType::Double),
    ("cells_read", DataType::Bigint),
    ("cells_written", DataType::Bigint),
    ("disk_bytes", DataType::Bigint),
    ("disk_files", DataType::Bigint),
    ("disk_tombstones", DataType::Bigint),
    ("disk_versions", DataType::Bigint),
    ("is_index", DataType::Boolean),
    ("partitions_read", DataType::Bigint),
    ("read_p50_ms", DataType::Double),
    ("read_p99_ms", DataType::Double),
    ("reads", DataType::Bigint),
    ("reads_absent", DataType::Bigint),
    ("reads_on_disk", DataType::Bigint),
    ("scan_p50_ms", DataType::Double),
    ("scan_p99_ms", DataType::Double),
    ("scans", DataType::Bigint),
    ("scans_on_disk", DataType::Bigint),
    ("tombstones_read", DataType::Bigint),
    ("tombstones_written", DataType::Bigint),
    ("write_p50_ms", DataType::Double),
    ("write_p99_ms", DataType::Double),
    ("writes", DataType::Bigint),
    ("writes_of_ranges", DataType::Bigint),
];

/// Returns the rows of a system table from the statistics of all tables and the time of counting.
pub(super) fn rows(
    table: &SystemTable,
    shown: TableFigure,
    statistics: &[TableStatistics],
    counted_for: Duration,
) -> Vec<Vec<Cell>> {
    // Cassandra's tables show tables only.
    let is_shown = |of: &&TableStatistics| shown == TableFigure::All || !of.is_index;
    statistics.iter().filter(is_shown).map(|of| row(table, shown, of, counted_for)).collect()
}

fn row(
    table: &SystemTable,
    shown: TableFigure,
    of: &TableStatistics,
    counted_for: Duration,
) -> Vec<Cell> {
    let usage = &of.usage;
    let reads = usage.gets + usage.pages;
    let own: Vec<(&'static str, Cell)> = match shown {
        TableFigure::ReadLatency => latencies(usage.gets, &usage.get_nanos, counted_for),
        TableFigure::ScanLatency => latencies(usage.pages, &usage.page_nanos, counted_for),
        TableFigure::WriteLatency => latencies(usage.commits, &usage.commit_nanos, counted_for),
        TableFigure::RowsPerRead => counts(reads, &usage.rows_per_read),
        TableFigure::TombstonesPerRead => counts(reads, &usage.tombstones_per_read),
        TableFigure::DiskUsage => {
            vec![("mebibytes", encode::count(of.space.bytes.div_ceil(1 << 20)))]
        }
        TableFigure::All => all(of),
    };
    let key =
        [("keyspace_name", encode::text(&of.keyspace)), ("table_name", encode::text(&of.name))];
    table.row_of(key.into_iter().chain(own))
}

fn latencies(
    count: u64,
    sample: &Distribution,
    counted_for: Duration,
) -> Vec<(&'static str, Cell)> {
    let per_second = number(count) / counted_for.as_secs_f64().max(1.0);
    vec![
        ("count", encode::count(count)),
        ("max_ms", millis(sample.max())),
        ("p50th_ms", millis(sample.quantile(0.5))),
        ("p99th_ms", millis(sample.quantile(0.99))),
        ("per_second", encode::double(per_second)),
    ]
}

fn counts(count: u64, sample: &Distribution) -> Vec<(&'static str, Cell)> {
    vec![
        ("count", encode::count(count)),
        ("max", encode::double(number(sample.max()))),
        ("p50th", encode::double(number(sample.quantile(0.5)))),
        ("p99th", encode::double(number(sample.quantile(0.99)))),
    ]
}

fn all(of: &TableStatistics) -> Vec<(&'static str, Cell)> {
    let (usage, space) = (&of.usage, &of.space);
    let quantile = |sample: &Distribution, part| millis(sample.quantile(part));
    vec![
        ("bytes_written", encode::count(usage.bytes_written)),
        ("cache_hit_rate", encode::double(usage.hit_rate())),
        ("cells_read", encode::count(usage.cells_read())),
        ("cells_written", encode::count(usage.cells_written)),
        ("disk_bytes", encode::count(space.bytes)),
        ("disk_files", encode::count(space.files)),
        ("disk_tombstones", encode::count(space.tombstones)),
        ("disk_versions", encode::count(space.versions)),
        ("is_index", encode::boolean(of.is_index)),
        ("partitions_read", encode::count(usage.partitions_read())),
        ("read_p50_ms", quantile(&usage.get_nanos, 0.5)),
        ("read_p99_ms", quantile(&usage.get_nanos, 0.99)),
        ("reads", encode::count(usage.gets)),
        ("reads_absent", encode::count(usage.gets_absent)),
        ("reads_on_disk", encode::count(usage.gets_on_disk)),
        ("scan_p50_ms", quantile(&usage.page_nanos, 0.5)),
        ("scan_p99_ms", quantile(&usage.page_nanos, 0.99)),
        ("scans", encode::count(usage.pages)),
        ("scans_on_disk", encode::count(usage.pages_on_disk)),
        ("tombstones_read", encode::count(usage.tombstones_read())),
        ("tombstones_written", encode::count(usage.cells_deleted)),
        ("write_p50_ms", quantile(&usage.commit_nanos, 0.5)),
        ("write_p99_ms", quantile(&usage.commit_nanos, 0.99)),
        ("writes", encode::count(usage.commits)),
        ("writes_of_ranges", encode::count(usage.ranges_deleted)),
    ]
}

fn millis(nanos: u64) -> Cell {
    encode::double(number(nanos) / 1e6)
}

#[expect(clippy::cast_precision_loss, reason = "statistics are rounded")]
const fn number(count: u64) -> f64 {
    count as f64
}
