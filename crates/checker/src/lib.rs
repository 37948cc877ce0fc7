//! Checks histories of transactions: which consistency models do the clients' observations rule
//! out?
//!
//! # The problem
//!
//! A database promises an isolation level. Clients run transactions against it under faults, and
//! record their requests and answers: a [`History`]. Whether *some* order of the transactions
//! explains all answers is NP-hard in general (Papadimitriou, 1979). But if each read shows which
//! writes it saw, and in which order, most of the order is known, and the question becomes one of
//! cycles in a graph. That is the idea of Elle (Kingsbury and Alvaro, "Elle: Inferring Isolation
//! Anomalies from Experimental Observations", 2020), whose workloads, file formats and names of
//! anomalies this crate uses. The anomalies are those of Adya, Liskov and O'Neil ("Generalized
//! Isolation Level Definitions", 2000).
//!
//! ```text
//!        T0: r(x) = [], append(y, 1)       T1: r(y) = [], append(x, 2)      and later: x = [2], y = [1]
//!
//!            ┌──── rw: T0 did not see T1's 2 in x ────▶┐
//!           T0                                         T1       a cycle with two neighbouring
//!            └◀─── rw: T1 did not see T0's 1 in y ─────┘        anti-dependencies: G2-item
//! ```
//!
//! No serial order has both; snapshot isolation allows it (write skew).
//!
//! # Structure
//!
//! 1. [`History`]: the clients' observations ([`format`](mod@format) reads and writes Elle's EDN
//!    and JSON).
//! 2. `infer`: the order of transactions, and the anomalies that need no cycle.
//! 3. `graph`: the edges, linear in number. `cycle`: strongly connected components decide,
//!    breadth-first search finds the shortest cycle.
//! 4. [`Report`]: the verdict for each [`Model`], and the shortest counterexample in words.
//!
//! # Invariants
//!
//! * *Sound*: every report is proven, provided that the database was empty at first, that each
//!   value is written to an object at most once, and that a process runs one transaction at a time.
//!   Brute force over all small histories agrees (`tests/all/oracle.rs`).
//! * *Complete where possible*: if every append is in some read, the verdict is exact.
//! * Unknown transactions may have happened at any time after they were invoked, or not at all;
//!   once a read shows a write of one, it happened.
//! * Time and space are linear in the number of operations and of read elements.
//!
//! # Deliberately absent
//!
//! Predicates and ranges: an absent row has no version to name. If the database reports its own
//! timestamps, [`replay`](mod@replay) checks ranges too. Search through possible orders of blind
//! register writes: unknown orders are not guessed.

mod cycle;
mod error;
mod explain;
pub mod format;
mod graph;
mod history;
mod infer;
pub mod invariant;
mod model;
pub mod replay;
mod report;

use std::collections::HashSet;

pub use error::{BadHistory, Result};
pub use history::{
    Call, HISTORY_OPS_MAX, History, Key, Moment, Op, Outcome, Recorder, Transaction, Workload,
};
pub use model::{AnomalyKind, Model, Order};
pub use report::{Anomaly, Dependency, Report};

use crate::cycle::{Interference, Search, Step, View};
use crate::explain::Explainer;
use crate::graph::{EdgeKind, EdgeKinds, GraphBuilder};
use crate::infer::{Index, clients, lists, registers};
use crate::report::Findings;

/// Assumptions of the checker; by default none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Each single register is linearizable, whatever the transactions are.
    ///
    /// With this assumption the real-time order of a register's versions counts for every model.
    /// Without it, it counts only for models that respect real time anyway.
    pub linearizable_keys: bool,
}

/// Checks a history against all models.
///
/// # Errors
///
/// If a value is written to the same object twice: a read of it would not identify its writer.
pub fn check(history: &History, options: &Options) -> Result<Report> {
    let mut index = Index::new(history)?;
    let mut graph = GraphBuilder::new(history.transactions().len());
    let mut findings = Findings::default();
    match history.workload() {
        Workload::ListAppend => lists::infer(&mut index, &mut graph, &mut findings),
        Workload::Register => {
            let vouched = options.linearizable_keys;
            registers::infer(&mut index, vouched, &mut graph, &mut findings);
        }
    }
    clients::sessions(&index, &mut graph);
    clients::real_time(&index, &mut graph);
    let graph = graph.build();

    let search = Search::new(&graph, view(Model::StrictSerializable).kinds);
    let mut explainer = None;
    let mut known: HashSet<Vec<Step>> = HashSet::new();
    let mut has_interference = false;
    for model in Model::ALL {
        let cycles = search.cycles(view(model));
        if model.is_snapshot_isolation() && cycles.is_empty() && !has_interference {
            // An anomaly of a model breaks the stronger ones as well, so the first is enough.
            has_interference = interference(&index, &search, model, &mut explainer, &mut findings);
        }
        for steps in cycles {
            if known.insert(steps.clone()) {
                let explainer = explainer.get_or_insert_with(|| Explainer::new(&index));
                let transactions: Vec<u32> = steps.iter().map(|step| step.from).collect();
                let kind = classify(&steps);
                findings.add_steps(kind, &transactions, &steps, || explainer.cycle(&steps));
            }
        }
    }
    Ok(findings.report(history))
}

/// Reports two transactions that wrote the same object without seeing each other, if there are any;
/// returns whether there are.
fn interference<'i, 'h>(
    index: &'i Index<'h>,
    search: &Search<'_>,
    model: Model,
    explainer: &mut Option<Explainer<'i, 'h>>,
    findings: &mut Findings,
) -> bool {
    if !search.has_any() {
        return false;
    }
    let explainer = explainer.get_or_insert_with(|| Explainer::new(index));
    let rivals = index.rivals(|key, value| explainer.is_placed(key, value));
    let Some(found) = search.interference(view(model), &rivals) else { return false };
    let Interference { rivals: (a, b), steps, .. } = &found;
    let kind = AnomalyKind::GSIa(strongest_order(steps));
    findings.add_steps(kind, &[*a, *b], steps, || explainer.interference(&found));
    true
}

/// Returns the dependencies that a model forbids to form a cycle.
fn view(model: Model) -> View {
    let mut kinds = vec![EdgeKind::Ww, EdgeKind::Wr];
    if model != Model::ReadCommitted {
        kinds.extend([EdgeKind::Rw, EdgeKind::Via]);
    }
    match model.order() {
        Order::Any => {}
        Order::Session => kinds.push(EdgeKind::Session),
        Order::RealTime => {
            kinds.extend([EdgeKind::RealTime, EdgeKind::WwByTime, EdgeKind::RwByTime]);
        }
    }
    let allows_adjacent = !model.is_snapshot_isolation();
    View { kinds: EdgeKinds::new(&kinds), allows_adjacent }
}

/// Returns the strongest client order that a chain of dependencies uses.
fn strongest_order(steps: &[Step]) -> Order {
    let order = steps.iter().map(|step| match step.kind {
        EdgeKind::RealTime | EdgeKind::WwByTime | EdgeKind::RwByTime => Order::RealTime,
        EdgeKind::Session => Order::Session,
        _ => Order::Any,
    });
    order.max().unwrap_or(Order::Any)
}

fn classify(steps: &[Step]) -> AnomalyKind {
    let order = strongest_order(steps);
    let is_anti: Vec<bool> = steps.iter().map(|step| step.kind.is_anti_dependency()).collect();
    let neighbours = is_anti.iter().zip(is_anti.iter().cycle().skip(1));
    match is_anti.iter().filter(|anti| **anti).count() {
        0 if steps.iter().any(|step| step.kind == EdgeKind::Wr) => AnomalyKind::G1c(order),
        0 => AnomalyKind::G0(order),
        1 => AnomalyKind::GSingle(order),
        _ if neighbours.into_iter().any(|(a, b)| *a && *b) => AnomalyKind::G2Item(order),
        _ => AnomalyKind::GNonadjacent(order),
    }
}
