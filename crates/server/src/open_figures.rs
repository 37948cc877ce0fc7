//! Metrics of transactions that stay open between statements.

use std::fmt::Write as _;

use carnet_cql::{Executor, OpenTotals};

/// Number of transactions with an end.
type Figure = fn(&OpenTotals) -> u64;

/// Ends of transactions with the label of each.
const ENDS: [(&str, Figure); 8] = [
    ("committed", |totals| totals.committed),
    ("rolled_back", |totals| totals.rolled_back),
    ("aborted", |totals| totals.aborted),
    ("unknown", |totals| totals.unknown),
    ("failed", |totals| totals.failed),
    ("expired", |totals| totals.expired),
    ("killed", |totals| totals.killed),
    ("disconnected", |totals| totals.disconnected),
];

/// Appends the metrics in Prometheus' text format.
pub(crate) fn append(out: &mut String, executor: &Executor) {
    let (open, totals) = executor.open_transactions();
    let OpenTotals { started, refused, .. } = totals;
    let _ = writeln!(
        out,
        "# HELP carnet_open_transactions Transactions that are open between statements.\n\
         # TYPE carnet_open_transactions gauge\n\
         carnet_open_transactions {open}\n\
         # HELP carnet_open_transactions_started_total Transactions that START TRANSACTION began.\n\
         # TYPE carnet_open_transactions_started_total counter\n\
         carnet_open_transactions_started_total {started}\n\
         # HELP carnet_open_transactions_refused_total Transactions that were refused at a limit of their number.\n\
         # TYPE carnet_open_transactions_refused_total counter\n\
         carnet_open_transactions_refused_total {refused}\n\
         # HELP carnet_open_transactions_ended_total Transactions that have ended, by their end.\n\
         # TYPE carnet_open_transactions_ended_total counter"
    );
    for (end, count) in ENDS {
        let count = count(&totals);
        let _ = writeln!(out, "carnet_open_transactions_ended_total{{end=\"{end}\"}} {count}");
    }
    let (sent, served) = executor.forwarded_statements();
    let name = "carnet_open_transactions_forwarded_total";
    let _ = writeln!(
        out,
        "# HELP {name} Statements that were forwarded to the server that holds their transaction, and run for other servers.\n\
         # TYPE {name} counter\n\
         {name}{{direction=\"sent\"}} {sent}\n\
         {name}{{direction=\"served\"}} {served}"
    );
}
