//! The rows of `system_views.row_waits` and `system_views.lost_rows`: who waits for whom at a row, and
//! which rows statements lost lately.

use carnet::{DataType, Uuid, Value, WallTime};

use super::encode::{self, Cell};
use super::queries::RunningRow;
use super::table::{Content, SystemTable, VIEWS, clustering, partition, regular};

/// A place in the queue of a row.
#[derive(Clone, Debug)]
pub(crate) struct RowWait {
    /// Number of the queue; the longest one is 1.
    pub(crate) queue: i32,
    /// Place in the queue; 1 has the turn.
    pub(crate) place: i32,
    /// Table of the row, and its key if the reader may see it.
    pub(crate) row: Option<(String, Option<String>)>,
    /// The statement; `None` for a transaction of the Rust API, and for a statement that has just ended.
    pub(crate) running: Option<RunningRow>,
}

/// A row that statements lost to others.
#[derive(Clone, Debug)]
pub(crate) struct HotRow {
    pub(crate) table: String,
    /// Key of the row, if the reader may see it.
    pub(crate) key: Option<String>,
    /// Number of attempts that were lost.
    pub(crate) attempts: u64,
    /// Number of statements that lost it.
    pub(crate) statements: u64,
    /// End of the last of these statements.
    pub(crate) last: WallTime,
}

pub(super) fn waits_table() -> SystemTable {
    SystemTable {
        keyspace: VIEWS,
        name: "row_waits",
        comment: "statements that take turns at a row, the longest queue first",
        uuid: Uuid::nil(),
        content: Content::RowWaits,
        columns: vec![
            partition("queue", DataType::Int),
            clustering("place", DataType::Int),
            regular("age_seconds", DataType::Double),
            regular("client", DataType::Text),
            regular("key", DataType::Text),
            regular("query_id", DataType::Bigint),
            regular("state", DataType::Text),
            regular("statement", DataType::Text),
            regular("table_name", DataType::Text),
            regular("user_name", DataType::Text),
        ],
    }
}

pub(super) fn lost_rows_table() -> SystemTable {
    SystemTable {
        keyspace: VIEWS,
        name: "lost_rows",
        comment: "rows that the last statements lost to other transactions, the most often lost first",
        uuid: Uuid::nil(),
        content: Content::LostRows,
        columns: vec![
            partition("rank", DataType::Int),
            regular("attempts", DataType::Bigint),
            regular("key", DataType::Text),
            regular("last", DataType::Timestamp),
            regular("statements", DataType::Bigint),
            regular("table_name", DataType::Text),
        ],
    }
}

/// Returns a row for each place.
pub(super) fn waits(table: &SystemTable, waits: &[RowWait]) -> Vec<Vec<Cell>> {
    let row = |wait: &RowWait| {
        let text = |text: Option<&str>| text.and_then(encode::text);
        let running = wait.running.as_ref();
        let statement =
            running.and_then(|running| running.named.as_ref()).map(|named| named.statement());
        let (of, key) =
            wait.row.as_ref().map_or((None, None), |(of, key)| (Some(of.as_str()), key.as_deref()));
        let age = running.and_then(|running| encode::double(running.age.as_secs_f64()));
        table.row([
            ("queue", encode::int(wait.queue)),
            ("place", encode::int(wait.place)),
            ("age_seconds", age),
            ("client", text(running.map(|running| &*running.client))),
            ("key", text(key)),
            ("query_id", running.and_then(|running| encode::count(running.id))),
            ("state", encode::text(if wait.place == 1 { "has the turn" } else { "waits" })),
            ("statement", text(statement)),
            ("table_name", text(of)),
            ("user_name", text(running.and_then(|running| running.user.as_deref()))),
        ])
    };
    waits.iter().map(row).collect()
}

/// Returns a row for each lost row.
pub(super) fn lost_rows(table: &SystemTable, rows: &[HotRow]) -> Vec<Vec<Cell>> {
    let row = |(rank, row): (i32, &HotRow)| {
        table.row([
            ("rank", encode::int(rank)),
            ("attempts", encode::count(row.attempts)),
            ("key", row.key.as_deref().and_then(encode::text)),
            ("last", Some(Value::Timestamp(row.last.millis()).serialize())),
            ("statements", encode::count(row.statements)),
            ("table_name", encode::text(&row.table)),
        ])
    };
    (1..).zip(rows).map(row).collect()
}
