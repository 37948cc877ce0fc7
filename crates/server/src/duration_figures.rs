//! Histograms of durations on `/metrics`.

use std::fmt::Write as _;

use carnet::Db;
use carnet_base::DurationCounts;
use carnet_cql::{Executor, StatementKind};

/// Appends one histogram with its labels; `labels` may be empty.
pub(crate) fn append_one(out: &mut String, name: &str, labels: &str, counts: &DurationCounts) {
    let comma = if labels.is_empty() { "" } else { "," };
    for (bound, count) in counts.cumulative() {
        let _ = writeln!(out, "{name}_bucket{{{labels}{comma}le=\"{bound}\"}} {count}");
    }
    let labels = if labels.is_empty() { String::new() } else { format!("{{{labels}}}") };
    let _ = writeln!(
        out,
        "{name}_sum{labels} {}\n{name}_count{labels} {}",
        counts.sum().as_secs_f64(),
        counts.count()
    );
}

fn head(out: &mut String, name: &str, help: &str) {
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} histogram");
}

/// Appends the durations of statements, commits and syncs of the log.
pub(crate) fn append(out: &mut String, executor: &Executor, db: &Db) {
    let name = "carnet_statement_duration_seconds";
    head(out, name, "From a statement's arrival to its end, its retries included, by kind.");
    for kind in StatementKind::ALL {
        let labels = format!("kind=\"{}\"", kind.name());
        append_one(out, name, &labels, &executor.statement_durations(kind));
    }
    let name = "carnet_commit_duration_seconds";
    head(
        out,
        name,
        "From the beginning of a commit to its acknowledgement, if it wrote and took effect.",
    );
    append_one(out, name, "", &db.commit_durations());
    if let Some(syncs) = db.log_sync_durations() {
        let name = "carnet_storage_log_sync_duration_seconds";
        head(out, name, "Duration of a sync of the log.");
        append_one(out, name, "", &syncs);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use carnet_base::Durations;

    use super::*;

    #[test]
    fn histogram_has_cumulative_buckets() {
        let durations = Durations::default();
        for micros in [50, 51, 900, 20_000_000] {
            durations.record(Duration::from_micros(micros));
        }
        let mut out = String::new();
        append_one(&mut out, "h", "a=\"b\"", &durations.counts());
        for line in [
            "h_bucket{a=\"b\",le=\"0.00005\"} 1\n",
            "h_bucket{a=\"b\",le=\"0.0001\"} 2\n",
            "h_bucket{a=\"b\",le=\"0.001\"} 3\n",
            "h_bucket{a=\"b\",le=\"10\"} 3\n",
            "h_bucket{a=\"b\",le=\"+Inf\"} 4\n",
            "h_sum{a=\"b\"} 20.001001\n",
            "h_count{a=\"b\"} 4\n",
        ] {
            assert!(out.contains(line), "{line} in {out}");
        }
        let mut plain = String::new();
        append_one(&mut plain, "h", "", &durations.counts());
        assert!(plain.contains("h_bucket{le=\"+Inf\"} 4\nh_sum 20.001001\nh_count 4\n"), "{plain}");
    }
}
