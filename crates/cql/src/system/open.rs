//! The rows of `system_views.transactions`.

use std::sync::Arc;
use std::time::Duration;

use carnet::{Holder, Timestamp, Uuid, Value, WallTime};

use super::encode::{self, Cell};
use super::table::{SystemColumn, SystemTable};
use super::tables::tables;
use crate::result::{ColumnSpec, Rows};

/// An open transaction: one that stays open between statements, or that of a running statement.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenTransaction {
    /// Id of a transaction that stays open between statements.
    pub id: Option<Uuid>,
    /// Client that runs it.
    pub client: Option<Arc<str>>,
    /// Last statement without its values, or the kind of the statement.
    pub statement: Option<Arc<str>>,
    /// Isolation level of a transaction that stays open between statements.
    pub isolation: Option<String>,
    /// Time of its begin.
    pub since: WallTime,
    /// Time since its begin.
    pub age: Duration,
    /// Time since the last statement of a transaction that stays open; zero while one is running.
    pub idle: Option<Duration>,
    /// Timestamp of its snapshot.
    pub read: Timestamp,
    /// Start timestamp, if the transaction may write.
    pub start: Option<Timestamp>,
}

impl OpenTransaction {
    /// Describes the transaction of a running statement at the time `now`.
    pub(crate) fn of_holder(holder: Holder, now: WallTime) -> Self {
        let Holder { read, start, since, label } = holder;
        let age = u64::try_from(now.0.saturating_sub(since.0)).unwrap_or_default();
        Self {
            id: None,
            client: label.as_ref().map(|label| Arc::clone(&label.who)),
            statement: label.as_ref().map(|label| label.what.into()),
            isolation: None,
            since,
            age: Duration::from_micros(age),
            idle: None,
            read,
            start,
        }
    }
}

/// Returns the open transactions of a server as an answer to another server.
pub(crate) fn open_transactions(open: &[OpenTransaction]) -> Rows {
    let table = table();
    let column = |column: &SystemColumn| ColumnSpec {
        keyspace: table.keyspace.to_owned(),
        table: table.name.to_owned(),
        name: column.name.to_owned(),
        data_type: column.data_type.clone(),
    };
    let columns: Vec<ColumnSpec> = table.columns.iter().map(column).collect();
    let rows = open.iter().map(|open| row(table, open)).collect();
    Rows { columns: columns.into(), rows, paging_state: None }
}

/// Returns the rows in an answer of another server, whose version may have other columns.
pub(crate) fn rows_of_open_transactions(answer: &Rows) -> Vec<Vec<Cell>> {
    let is_same = |column: &SystemColumn, other: &ColumnSpec| {
        other.name == column.name && other.data_type == column.data_type
    };
    let place =
        |column: &SystemColumn| answer.columns.iter().position(|other| is_same(column, other));
    let places: Vec<Option<usize>> = table().columns.iter().map(place).collect();
    let row = |row: Vec<Cell>| places.iter().map(|place| row.get((*place)?)?.clone()).collect();
    answer.rows.to_vec().into_iter().map(row).collect()
}

fn table() -> &'static SystemTable {
    let found = tables().iter().find(|table| table.lists_open_transactions());
    found.expect("the table is among the system tables")
}

/// Returns the rows of open transactions of this server and of others, the oldest snapshot first.
pub(super) fn rows(
    table: &SystemTable,
    open: &[OpenTransaction],
    elsewhere: &[Vec<Cell>],
) -> Vec<Vec<Cell>> {
    let here = open.iter().map(|open| row(table, open));
    let mut rows: Vec<Vec<Cell>> = here.chain(elsewhere.iter().cloned()).collect();
    let place = |name| table.column(name).map_or(0, |(place, _)| place);
    let [number, read, start] = ["number", "read_timestamp", "start_timestamp"].map(place);
    // Timestamps are positive, so that their bytes are in the order of the numbers.
    rows.sort_by(|a, b| (&a[read], &a[start]).cmp(&(&b[read], &b[start])));
    (1..).zip(&mut rows).for_each(|(count, row)| row[number] = encode::int(count));
    rows
}

/// Returns the row of a transaction, without its number.
fn row(table: &SystemTable, open: &OpenTransaction) -> Vec<Cell> {
    let bigint = |at: Timestamp| encode::bigint(at.get().cast_signed());
    table.row([
        ("age_seconds", encode::double(open.age.as_secs_f64())),
        ("client", open.client.as_deref().and_then(encode::text)),
        ("id", open.id.map(|id| Value::Uuid(id).serialize())),
        ("idle_seconds", open.idle.and_then(|idle| encode::double(idle.as_secs_f64()))),
        ("isolation", open.isolation.as_deref().and_then(encode::text)),
        ("read_timestamp", bigint(open.read)),
        ("since", Some(Value::Timestamp(open.since.millis()).serialize())),
        ("start_timestamp", open.start.and_then(bigint)),
        ("statement", open.statement.as_deref().and_then(encode::text)),
    ])
}
