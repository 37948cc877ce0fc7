//! The order that clients observed themselves: sessions and real time.

use std::collections::HashMap;

use crate::graph::{EdgeKind, GraphBuilder, NO_KEY, id};
use crate::history::Outcome;
use crate::infer::Index;

/// Adds an edge from each transaction of a client to its next.
///
/// An unknown transaction may take effect after the client's next one, so no edge starts there.
pub(crate) fn sessions(index: &Index<'_>, graph: &mut GraphBuilder) {
    let mut last: HashMap<i64, (u32, u64)> = HashMap::new();
    for (number, transaction) in index.history.transactions().iter().enumerate() {
        if !index.happened[number] {
            continue;
        }
        let number = id(number);
        if let Some(&(before, completed)) = last.get(&transaction.process)
            && completed < transaction.invoked.index
        {
            graph.edge(before, number, EdgeKind::Session, NO_KEY);
        }
        if let (Outcome::Committed, Some(completed)) = (transaction.outcome, transaction.completed)
        {
            last.insert(transaction.process, (number, completed.index));
        }
    }
}

/// Adds edges from each answered transaction to all that were invoked later: a chain of joints in
/// time, one for each run of answers.
///
/// ```text
/// T1 ──▶ joint ─────▶ joint ──▶ T4      T1 before T3 and T4, T2 before T4
///          │            ▲
///          ▼ T3      T2 ┘
/// ```
pub(crate) fn real_time(index: &Index<'_>, graph: &mut GraphBuilder) {
    let transactions = index.history.transactions();
    let mut answers: Vec<(u64, u32)> = Vec::new();
    for (number, transaction) in transactions.iter().enumerate() {
        if let (Outcome::Committed, Some(completed)) = (transaction.outcome, transaction.completed)
        {
            answers.push((completed.index, id(number)));
        }
    }
    answers.sort_unstable();
    let mut answers = answers.into_iter().peekable();
    let mut newest: Option<u32> = None;
    for (number, transaction) in transactions.iter().enumerate() {
        if !index.happened[number] {
            continue;
        }
        let mut joint = None;
        while let Some((_, answered)) =
            answers.next_if(|(completed, _)| *completed < transaction.invoked.index)
        {
            let joint = *joint.get_or_insert_with(|| graph.joint());
            graph.edge(answered, joint, EdgeKind::RealTime, NO_KEY);
        }
        if let (Some(before), Some(after)) = (newest, joint) {
            graph.edge(before, after, EdgeKind::Via, NO_KEY);
        }
        newest = joint.or(newest);
        if let Some(joint) = newest {
            graph.edge(joint, id(number), EdgeKind::Via, NO_KEY);
        }
    }
}
