//! Recorded figures: `docs/figures.json`.

use std::collections::BTreeMap;
use std::path::Path;

use carnet_base::{Error, Result};
use serde::{Deserialize, Serialize};

use super::group::{Figure, Found, Group};
use super::origin::Origin;

/// A recorded figure.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Record {
    pub(super) name: String,
    /// Description: a row and a column of a table.
    figure: String,
    pub(super) command: String,
    /// `less`, `more` or `equal`; nothing if the figure is not compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    better: Option<String>,
    /// Median of the samples.
    pub(super) value: f64,
    /// Least and greatest sample, if there were several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) low: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) high: Option<f64>,
    pub(super) origin: Origin,
}

/// Recorded figures by name.
pub(super) type Records = BTreeMap<String, Record>;

impl Record {
    pub(super) fn new(figure: &Figure, found: &Found, origin: &Origin) -> Self {
        let is_spread = found.low < found.high && !figure.counted;
        let seen = |value| is_spread.then(|| rounded(value));
        Self {
            name: figure.name.clone(),
            figure: format!("{}: {}", figure.row, figure.column),
            command: figure.command.clone(),
            better: figure.better.map(|better| better.name().to_owned()),
            value: rounded(found.value),
            low: seen(found.low),
            high: seen(found.high),
            origin: origin.clone(),
        }
    }

    /// Returns the recorded median and samples.
    pub(super) fn found(&self) -> Found {
        let (low, high) = (self.low.unwrap_or(self.value), self.high.unwrap_or(self.value));
        Found { value: self.value, low, high }
    }

    /// Returns the greatest distance of a sample from the median, as a part of it.
    pub(super) fn spread(&self) -> f64 {
        let Found { low, high, .. } = self.found();
        let distance = (self.value - low).max(high - self.value);
        if distance > 0.0 { distance / self.value.abs() } else { 0.0 }
    }
}

/// Rounds to three digits at least, and two places if it is not large.
fn rounded(value: f64) -> f64 {
    let places = match value.abs() {
        ..1.0 => 1_000.0,
        1.0..100.0 => 100.0,
        100.0..1_000.0 => 10.0,
        _ => 1.0,
    };
    (value * places).round() / places
}

/// Reads the records of known figures. Those of figures that are no longer measured, or that another
/// command measured, are left out.
pub(super) fn read(path: &Path, groups: &[Group]) -> Result<Records> {
    let wrong = |what: &str| Error::invalid(format!("{}: {what}", path.display()));
    let text = std::fs::read_to_string(path)
        .map_err(|error| wrong("the figures cannot be read").with_source(error))?;
    let all: Vec<Record> =
        serde_json::from_str(&text).map_err(|error| wrong(&error.to_string()))?;
    let known: BTreeMap<&str, &str> = groups
        .iter()
        .flat_map(|group| &group.figures)
        .map(|figure| (figure.name.as_str(), figure.command.as_str()))
        .collect();
    let is_known = |record: &Record| known.get(record.name.as_str()) == Some(&&*record.command);
    let records = all.into_iter().filter(is_known);
    Ok(records.map(|record| (record.name.clone(), record)).collect())
}

/// Writes the records in the order of the groups, one on each line.
pub(super) fn write(path: &Path, groups: &[Group], records: &Records) -> Result<()> {
    let failed = |error| {
        Error::unavailable(format!("{} cannot be written", path.display())).with_source(error)
    };
    let names = groups.iter().flat_map(|group| &group.figures).map(|figure| &figure.name);
    let lines: Result<Vec<String>> = names
        .filter_map(|name| records.get(name))
        .map(|record| {
            serde_json::to_string(record)
                .map_err(|error| Error::invalid("a figure is no JSON").with_source(error))
        })
        .collect();
    std::fs::write(path, format!("[\n  {}\n]\n", lines?.join(",\n  "))).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::super::take::text;
    use super::*;

    #[test]
    fn record_of_another_command_is_left_out() {
        let mut group = Group::new("group", "figure");
        for name in ["one", "two"] {
            group.add((name, name), ("", "value"), "carnet-bench merge", text("both", 0));
        }
        let text = String::new;
        let origin = Origin { machine: text(), date: text(), commit: text() };
        let found = Found { value: 1.23456, low: 1.0, high: 123.456 };
        let record = |figure| Record::new(figure, &found, &origin);
        let mut records: Records =
            group.figures.iter().map(|it| (it.name.clone(), record(it))).collect();
        records.get_mut("group.two").unwrap().command = "carnet-bench log".to_owned();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("figures.json");
        let groups = [group];
        write(&path, &groups, &records).unwrap();
        let read = read(&path, &groups).unwrap();
        assert_eq!(read.keys().collect::<Vec<_>>(), ["group.one"]);
        let one = &read["group.one"];
        assert_eq!((one.value, one.low, one.high), (1.23, Some(1.0), Some(123.5)));
        assert!((one.spread() - 122.27 / 1.23).abs() < 1e-9, "{}", one.spread());
    }
}
