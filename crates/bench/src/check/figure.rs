//! Figures of the documents, and how they are measured.

use std::path::Path;
use std::process::Command;

use carnet_base::{Error, Result};
use serde::{Deserialize, Serialize};

use super::origin::Origin;

/// Part of a recorded value by which a figure may be worse.
const WORSE: f64 = 0.25;

/// A figure of the documents.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Figure {
    pub(super) name: String,
    /// Description for the page.
    pub(super) claim: String,
    /// Arguments of this program.
    pub(super) command: String,
    /// Place of the number in the command's output.
    pub(super) take: Place,
    /// Place of the number that it is divided by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) over: Option<Place>,
    pub(super) better: Better,
    /// Whether it is a count, which does not depend on the machine.
    pub(super) counted: bool,
    /// The value that was recorded last.
    pub(super) value: Option<f64>,
    pub(super) origin: Option<Origin>,
}

/// Place of a number: in the first line with these words, from 0 on, or from the last one on back if
/// it is negative.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Place {
    line: String,
    number: i32,
}

/// Direction in which a figure is better.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Better {
    Less,
    More,
}

/// Result of a comparison.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Verdict {
    Same,
    Worse,
    Better,
    New,
}

impl Verdict {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::Worse => "worse",
            Self::Better => "better",
            Self::New => "new",
        }
    }
}

impl Figure {
    /// Runs the command, and returns its output.
    pub(super) fn run(&self) -> Result<String> {
        let of_command =
            |error| Error::unavailable(format!("cannot run {}", self.command)).with_source(error);
        let program = std::env::current_exe().map_err(of_command)?;
        let output =
            Command::new(program).args(self.command.split(' ')).output().map_err(of_command)?;
        if !output.status.success() {
            return Err(Error::invalid(format!(
                "{} has failed: {}",
                self.command,
                String::from_utf8_lossy(&output.stderr)
            )));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Returns the figure in an output.
    pub(super) fn value_in(&self, output: &str) -> Result<f64> {
        let find = |place: &Place| {
            place.find(output).ok_or_else(|| {
                Error::invalid(format!(
                    "{}: the output of {} has no number {} in a line with {:?}:\n{output}",
                    self.name, self.command, place.number, place.line
                ))
            })
        };
        let taken = find(&self.take)?;
        match &self.over {
            Some(over) => Ok(taken / find(over)?),
            None => Ok(taken),
        }
    }

    /// Compares a measured figure with the recorded one.
    pub(super) fn judge(&self, found: f64) -> Verdict {
        let Some(value) = self.value else { return Verdict::New };
        let (least, most) = (value * (1.0 - WORSE), value * (1.0 + WORSE));
        match self.better {
            Better::Less if found > most => Verdict::Worse,
            Better::More if found < least => Verdict::Worse,
            Better::Less if found < least => Verdict::Better,
            Better::More if found > most => Verdict::Better,
            _ => Verdict::Same,
        }
    }

    /// Stores a figure of this run, with two decimals.
    pub(super) fn record(&mut self, found: f64, origin: &Origin) {
        self.value = Some((found * 100.0).round() / 100.0);
        self.origin = Some(origin.clone());
    }
}

impl Place {
    fn find(&self, output: &str) -> Option<f64> {
        let line = output.lines().find(|line| line.contains(&self.line))?;
        let number = |word: &str| {
            let word = word.trim_matches(|letter: char| !letter.is_ascii_digit() && letter != '-');
            word.replace(',', "").parse::<f64>().ok()
        };
        let is_name = |word: &&str| word.starts_with(|letter: char| letter.is_ascii_alphabetic());
        let words = line.split_whitespace().filter(|word| !is_name(word));
        let numbers: Vec<f64> = words.filter_map(number).collect();
        let from_end = usize::try_from(self.number.unsigned_abs()).ok()?;
        let at = if self.number < 0 { numbers.len().checked_sub(from_end)? } else { from_end };
        numbers.get(at).copied()
    }
}

/// Reads the file of figures.
pub(super) fn read(path: &Path) -> Result<Vec<Figure>> {
    let wrong = |what: &str| Error::invalid(format!("{}: {what}", path.display()));
    let text = std::fs::read_to_string(path)
        .map_err(|error| wrong("the figures cannot be read").with_source(error))?;
    serde_json::from_str(&text).map_err(|error| wrong(&error.to_string()))
}

/// Writes the file of figures.
pub(super) fn write(path: &Path, figures: &[Figure]) -> Result<()> {
    let line = |figure| {
        serde_json::to_string(figure)
            .map_err(|error| Error::invalid("a figure is no JSON").with_source(error))
    };
    let lines = figures.iter().map(line).collect::<Result<Vec<_>>>()?;
    let text = format!("[\n  {}\n]", lines.join(",\n  "));
    std::fs::write(path, text + "\n").map_err(|error| {
        Error::unavailable(format!("{} cannot be written", path.display())).with_source(error)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(better: Better, value: Option<f64>) -> Figure {
        let place = |line: &str, number| Place { line: line.to_owned(), number };
        Figure {
            name: "one".to_owned(),
            claim: "a ratio".to_owned(),
            command: "merge".to_owned(),
            take: place("reads", -2),
            over: Some(place("alone", 0)),
            better,
            counted: false,
            value,
            origin: None,
        }
    }

    #[test]
    fn numbers_are_found_in_an_output() {
        let one = figure(Better::Less, None);
        let output = "V1 begins\n  reads by p50: 1 in 3,000 gets, 2 in 99 gets\nalone: 4.0 µs, 7\n";
        assert!((one.value_in(output).unwrap() - 0.5).abs() < 1e-9);
        let error = one.value_in("reads by a get: 1\n").unwrap_err().to_string();
        assert!(error.contains("one: the output of merge has no number -2"), "{error}");
    }

    #[test]
    fn quarter_worse_is_worse() {
        let less = figure(Better::Less, Some(2.0));
        let more = figure(Better::More, Some(2.0));
        for (found, of_less, of_more) in [
            (2.0, Verdict::Same, Verdict::Same),
            (2.5, Verdict::Same, Verdict::Same),
            (2.51, Verdict::Worse, Verdict::Better),
            (1.5, Verdict::Same, Verdict::Same),
            (1.49, Verdict::Better, Verdict::Worse),
        ] {
            assert_eq!((less.judge(found), more.judge(found)), (of_less, of_more), "{found}");
        }
        assert_eq!(figure(Better::Less, None).judge(1.0), Verdict::New);
        // Nothing is a quarter of none: a count of none stays none.
        assert_eq!(figure(Better::Less, Some(0.0)).judge(1.0), Verdict::Worse);
    }
}
