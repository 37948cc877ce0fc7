//! Findings, and the verdict for each model.

use std::collections::BTreeMap;
use std::fmt;

use crate::cycle::Step;
use crate::graph::EdgeKind;
use crate::history::{History, Outcome};
use crate::model::{AnomalyKind, Model};

/// Maximum number of explained anomalies of one kind; the others are only counted.
const EXPLAINED_MAX: usize = 8;

/// Maximum number of displayed operations of a transaction.
const SHOWN_OPS_MAX: usize = 12;

/// Proof of a phenomenon that some model forbids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Anomaly {
    /// Kind of the phenomenon.
    pub kind: AnomalyKind,
    /// Involved transactions, as indices into [`History::transactions`].
    pub transactions: Vec<usize>,
    /// Reasons, a sentence for each step.
    pub reasons: Vec<String>,
    /// Dependencies between these transactions; empty if the phenomenon is not one of them.
    pub dependencies: Vec<Dependency>,
}

/// Reason why one transaction comes before another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dependency {
    /// Index of the transaction that comes first.
    pub from: usize,
    /// Index of the transaction that comes later.
    pub to: usize,
    /// Name of the reason, as in Elle: `ww`, `wr`, `rw`, `rt` for real time, or `process`.
    pub kind: &'static str,
}

/// Anomalies that were found, by kind.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    anomalies: Vec<Anomaly>,
    counts: BTreeMap<AnomalyKind, usize>,
}

impl Findings {
    /// Adds an anomaly; its sentences are built only if it will be shown.
    pub(crate) fn add(
        &mut self,
        kind: AnomalyKind,
        transactions: &[u32],
        reasons: impl FnOnce() -> Vec<String>,
    ) {
        self.add_steps(kind, transactions, &[], reasons);
    }

    /// Like [`Findings::add`], for dependencies between transactions.
    pub(crate) fn add_steps(
        &mut self,
        kind: AnomalyKind,
        transactions: &[u32],
        steps: &[Step],
        reasons: impl FnOnce() -> Vec<String>,
    ) {
        let count = self.counts.entry(kind).or_default();
        *count += 1;
        if *count <= EXPLAINED_MAX {
            let transactions = transactions.iter().map(|&number| number as usize).collect();
            let dependencies = steps.iter().map(dependency).collect();
            self.anomalies.push(Anomaly { kind, transactions, reasons: reasons(), dependencies });
        }
    }

    pub(crate) fn report(mut self, history: &History) -> Report {
        self.anomalies.sort_by_key(|anomaly| (anomaly.transactions.len(), anomaly.kind));
        let count =
            |outcome| history.transactions().iter().filter(|txn| txn.outcome == outcome).count();
        Report {
            anomalies: self.anomalies,
            counts: self.counts,
            committed: count(Outcome::Committed),
            aborted: count(Outcome::Aborted),
            unknown: count(Outcome::Unknown),
        }
    }
}

fn dependency(step: &Step) -> Dependency {
    let kind = match step.kind {
        EdgeKind::Ww | EdgeKind::WwByTime => "ww",
        EdgeKind::Wr => "wr",
        EdgeKind::Rw | EdgeKind::RwByTime => "rw",
        EdgeKind::Session => "process",
        EdgeKind::RealTime | EdgeKind::Via => "rt",
    };
    Dependency { from: step.from as usize, to: step.to as usize, kind }
}

/// The result of a check.
///
/// A history without violations is not thereby proven correct: the checker reports only violations
/// that it can prove, and the run may have been lucky.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    anomalies: Vec<Anomaly>,
    counts: BTreeMap<AnomalyKind, usize>,
    /// Number of committed transactions.
    pub committed: usize,
    /// Number of aborted transactions.
    pub aborted: usize,
    /// Number of transactions with an unknown outcome.
    pub unknown: usize,
}

impl Report {
    /// Returns the explained anomalies, the shortest first. For each model that is broken by a
    /// cycle there is at least one cycle.
    #[must_use]
    pub fn anomalies(&self) -> &[Anomaly] {
        &self.anomalies
    }

    /// Returns the number of anomalies of each kind. Cycles are counted once for each strongly
    /// connected group of transactions.
    #[must_use]
    pub const fn counts(&self) -> &BTreeMap<AnomalyKind, usize> {
        &self.counts
    }

    /// Returns `true` if no anomaly was found that the model forbids.
    #[must_use]
    pub fn allows(&self, model: Model) -> bool {
        !self.counts.keys().any(|kind| kind.rules_out(model))
    }

    /// Returns `true` if no anomaly was found.
    #[must_use]
    pub fn is_strictly_serializable(&self) -> bool {
        self.allows(Model::StrictSerializable)
    }

    /// Returns the shortest anomaly that the model forbids.
    #[must_use]
    pub fn counterexample(&self, model: Model) -> Option<&Anomaly> {
        self.anomalies.iter().find(|anomaly| anomaly.kind.rules_out(model))
    }

    /// Returns the verdict for people: each model, with a counterexample for each that is broken.
    #[must_use]
    pub fn explain(&self, history: &History) -> String {
        Explained { report: self, history }.to_string()
    }
}

struct Explained<'r> {
    report: &'r Report,
    history: &'r History,
}

impl fmt::Display for Explained<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { report, .. } = self;
        writeln!(
            f,
            "{} transactions committed, {} aborted, {} unknown",
            report.committed, report.aborted, report.unknown
        )?;
        for model in Model::ALL {
            match report.counterexample(model) {
                None => writeln!(f, "  {:<34} not violated", model.name())?,
                Some(anomaly) => writeln!(f, "  {:<34} VIOLATED: {}", model.name(), anomaly.kind)?,
            }
        }
        for (kind, count) in &report.counts {
            writeln!(f, "found {count} × {kind}")?;
        }
        let mut shown: Vec<&Anomaly> = Vec::new();
        for anomaly in Model::ALL.into_iter().filter_map(|model| report.counterexample(model)) {
            if !shown.contains(&anomaly) {
                shown.push(anomaly);
                self.anomaly(f, anomaly)?;
            }
        }
        Ok(())
    }
}

impl Explained<'_> {
    fn anomaly(&self, f: &mut fmt::Formatter<'_>, anomaly: &Anomaly) -> fmt::Result {
        writeln!(f, "\n{}", anomaly.kind)?;
        for &number in &anomaly.transactions {
            let transaction = &self.history.transactions()[number];
            write!(f, "  T{number} (process {}, ", transaction.process)?;
            write!(f, "invoked at {}, ", transaction.invoked.index)?;
            match (transaction.outcome, transaction.completed) {
                (Outcome::Committed, Some(at)) => write!(f, "committed at {}):", at.index)?,
                (Outcome::Aborted, Some(at)) => write!(f, "aborted at {}):", at.index)?,
                _ => write!(f, "outcome unknown):")?,
            }
            let committed = transaction.outcome == Outcome::Committed;
            for op in transaction.ops.iter().take(SHOWN_OPS_MAX) {
                if op.is_read() && !committed {
                    write!(f, " r({}) = ?", op.key())?;
                } else {
                    write!(f, " {op}")?;
                }
            }
            let left_out = transaction.ops.len().saturating_sub(SHOWN_OPS_MAX);
            if left_out > 0 {
                write!(f, " …{left_out} more")?;
            }
            writeln!(f)?;
        }
        for reason in &anomaly.reasons {
            writeln!(f, "  - {reason}")?;
        }
        Ok(())
    }
}
