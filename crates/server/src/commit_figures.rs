//! Metrics of commits and of the retries of transactions, on `/metrics`.

use std::fmt::Write as _;

use carnet::{CommitOutcome, Db, RetryCause};

/// Appends the numbers of commits by their outcome, and of retries by their cause.
pub(crate) fn append(out: &mut String, db: &Db) {
    let name = "carnet_commits_total";
    let help = "Commits by outcome: a transaction that runs again after a conflict has several.";
    head(out, name, help);
    for outcome in CommitOutcome::ALL {
        let count = db.commits(outcome);
        let _ = writeln!(out, "{name}{{outcome=\"{}\"}} {count}", outcome.name());
    }
    let retries = RetryCause::ALL.map(|cause| (cause.name(), db.retries(cause)));
    let name = "carnet_transaction_retries_total";
    head(out, name, "Attempts of transactions that were lost and repeated, by cause.");
    for (why, (retried, _)) in retries {
        let _ = writeln!(out, "{name}{{why=\"{why}\"}} {retried}");
    }
    let name = "carnet_transactions_given_up_total";
    head(out, name, "Transactions that failed after their last attempt, by its cause.");
    for (why, (_, given_up)) in retries {
        let _ = writeln!(out, "{name}{{why=\"{why}\"}} {given_up}");
    }
}

fn head(out: &mut String, name: &str, help: &str) {
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} counter");
}
