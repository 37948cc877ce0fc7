//! The rows of `system_views.queries`: Cassandra's columns, and others.

use std::sync::Arc;
use std::time::Duration;

use carnet::{DataType, Uuid};
use carnet_admission::diagnosis::Named;

use super::encode::{self, Cell};
use super::table::{Content, SystemTable, VIEWS, partition, regular};

/// A statement that runs or waits.
#[derive(Clone, Debug)]
pub(crate) struct RunningRow {
    pub(crate) id: u64,
    /// Name of the client.
    pub(crate) client: Arc<str>,
    pub(crate) user: Option<Arc<str>>,
    /// Table and text without values.
    pub(crate) named: Option<Arc<Named>>,
    pub(crate) class: Option<&'static str>,
    pub(crate) level: Option<Arc<str>>,
    pub(crate) state: &'static str,
    /// Time since the statement reached the server.
    pub(crate) age: Duration,
    /// Part of the age before the admission.
    pub(crate) queued: Duration,
    /// Sum of its waits so far.
    pub(crate) waited: Duration,
    /// Reason of most of its waiting.
    pub(crate) waits_for: Option<&'static str>,
    pub(crate) rows_read: u64,
    pub(crate) bytes_read: u64,
    /// Number of attempts that were lost to other transactions.
    pub(crate) conflicts: u64,
    /// Table and key of the row that was lost last.
    pub(crate) lost_row: Option<String>,
    /// Number of its transaction in the queues of rows.
    pub(crate) ticket: Option<u64>,
}

pub(super) fn queries_table() -> SystemTable {
    SystemTable {
        keyspace: VIEWS,
        name: "queries",
        comment: "statements that run or wait, oldest first",
        uuid: Uuid::nil(),
        content: Content::Queries,
        columns: vec![
            partition("id", DataType::Bigint),
            regular("age_seconds", DataType::Double),
            regular("bytes_read", DataType::Bigint),
            regular("class", DataType::Text),
            regular("client", DataType::Text),
            regular("conflicts", DataType::Bigint),
            regular("level", DataType::Text),
            regular("lost_row", DataType::Text),
            regular("queued_micros", DataType::Bigint),
            regular("rows_read", DataType::Bigint),
            regular("running_micros", DataType::Bigint),
            regular("state", DataType::Text),
            regular("statement", DataType::Text),
            regular("table_name", DataType::Text),
            regular("task", DataType::Text),
            regular("thread_id", DataType::Text),
            regular("user_name", DataType::Text),
            regular("waited_seconds", DataType::Double),
            regular("waits_for", DataType::Text),
        ],
    }
}

/// Returns a row for each statement.
pub(super) fn rows(table: &SystemTable, running: &[RunningRow]) -> Vec<Vec<Cell>> {
    running.iter().map(|running| row(table, running)).collect()
}

fn row(table: &SystemTable, running: &RunningRow) -> Vec<Cell> {
    let optional = |text: Option<&str>| text.and_then(encode::text);
    let statement = running.named.as_ref().map(|named| named.statement());
    let table_name = running.named.as_ref().map(|named| named.table());
    table.row([
        ("id", encode::count(running.id)),
        ("age_seconds", encode::double(running.age.as_secs_f64())),
        ("bytes_read", encode::count(running.bytes_read)),
        ("class", optional(running.class)),
        ("client", encode::text(&running.client)),
        ("conflicts", encode::count(running.conflicts)),
        ("level", optional(running.level.as_deref())),
        ("lost_row", optional(running.lost_row.as_deref())),
        ("queued_micros", encode::micros(running.queued)),
        ("rows_read", encode::count(running.rows_read)),
        ("running_micros", encode::micros(running.age.saturating_sub(running.queued))),
        ("state", encode::text(running.state)),
        ("statement", optional(statement)),
        ("table_name", optional(table_name.filter(|name| !name.is_empty()))),
        ("task", optional(statement)),
        ("thread_id", encode::text(&running.id.to_string())),
        ("user_name", optional(running.user.as_deref())),
        ("waited_seconds", encode::double(running.waited.as_secs_f64())),
        ("waits_for", optional(running.waits_for)),
    ])
}
