//! Metrics of commits, on `/metrics`.

use std::fmt::Write as _;

use carnet::{CommitOutcome, Db};

/// Appends the numbers of commits by their outcome.
pub(crate) fn append(out: &mut String, db: &Db) {
    let name = "carnet_commits_total";
    let _ = writeln!(
        out,
        "# HELP {name} Commits by outcome: a transaction that runs again after a conflict has several.\n# TYPE {name} counter"
    );
    for outcome in CommitOutcome::ALL {
        let count = db.commits(outcome);
        let _ = writeln!(out, "{name}{{outcome=\"{}\"}} {count}", outcome.name());
    }
}
