//! `carnet-bench check`: measures the figures of the documents again, and compares them.
//!
//! ```text
//!   groups ──▶ a command, in a short form ──▶ its output ──▶ numbers ──▶ median of runs and rounds
//!                                                                          │
//!   docs/figures.json ◀── --record ◀───────────────────┬──────────────────┘
//!          │                                            └─▶ worse by more than a quarter: named, exit code 1
//!          └──▶ tables of the pages in docs
//! ```
//!
//! A compared figure is a count, or the ratio of two numbers of one run: neither changes with the
//! speed of a machine as much as a time does. Other figures are shown beside them. Counts do not
//! depend on the machine. CI checks the counts of this program.

#[cfg(test)]
mod cited;
mod command;
mod group;
mod groups;
mod origin;
mod outputs;
mod record;
mod tables;
mod take;

use std::path::PathBuf;

use carnet_base::{Error, Result};
use clap::Args;

use group::{Figure, Found, Group, Needs, Verdict};
use groups::groups;
use origin::Origin;
use outputs::Outputs;
use record::{Record, Records};

/// Number of runs of a command whose output has no rounds, when it is recorded.
const RECORDED_RUNS: usize = 3;

/// Settings of the program.
#[derive(Args)]
pub(crate) struct Check {
    /// Names of groups or figures; by default all groups that need neither other engines nor a cluster.
    names: Vec<String>,
    /// Print a JSON object for each figure.
    #[arg(long)]
    json: bool,
    /// Store the figures, and make the tables of the documents from them.
    #[arg(long)]
    record: bool,
    /// Check only the counts of this program.
    #[arg(long)]
    counted: bool,
    /// Check the groups that compare with the engines of `bench/peers`.
    #[arg(long)]
    peers: bool,
    /// Check the groups that need a Cassandra.
    #[arg(long)]
    cluster: bool,
    /// Only make the tables of the documents from the stored figures.
    #[arg(long, conflicts_with_all = ["record", "names"])]
    pages: bool,
    /// Directory of the documents.
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs"))]
    docs: PathBuf,
}

impl Check {
    pub(crate) fn run(&self) -> Result<()> {
        let groups = groups();
        let path = self.docs.join("figures.json");
        let mut records = record::read(&path, &groups)?;
        if self.pages {
            return tables::write(&self.docs, &groups, &records);
        }
        self.check_names(&groups)?;
        let origin = if self.record { Some(Origin::of_this_run(&self.docs)?) } else { None };
        let mut wrong = Vec::new();
        let mut outputs = Outputs::default();
        for group in &groups {
            let figures: Vec<&Figure> =
                group.figures.iter().filter(|figure| self.wants(group, figure)).collect();
            for figure in &figures {
                self.check(figure, &mut outputs, &mut records, origin.as_ref(), &mut wrong);
            }
            if self.record && !figures.is_empty() {
                // An interrupted run keeps the figures of the groups before.
                record::write(&path, &groups, &records)?;
                tables::write(&self.docs, &groups, &records)?;
            }
        }
        self.print_left_out(&groups);
        if wrong.is_empty() {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "worse than recorded by more than a quarter, or not measured: {}; --record stores what was \
             measured",
            wrong.join(", ")
        )))
    }

    /// Measures a figure, prints it, and records or compares it.
    fn check(
        &self,
        figure: &Figure,
        outputs: &mut Outputs,
        records: &mut Records,
        origin: Option<&Origin>,
        wrong: &mut Vec<String>,
    ) {
        let recorded = records.get(&figure.name);
        let (found, verdict) = match self.measure(figure, outputs, recorded) {
            Ok(measured) => measured,
            Err(error) => {
                eprintln!("{}: {error}", figure.name);
                wrong.push(figure.name.clone());
                return;
            }
        };
        self.print(figure, &found, recorded, verdict);
        let Some(origin) = origin else {
            if verdict == Verdict::Worse {
                wrong.push(figure.name.clone());
            }
            return;
        };
        let record = Record::new(figure, &found, origin);
        if figure.better.is_some() && record.spread() > group::WORSE {
            eprintln!(
                "{}: the samples are {:.0} % apart from the median, which is more than a quarter",
                figure.name,
                record.spread() * 100.0
            );
        }
        records.insert(figure.name.clone(), record);
    }

    /// Measures a figure. One that seems worse is measured again, and the median of all runs counts.
    fn measure(
        &self,
        figure: &Figure,
        outputs: &mut Outputs,
        recorded: Option<&Record>,
    ) -> Result<(Found, Verdict)> {
        let all = runs(figure);
        outputs.run(figure.commands(), if self.record { all } else { 1 })?;
        let found = figure.find(outputs)?;
        let verdict = figure.judge(found.value, recorded.map(Record::found));
        if verdict != Verdict::Worse || self.record || all == 1 {
            return Ok((found, verdict));
        }
        outputs.run(figure.commands(), all)?;
        let found = figure.find(outputs)?;
        Ok((found, figure.judge(found.value, recorded.map(Record::found))))
    }

    fn check_names(&self, groups: &[Group]) -> Result<()> {
        let is_known = |name: &&String| {
            groups.iter().any(|group| {
                group.name == **name || group.figures.iter().any(|figure| figure.name == **name)
            })
        };
        let Some(unknown) = self.names.iter().find(|name| !is_known(name)) else { return Ok(()) };
        let known: Vec<&str> = groups.iter().map(|group| group.name).collect();
        Err(Error::invalid(format!(
            "there is no group or figure {unknown}; the groups are {}",
            known.join(", ")
        )))
    }

    fn wants(&self, group: &Group, figure: &Figure) -> bool {
        let is_named = match self.names.as_slice() {
            [] => self.wants_group(group),
            names => names.iter().any(|name| name == group.name || *name == figure.name),
        };
        let is_of_ci = figure.counted && command::program(&figure.command) == "carnet-bench";
        is_named && (is_of_ci || !self.counted)
    }

    /// Returns `true` if a group is checked without being named.
    fn wants_group(&self, group: &Group) -> bool {
        match group.needs {
            Needs::Nothing => !self.peers && !self.cluster,
            Needs::Peers => self.peers,
            Needs::Cluster => self.cluster,
        }
    }

    /// Names the groups that were not checked.
    fn print_left_out(&self, groups: &[Group]) {
        if self.json || self.counted || !self.names.is_empty() {
            return;
        }
        for (needs, option) in [
            (Needs::Nothing, "run by `check`"),
            (Needs::Peers, "run by `check --peers`"),
            (Needs::Cluster, "run by `check --cluster`"),
        ] {
            let left_out = groups.iter().filter(|it| it.needs == needs && !self.wants_group(it));
            let names: Vec<&str> = left_out.map(|group| group.name).collect();
            if !names.is_empty() {
                println!("not checked: {}, {option}", names.join(", "));
            }
        }
    }

    fn print(&self, figure: &Figure, found: &Found, recorded: Option<&Record>, verdict: Verdict) {
        let Figure { name, row, column, .. } = figure;
        let Found { value, low, high } = found;
        if self.json {
            let line = serde_json::json!({
                "name": name, "found": value, "low": low, "high": high,
                "recorded": recorded.map(|record| record.value), "verdict": verdict.name(),
            });
            println!("{line}");
            return;
        }
        let recorded = recorded.map_or_else(
            || "not recorded".to_owned(),
            |record| format!("{:.2} recorded", record.value),
        );
        println!("{name:<40} {value:>10.2}  {recorded:<18} {:<8} {row}: {column}", verdict.name());
    }
}

/// Returns the number of runs of a figure's commands that are recorded.
fn runs(figure: &Figure) -> usize {
    // JSON has a sample of each round, a count is the same each time, and other engines take minutes.
    let has_rounds = ["--rounds", "--json"].iter().all(|it| figure.command.contains(it));
    let is_ours = command::program(&figure.command).starts_with("carnet");
    if has_rounds || figure.counted || !is_ours { 1 } else { RECORDED_RUNS }
}
