//! `carnet-bench check`: measures the figures of the documents again, and compares them.
//!
//! ```text
//!   docs/figures.json ──▶ a command of this program, in a short form ──▶ its output ──▶ a number
//!          ▲                                                                              │
//!          └───────────────────── --record ◀───────────────────────┬──────────────────────┘
//!                                                                  └─▶ worse by more than a quarter: named, exit code 1
//! ```
//!
//! A figure is a count, or the ratio of two numbers of one run: neither changes with the speed of a
//! machine as much as a time does. Counts do not depend on the machine, and CI checks them. The table
//! in `docs/performance.md` is made from the file.

mod figure;
mod origin;
mod page;
#[cfg(test)]
#[allow(dead_code, reason = "check is about to use it")]
mod command;
#[cfg(test)]
#[allow(dead_code, reason = "check is about to use it")]
mod group;
#[cfg(test)]
#[allow(dead_code, reason = "check is about to use it")]
mod groups;
#[cfg(test)]
#[allow(dead_code, reason = "check is about to use it")]
mod outputs;
#[cfg(test)]
#[allow(dead_code, reason = "check is about to use it")]
mod record;
#[cfg(test)]
#[allow(dead_code, reason = "check is about to use it")]
mod tables;
#[cfg(test)]
#[allow(dead_code, reason = "check is about to use it")]
mod take;

use std::collections::BTreeMap;
use std::path::PathBuf;

use carnet_base::{Error, Result};
use clap::Args;

use figure::{Figure, Verdict};
use origin::Origin;

/// Settings of the program.
#[derive(Args)]
pub(crate) struct Check {
    /// Names of figures; all by default.
    names: Vec<String>,
    /// Print a JSON object for each figure.
    #[arg(long)]
    json: bool,
    /// Store the figures, and make the table of `docs/performance.md` from them.
    #[arg(long)]
    record: bool,
    /// Check only the figures that are counts.
    #[arg(long)]
    counted: bool,
    /// Directory of the documents.
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs"))]
    docs: PathBuf,
}

impl Check {
    pub(crate) fn run(&self) -> Result<()> {
        let path = self.docs.join("figures.json");
        let mut figures = figure::read(&path)?;
        self.check_names(&figures)?;
        let origin = if self.record { Some(Origin::of_this_run()?) } else { None };
        let mut wrong = Vec::new();
        // Several figures may be of one run.
        let mut outputs = BTreeMap::new();
        for figure in figures.iter_mut().filter(|figure| self.wants(figure)) {
            let found = match found(figure, &mut outputs) {
                Ok(found) => found,
                Err(error) => {
                    eprintln!("{}: {error}", figure.name);
                    wrong.push(figure.name.clone());
                    continue;
                }
            };
            let verdict = figure.judge(found);
            self.print(figure, found, verdict);
            if verdict == Verdict::Worse && !self.record {
                wrong.push(figure.name.clone());
            }
            if let Some(origin) = &origin {
                figure.record(found, origin);
            }
        }
        if self.record {
            figure::write(&path, &figures)?;
            page::write(&self.docs.join("performance.md"), &figures)?;
        }
        if wrong.is_empty() {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "worse than recorded by more than a quarter, or not measured: {}; --record stores what was \
             measured",
            wrong.join(", ")
        )))
    }

    fn check_names(&self, figures: &[Figure]) -> Result<()> {
        let is_known = |name: &&String| figures.iter().any(|figure| figure.name == **name);
        let Some(unknown) = self.names.iter().find(|name| !is_known(name)) else { return Ok(()) };
        let known: Vec<&str> = figures.iter().map(|figure| figure.name.as_str()).collect();
        Err(Error::invalid(format!(
            "there is no figure {unknown}; the figures are {}",
            known.join(", ")
        )))
    }

    fn wants(&self, figure: &Figure) -> bool {
        let is_named = self.names.is_empty() || self.names.contains(&figure.name);
        is_named && (figure.counted || !self.counted)
    }

    fn print(&self, figure: &Figure, found: f64, verdict: Verdict) {
        let Figure { name, claim, value, .. } = figure;
        if self.json {
            let verdict = verdict.name();
            let line = serde_json::json!({
                "name": name, "found": found, "recorded": value, "verdict": verdict,
            });
            println!("{line}");
            return;
        }
        let recorded =
            value.map_or_else(|| "not recorded".to_owned(), |value| format!("{value:.2} recorded"));
        println!("{name:<24} {found:>8.2}  {recorded:<16} {:<8} {claim}", verdict.name());
    }
}

/// Returns a figure of this machine, from the output of its command.
fn found(figure: &Figure, outputs: &mut BTreeMap<String, String>) -> Result<f64> {
    if !outputs.contains_key(&figure.command) {
        outputs.insert(figure.command.clone(), figure.run()?);
    }
    figure.value_in(&outputs[&figure.command])
}
