//! Metrics of the audit log, on `/metrics`.

use std::fmt::Write as _;

use crate::audit::Audit;

/// Appends the numbers of entries; 0 without an audit log.
pub(crate) fn append(out: &mut String, audit: Option<&Audit>) {
    let (written, lost) = audit.map(Audit::counts).unwrap_or_default();
    for (name, help, count) in [
        ("carnet_audit_written_total", "Entries that were written to the audit log.", written),
        (
            "carnet_audit_lost_total",
            "Entries of the audit log that were lost, because it was slower than the statements or \
             could not be written.",
            lost,
        ),
    ] {
        let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} counter\n{name} {count}");
    }
}
