//! Recorded figures: `docs/figures.json`.

use serde::{Deserialize, Serialize};

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

impl Record {
    #[cfg(test)]
    pub(super) fn of_value(value: f64, seen: Option<(f64, f64)>) -> Self {
        let text = String::new;
        let origin = Origin { machine: text(), date: text(), commit: text() };
        let (name, figure, command) = (text(), text(), text());
        let (low, high) = (seen.map(|it| it.0), seen.map(|it| it.1));
        Self { name, figure, command, better: None, value, low, high, origin }
    }
}
