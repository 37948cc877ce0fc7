//! Metrics of the storage engine on `/metrics`.

use std::fmt::Write as _;

use carnet::{LevelTotals, Metrics};

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

/// Appends the tables of each level.
pub(crate) fn append_levels(out: &mut String, levels: &[LevelTotals]) {
    type Figure = fn(&LevelTotals) -> u64;
    let figures: [(&str, &str, Figure); 2] = [
        ("tables", "SSTables of each level.", |level| level.tables),
        ("bytes", "Bytes of the SSTables of each level.", |level| level.bytes),
    ];
    for (name, help, figure) in figures {
        let name = format!("carnet_storage_level_{name}");
        let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} gauge");
        for (number, level) in levels.iter().enumerate() {
            let _ = writeln!(out, "{name}{{level=\"{number}\"}} {}", figure(level));
        }
    }
}
