//! The rows of `system_views.transactions`.

use std::sync::Arc;
use std::time::Duration;

use carnet::{Holder, Timestamp, Uuid, Value, WallTime};

use super::encode::{self, Cell};
use super::tables::SystemTable;

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

/// Returns the rows of open transactions, the oldest snapshot first.
pub(super) fn rows(table: &SystemTable, mut open: Vec<OpenTransaction>) -> Vec<Vec<Cell>> {
    open.sort_by_key(|open| (open.read, open.start));
    (1..).zip(&open).map(|(number, open)| row(table, number, open)).collect()
}

fn row(table: &SystemTable, number: i32, open: &OpenTransaction) -> Vec<Cell> {
    let bigint = |at: Timestamp| encode::bigint(at.get().cast_signed());
    table.row([
        ("number", encode::int(number)),
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
