//! List-append: a read of a list shows the whole order of its versions.
//!
//! All reads of a list must be prefixes of the longest one; its elements, by their writers, are the
//! order of the versions. As in Elle, a read that ends with the reader's own appends is a version
//! too. If another append later comes between, that version never existed. Dependencies on other
//! transactions are derived from the part before the own appends.
//!
//! ```text
//! x: 1 2 3            T2 appended 2, T3 appended 3      T2 ─ww▶ T3
//! T5 read [1 2]       T2 ─wr▶ T5 ─rw▶ T3
//! ```
//!
//! A committed append that no read shows came after all shown ones (it is in no prefix of the
//! order), so the readers of the longest list did not see it. This detects a lost append.

use std::collections::HashSet;

use crate::graph::{EdgeKind, GraphBuilder, id};
use crate::history::{Op, ShownList};
use crate::infer::Index;
use crate::model::AnomalyKind;
use crate::report::Findings;

/// A committed transaction's read of one list.
#[derive(Clone, Copy, Debug)]
struct Read<'h> {
    transaction: u32,
    op: u32,
    /// All returned elements.
    whole: &'h [i64],
    /// Elements appended by other transactions, without own appends at the end.
    seen: &'h [i64],
}

/// Information about one list.
#[derive(Debug, Default)]
struct List<'h> {
    reads: Vec<Read<'h>>,
    /// The longest read, whose elements are in the order of the versions.
    order: &'h [i64],
    longest_reader: u32,
    /// Whether a read is not a prefix of the order, so that there is no order.
    is_broken: bool,
    /// Length of the list that a transaction read before it appended, with the transaction.
    updates: Vec<(u32, u32)>,
    /// Elements and their writers, in the order of invocation, without aborted ones.
    appends: Vec<(i64, u32)>,
}

/// State of a transaction's own operations on one list; it belongs to `transaction`.
#[derive(Clone, Debug, Default)]
struct Local<'h> {
    transaction: Option<u32>,
    own: Vec<i64>,
    first_seen: Option<&'h [i64]>,
    has_updated: bool,
}

/// Adds all edges and anomalies of a list-append history.
pub(crate) fn infer(index: &mut Index<'_>, graph: &mut GraphBuilder, findings: &mut Findings) {
    let mut lists = collect(index, findings);
    for (key, list) in lists.iter_mut().enumerate() {
        find_order(index, id(key), list, findings);
    }
    // Only now it is known of every transaction whether it happened.
    for (key, list) in lists.iter_mut().enumerate() {
        add_edges(index, id(key), list, graph, findings);
    }
}

/// Returns the elements of the longest read of each list.
pub(crate) fn orders<'h>(index: &Index<'h>) -> Vec<&'h [i64]> {
    let lists = collect(index, &mut Findings::default());
    lists.iter().map(|list| longest(list).map_or(&[][..], |read| read.whole)).collect()
}

fn longest<'h>(list: &List<'h>) -> Option<Read<'h>> {
    // The first of the longest, so that a history always gets the same explanation.
    list.reads.iter().rev().max_by_key(|read| read.whole.len()).copied()
}

/// Groups operations by list, and checks each transaction against itself.
fn collect<'h>(index: &Index<'h>, findings: &mut Findings) -> Vec<List<'h>> {
    let mut lists: Vec<List<'h>> = Vec::new();
    lists.resize_with(index.keys.len(), List::default);
    let mut locals: Vec<Local<'h>> = vec![Local::default(); index.keys.len()];
    for number in 0..id(index.history.transactions().len()) {
        for (at, key, op) in index.ops_of(number) {
            let list = &mut lists[key as usize];
            if let Op::Append { element, .. } = op
                && index.outcome(number) != crate::Outcome::Aborted
            {
                list.appends.push((*element, number));
            }
            if !index.is_committed(number) {
                continue;
            }
            let local = &mut locals[key as usize];
            if local.transaction != Some(number) {
                local.transaction = Some(number);
                local.own.clear();
                (local.first_seen, local.has_updated) = (None, false);
            }
            match op {
                Op::Append { element, .. } => {
                    if let Some(seen) = local.first_seen.filter(|_| !local.has_updated) {
                        list.updates.push((id(seen.len()), number));
                        local.has_updated = true;
                    }
                    local.own.push(*element);
                }
                Op::ReadList { list: whole, .. } => {
                    let seen = compare(index, (number, at), key, whole, local, findings);
                    if local.first_seen != Some(seen) || seen.len() < whole.len() {
                        list.reads.push(Read { transaction: number, op: at, whole, seen });
                    }
                    local.first_seen.get_or_insert(seen);
                }
                Op::Write { .. } | Op::ReadRegister { .. } => {}
            }
        }
    }
    lists
}

/// Compares a read with the transaction's own operations, and returns the elements of others.
fn compare<'h>(
    index: &Index<'h>,
    (reader, at): (u32, u32),
    key: u32,
    read: &'h [i64],
    local: &Local<'h>,
    findings: &mut Findings,
) -> &'h [i64] {
    let name = index.keys[key as usize];
    let seen = if let Some(seen) = read.strip_suffix(&local.own[..]) {
        seen
    } else {
        findings.add(AnomalyKind::Internal, &[reader], || {
            vec![format!(
                "T{reader} had appended {} to {name}, but then read {}",
                ShownList(&local.own),
                ShownList(read)
            )]
        });
        let writer_of = |element: i64| index.writes.get(&(key, element));
        let is_own = |element: i64| {
            writer_of(element).is_some_and(|write| write.transaction == reader && write.op < at)
        };
        let seen = read.iter().rposition(|&element| !is_own(element)).map_or(0, |last| last + 1);
        &read[..seen]
    };
    if let Some(before) = local.first_seen.filter(|before| *before != seen) {
        findings.add(AnomalyKind::Internal, &[reader], || {
            vec![format!(
                "T{reader} read {name} twice: first it saw {} of others, then {}",
                ShownList(before),
                ShownList(seen)
            )]
        });
    }
    seen
}

fn report_duplicates(reader: u32, name: &crate::Key, list: &[i64], findings: &mut Findings) {
    let mut seen = HashSet::with_capacity(list.len());
    if let Some(twice) = list.iter().find(|element| !seen.insert(**element)) {
        findings.add(AnomalyKind::DuplicateElements, &[reader], || {
            let list = ShownList(list);
            vec![format!("T{reader} read {twice} twice in {name}, appended once: {list}")]
        });
    }
}

/// Determines the order of a list's versions, and the transactions seen in it.
fn find_order(index: &mut Index<'_>, key: u32, list: &mut List<'_>, findings: &mut Findings) {
    let Some(longest) = longest(list) else { return };
    let name = index.keys[key as usize];
    (list.order, list.longest_reader) = (longest.whole, longest.transaction);
    for &element in longest.whole {
        index.see(longest.transaction, key, element, findings);
    }
    report_duplicates(longest.transaction, name, longest.whole, findings);
    for read in &list.reads {
        if longest.whole.starts_with(read.whole) {
            continue;
        }
        list.is_broken = true;
        let (a, b) = (read.transaction, longest.transaction);
        findings.add(AnomalyKind::IncompatibleOrder, &[a, b], || {
            vec![format!(
                "T{a} read {name} as {}, T{b} as {}: neither continues the other, so whatever the \
                 order of the appends, one of them read what did not stay",
                ShownList(read.whole),
                ShownList(longest.whole)
            )]
        });
        for &element in read.whole {
            index.see(read.transaction, key, element, findings);
        }
        report_duplicates(read.transaction, name, read.whole, findings);
    }
}

fn add_edges(
    index: &Index<'_>,
    key: u32,
    list: &mut List<'_>,
    graph: &mut GraphBuilder,
    findings: &mut Findings,
) {
    for read in &list.reads {
        add_newest(index, key, *read, graph, findings);
    }
    if list.is_broken {
        return;
    }
    let writer_of = |element: i64| index.writes.get(&(key, element)).copied();
    let is_real = |write: &crate::infer::Write| index.happened[write.transaction as usize];
    let writers: Vec<Option<crate::infer::Write>> =
        list.order.iter().map(|&element| writer_of(element).filter(is_real)).collect();

    let mut last: Option<crate::infer::Write> = None;
    for write in writers.iter().flatten() {
        let (before, after) = (last.replace(*write), *write);
        let Some(before) = before else { continue };
        graph.edge(before.transaction, after.transaction, EdgeKind::Ww, key);
        if before.transaction == after.transaction && before.op > after.op {
            report_shuffled(index, key, list, after.transaction, findings);
        }
    }

    // For each length of a read, the next transaction that appended.
    let mut next: Vec<Option<u32>> = vec![None; writers.len() + 1];
    for (at, write) in writers.iter().enumerate().rev() {
        next[at] = write.map(|write| write.transaction).or(next[at + 1]);
    }
    let mut at_end = Vec::new();
    for read in &list.reads {
        match next[read.seen.len()] {
            Some(writer) => graph.edge(read.transaction, writer, EdgeKind::Rw, key),
            None => at_end.push(read.transaction),
        }
    }
    let seen: HashSet<i64> = list.order.iter().copied().collect();
    let unseen = list.appends.iter().filter(|(element, _)| !seen.contains(element));
    let unseen = unseen.map(|&(_, writer)| writer);
    let mut unseen: Vec<u32> = unseen.filter(|&writer| index.happened[writer as usize]).collect();
    unseen.dedup();
    at_end.dedup();
    graph.relate(&at_end, &unseen, EdgeKind::Rw, key);
    if let Some(last) = last {
        graph.relate(&[last.transaction], &unseen, EdgeKind::Ww, key);
    }
    let shown = |length: u32| ShownList(&list.order[..length as usize]).to_string();
    index.lost_updates(key, &mut list.updates, shown, findings);
}

/// Adds the edge that the last element of a read implies.
fn add_newest(
    index: &Index<'_>,
    key: u32,
    read: Read<'_>,
    graph: &mut GraphBuilder,
    findings: &mut Findings,
) {
    let (Some(&newest), reader) = (read.seen.last(), read.transaction) else { return };
    if let Some(writer) = index.read_newest(reader, key, newest, findings) {
        graph.edge(writer, reader, EdgeKind::Wr, key);
    }
    let own = index.writes.get(&(key, newest)).filter(|write| write.transaction == reader);
    let Some(own) = own else { return };
    let name = index.keys[key as usize];
    if own.op > read.op {
        findings.add(AnomalyKind::FutureRead, &[reader], || {
            vec![format!("T{reader} read {newest} in {name} before it appended {newest} itself")]
        });
    }
}

fn report_shuffled(
    index: &Index<'_>,
    key: u32,
    list: &List<'_>,
    writer: u32,
    findings: &mut Findings,
) {
    let reader = list.longest_reader;
    findings.add(AnomalyKind::IncompatibleOrder, &[reader, writer], || {
        let name = index.keys[key as usize];
        vec![format!(
            "T{writer} appended to {name} in the order {}, but T{reader} read them in another: {}",
            ShownList(&index.written(writer, key).collect::<Vec<_>>()),
            ShownList(list.order)
        )]
    });
}
