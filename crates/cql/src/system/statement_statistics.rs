//! The rows of `system_views.statement_statistics` and `system_views.conflicts`.

use std::sync::Arc;
use std::time::Duration;

use carnet::{DataType, Uuid, Value, WallTime};
use carnet_admission::diagnosis::Named;

use super::encode::{self, Cell};
use super::table::{Content, SystemTable, VIEWS, partition, regular};

/// Figures of the statements of a fingerprint.
#[derive(Clone, Debug)]
pub(crate) struct StatisticsRow {
    /// The fingerprint; `None` for all that have given way.
    pub(crate) fingerprint: Option<u64>,
    pub(crate) table: String,
    /// Text with `?` in place of values.
    pub(crate) statement: String,
    pub(crate) count: u64,
    pub(crate) errors: u64,
    pub(crate) conflicts: u64,
    pub(crate) rows_read: u64,
    pub(crate) rows_returned: u64,
    pub(crate) total: Duration,
    pub(crate) longest: Duration,
    /// Durations that 50 %, 95 % and 99 % of the statements do not exceed.
    pub(crate) quantiles: [Duration; 3],
}

/// A statement that lost a row to another transaction.
#[derive(Clone, Debug)]
pub(crate) struct ConflictRow {
    pub(crate) at: WallTime,
    pub(crate) client: Arc<str>,
    pub(crate) user: Option<Arc<str>>,
    pub(crate) named: Arc<Named>,
    /// Number of attempts that were lost.
    pub(crate) attempts: u64,
    /// Table of the row that was lost last, and its key if the reader may see it, if they are known.
    pub(crate) row: Option<(String, Option<String>)>,
    /// Whether the statement succeeded in a later attempt.
    pub(crate) has_succeeded: bool,
}

pub(super) fn statistics_table() -> SystemTable {
    SystemTable {
        keyspace: VIEWS,
        name: "statement_statistics",
        comment: "statements by fingerprint since the start, the largest total time first",
        uuid: Uuid::nil(),
        content: Content::Statistics,
        columns: vec![
            partition("rank", DataType::Int),
            regular("conflicts", DataType::Bigint),
            regular("count", DataType::Bigint),
            regular("errors", DataType::Bigint),
            regular("fingerprint", DataType::Text),
            regular("max_micros", DataType::Bigint),
            regular("mean_micros", DataType::Bigint),
            regular("p50_micros", DataType::Bigint),
            regular("p95_micros", DataType::Bigint),
            regular("p99_micros", DataType::Bigint),
            regular("rows_read", DataType::Bigint),
            regular("rows_returned", DataType::Bigint),
            regular("statement", DataType::Text),
            regular("table_name", DataType::Text),
            regular("total_seconds", DataType::Double),
        ],
    }
}

pub(super) fn conflicts_table() -> SystemTable {
    SystemTable {
        keyspace: VIEWS,
        name: "conflicts",
        comment: "the last statements that lost a row to another transaction, newest first",
        uuid: Uuid::nil(),
        content: Content::Conflicts,
        columns: vec![
            partition("number", DataType::Int),
            regular("at", DataType::Timestamp),
            regular("attempts", DataType::Bigint),
            regular("client", DataType::Text),
            regular("key", DataType::Text),
            regular("outcome", DataType::Text),
            regular("statement", DataType::Text),
            regular("table_name", DataType::Text),
            regular("user_name", DataType::Text),
        ],
    }
}

/// Returns a row for each fingerprint.
pub(super) fn statistics(table: &SystemTable, rows: &[StatisticsRow]) -> Vec<Vec<Cell>> {
    let row = |(rank, row): (i32, &StatisticsRow)| {
        let [p50, p95, p99] = row.quantiles;
        let mean = row.total.as_micros() / u128::from(row.count.max(1));
        let mean = u64::try_from(mean).unwrap_or(u64::MAX);
        let fingerprint = row.fingerprint.map(|id| format!("{id:016x}"));
        table.row([
            ("rank", encode::int(rank)),
            ("conflicts", encode::count(row.conflicts)),
            ("count", encode::count(row.count)),
            ("errors", encode::count(row.errors)),
            ("fingerprint", fingerprint.and_then(|id| encode::text(&id))),
            ("max_micros", encode::micros(row.longest)),
            ("mean_micros", encode::count(mean)),
            ("p50_micros", encode::micros(p50)),
            ("p95_micros", encode::micros(p95)),
            ("p99_micros", encode::micros(p99)),
            ("rows_read", encode::count(row.rows_read)),
            ("rows_returned", encode::count(row.rows_returned)),
            ("statement", encode::text(&row.statement)),
            (
                "table_name",
                Some(&row.table).filter(|t| !t.is_empty()).and_then(|t| encode::text(t)),
            ),
            ("total_seconds", encode::double(row.total.as_secs_f64())),
        ])
    };
    (1..).zip(rows).map(row).collect()
}

/// Returns a row for each conflict.
pub(super) fn conflicts(table: &SystemTable, rows: &[ConflictRow]) -> Vec<Vec<Cell>> {
    let row = |(number, row): (i32, &ConflictRow)| {
        let (of, key) = row
            .row
            .as_ref()
            .map_or((row.named.table(), None), |(of, key)| (of.as_str(), key.as_deref()));
        let outcome = if row.has_succeeded { "succeeded" } else { "failed" };
        table.row([
            ("number", encode::int(number)),
            ("at", Some(Value::Timestamp(row.at.millis()).serialize())),
            ("attempts", encode::count(row.attempts)),
            ("client", encode::text(&row.client)),
            ("key", key.and_then(encode::text)),
            ("outcome", encode::text(outcome)),
            ("statement", encode::text(row.named.statement())),
            ("table_name", Some(of).filter(|of| !of.is_empty()).and_then(encode::text)),
            ("user_name", row.user.as_deref().and_then(encode::text)),
        ])
    };
    (1..).zip(rows).map(row).collect()
}
