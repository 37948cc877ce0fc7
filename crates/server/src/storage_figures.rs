//! Metrics of the storage engine on `/metrics`.

use std::fmt::Write as _;

use carnet::storage::Metrics;

/// Appends the counters and gauges of an engine.
pub(crate) fn append(out: &mut String, metrics: &Metrics) {
    metrics.each(|name, help, kind, value| {
        let total = if kind == "counter" { "_total" } else { "" };
        let (first, rest) = help.split_at(help.chars().next().map_or(0, char::len_utf8));
        let help = format!("{}{rest}", first.to_uppercase());
        let name = format!("carnet_storage_{name}{total}");
        let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}");
    });
}
