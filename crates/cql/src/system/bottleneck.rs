//! The rows of `system_views.bottleneck` and `SHOW BOTTLENECK`.

use carnet_admission::diagnosis::{Cause, Report, Why};

use super::encode::{self, Cell};
use super::table::SystemTable;
use super::tables::find;
use crate::result::{ColumnSpec, Rows};

/// Columns of `SHOW BOTTLENECK`, in its order.
const SHOWN: [&str; 10] = [
    "rank",
    "why",
    "level",
    "waited_seconds",
    "share",
    "waits",
    "table_name",
    "statement",
    "user_name",
    "explanation",
];

fn table() -> &'static SystemTable {
    find("system_views", "bottleneck").expect("it is one of the system's tables")
}

/// Returns the columns of `SHOW BOTTLENECK`.
pub(crate) fn bottleneck_columns() -> Vec<ColumnSpec> {
    let (table, column) = (table(), |name: &str| table().column(name).expect("it has the column"));
    SHOWN.iter().map(|name| table.spec(column(name).1)).collect()
}

/// Returns the result of `SHOW BOTTLENECK`.
pub(crate) fn show_bottleneck(report: &Report) -> Rows {
    let table = table();
    let places = SHOWN.map(|name| table.column(name).expect("it has the column").0);
    let shown = |row: Vec<Cell>| places.iter().map(|place| row[*place].clone()).collect();
    let rows = rows(table, report).into_iter().map(shown).collect();
    Rows { columns: bottleneck_columns().into(), rows, paging_state: None }
}

/// Returns the verdict with the sums, at rank 0, and the causes, the largest at rank 1.
pub(super) fn rows(table: &SystemTable, report: &Report) -> Vec<Vec<Cell>> {
    let causes = (1..).zip(&report.causes).map(|(rank, one)| cause(table, rank, one));
    [verdict(table, report)].into_iter().chain(causes).collect()
}

fn verdict(table: &SystemTable, report: &Report) -> Vec<Cell> {
    let largest = report.bottleneck();
    let waits = report.causes.iter().map(|cause| cause.waits).sum();
    let share = largest.map_or(0.0, |cause| {
        report.waited_for(cause.why).as_secs_f64() / report.waited.as_secs_f64()
    });
    table.row([
        ("rank", encode::int(0)),
        ("explanation", encode::text(&report.verdict())),
        ("level", largest.and_then(|cause| encode::text(&cause.level))),
        ("share", encode::double(share)),
        ("waited_seconds", encode::double(report.waited.as_secs_f64())),
        ("waits", encode::count(waits)),
        ("why", encode::text(largest.map_or("none", |cause| cause.why.name()))),
    ])
}

fn cause(table: &SystemTable, rank: i32, cause: &Cause) -> Vec<Cell> {
    let Cause { why, level, waited, waits, share, waiter } = cause;
    let named = waiter.as_ref().map(|waiter| &waiter.named);
    let user = waiter.as_ref().and_then(|waiter| waiter.user.as_deref());
    let table_name = named.map(|named| named.table()).filter(|table| !table.is_empty());
    table.row([
        ("rank", encode::int(rank)),
        ("explanation", encode::text(Why::explanation(*why))),
        ("level", encode::text(level)),
        ("share", encode::double(*share)),
        ("statement", named.and_then(|named| encode::text(named.statement()))),
        ("table_name", table_name.and_then(encode::text)),
        ("user_name", user.and_then(encode::text)),
        ("waited_seconds", encode::double(waited.as_secs_f64())),
        ("waits", encode::count(*waits)),
        ("why", encode::text(why.name())),
    ])
}
