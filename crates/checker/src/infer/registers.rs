//! Registers: the order of versions is known only in part.
//!
//! Three facts imply that version v came before version w:
//!
//! * v is the initial state, nil;
//! * a transaction read v and then wrote w. (If w came before v, the transaction would both see and
//!   overwrite v's writer: G1c. So this holds in every history that is read committed.);
//! * a transaction had v and was answered before a transaction that had w was invoked. This holds
//!   only if real time is respected, so its consequences contradict no other model, unless the user
//!   vouches for it ([`crate::Options::linearizable_keys`]).
//!
//! Every reader of v comes before every writer of a later w.

use std::collections::{BTreeMap, HashMap};

use crate::graph::{EdgeKind, GraphBuilder, id};
use crate::history::Op;
use crate::infer::Index;
use crate::model::AnomalyKind;
use crate::report::Findings;

/// Maximum number of concurrently current versions that are each ordered before a later one. There
/// are more only if as many transactions on one register overlap; omitting some proves less.
const CURRENT_MAX: usize = 64;

/// A version of a key: the written value, or `None` for the initial state.
type VersionName = (u32, Option<i64>);

#[derive(Debug, Default)]
struct Version {
    readers: Vec<u32>,
    /// Writers of later versions.
    next: Vec<u32>,
    /// Writers of later versions, if real time is respected.
    next_by_time: Vec<u32>,
}

/// Value that a committed transaction found in a register, and value that it left.
#[derive(Clone, Copy, Debug)]
struct Access {
    transaction: u32,
    found: Option<i64>,
    left: Option<i64>,
}

#[derive(Debug, Default)]
struct Registers {
    names: HashMap<VersionName, usize>,
    versions: Vec<(VersionName, Version)>,
    accesses: Vec<Vec<Access>>,
    updates: Vec<Vec<(u32, u32)>>,
}

impl Registers {
    fn number(&mut self, name: VersionName) -> usize {
        *self.names.entry(name).or_insert_with(|| {
            self.versions.push((name, Version::default()));
            self.versions.len() - 1
        })
    }

    fn version(&mut self, name: VersionName) -> &mut Version {
        let number = self.number(name);
        &mut self.versions[number].1
    }
}

/// State of a transaction's own operations on one register; it belongs to `transaction`.
#[derive(Clone, Copy, Debug, Default)]
struct Local {
    transaction: Option<u32>,
    own: Option<i64>,
    first_read: Option<Option<i64>>,
    has_updated: bool,
    is_inconsistent: bool,
}

/// Adds all edges and anomalies of a register history.
pub(crate) fn infer(
    index: &mut Index<'_>,
    vouched_for_time: bool,
    graph: &mut GraphBuilder,
    findings: &mut Findings,
) {
    let mut registers = collect(index, findings);
    for ((key, value), version) in &registers.versions {
        if let (Some(value), Some(&reader)) = (value, version.readers.first()) {
            index.see(reader, *key, *value, findings);
        }
    }
    add_initial(index, &mut registers);
    let time_edge = if vouched_for_time { EdgeKind::Ww } else { EdgeKind::WwByTime };
    for key in 0..registers.accesses.len() {
        let returned = add_by_time(index, id(key), &mut registers, time_edge, graph);
        if let Some(returned) = returned.filter(|_| vouched_for_time) {
            report_return(index, id(key), returned, findings);
        }
    }
    let anti_by_time = if vouched_for_time { EdgeKind::Rw } else { EdgeKind::RwByTime };
    for ((key, value), version) in &mut registers.versions {
        for list in [&mut version.readers, &mut version.next, &mut version.next_by_time] {
            list.sort_unstable();
            list.dedup();
        }
        if let Some(value) = *value {
            for &reader in &version.readers {
                if let Some(writer) = index.read_newest(reader, *key, value, findings) {
                    graph.edge(writer, reader, EdgeKind::Wr, *key);
                }
            }
            if let Some(writer) = happened_writer(index, *key, value) {
                version.next.iter().for_each(|&to| graph.edge(writer, to, EdgeKind::Ww, *key));
            }
        }
        graph.relate(&version.readers, &version.next, EdgeKind::Rw, *key);
        graph.relate(&version.readers, &version.next_by_time, anti_by_time, *key);
    }
    for key in 0..registers.updates.len() {
        let versions = &registers.versions;
        let shown = |number: u32| match versions[number as usize].0.1 {
            Some(value) => value.to_string(),
            None => "nil".to_owned(),
        };
        index.lost_updates(id(key), &mut registers.updates[key], shown, findings);
    }
}

fn happened_writer(index: &Index<'_>, key: u32, value: i64) -> Option<u32> {
    let writer = index.writes.get(&(key, value))?.transaction;
    index.happened[writer as usize].then_some(writer)
}

/// Groups operations by register, and checks each transaction against itself.
fn collect(index: &Index<'_>, findings: &mut Findings) -> Registers {
    let keys = index.keys.len();
    let mut registers = Registers::default();
    registers.accesses.resize_with(keys, Vec::new);
    registers.updates.resize_with(keys, Vec::new);
    let mut locals = vec![Local::default(); keys];
    let mut touched: Vec<u32> = Vec::new();
    for number in (0..id(index.history.transactions().len())).filter(|&n| index.is_committed(n)) {
        for (at, key, op) in index.ops_of(number) {
            let local = &mut locals[key as usize];
            if local.transaction != Some(number) {
                *local = Local { transaction: Some(number), ..Local::default() };
                touched.push(key);
            }
            match *op {
                Op::Write { value, .. } => {
                    if let Some(read) = local.first_read.filter(|_| !local.has_updated) {
                        registers.version((key, read)).next.push(number);
                        let version = id(registers.number((key, read)));
                        registers.updates[key as usize].push((version, number));
                        local.has_updated = true;
                    }
                    local.own = Some(value);
                }
                Op::ReadRegister { value, .. } => {
                    if compare(index, (number, at), key, value, local, findings) {
                        registers.version((key, value)).readers.push(number);
                        local.first_read.get_or_insert(value);
                    }
                }
                Op::Append { .. } | Op::ReadList { .. } => {}
            }
        }
        for key in touched.drain(..) {
            let local = locals[key as usize];
            let found = local.first_read.unwrap_or(local.own);
            let left = local.own.or(found);
            if !local.is_inconsistent {
                let access = Access { transaction: number, found, left };
                registers.accesses[key as usize].push(access);
            }
        }
    }
    registers
}

/// Compares a read with the transaction's own operations; returns whether it shows a version of
/// others.
fn compare(
    index: &Index<'_>,
    (reader, at): (u32, u32),
    key: u32,
    value: Option<i64>,
    local: &mut Local,
    findings: &mut Findings,
) -> bool {
    let name = index.keys[key as usize];
    let shown = |value: Option<i64>| value.map_or("nil".to_owned(), |value| value.to_string());
    if local.own.is_some() && local.own == value {
        return false;
    }
    if let Some(own) = local.own {
        local.is_inconsistent = true;
        findings.add(AnomalyKind::Internal, &[reader], || {
            vec![format!("T{reader} had written {own} to {name}, but then read {}", shown(value))]
        });
    } else if let Some(before) = local.first_read.filter(|before| *before != value) {
        local.is_inconsistent = true;
        findings.add(AnomalyKind::Internal, &[reader], || {
            let (before, after) = (shown(before), shown(value));
            vec![format!("T{reader} read {name} twice: first {before}, then {after}")]
        });
    }
    let write = value.and_then(|value| index.writes.get(&(key, value)));
    let Some(own) = write.filter(|write| write.transaction == reader) else { return true };
    if own.op > at {
        local.is_inconsistent = true;
        findings.add(AnomalyKind::FutureRead, &[reader], || {
            let value = shown(value);
            vec![format!("T{reader} read {value} from {name} before it wrote {value} itself")]
        });
    }
    false
}

/// Orders the initial state of each register, if it was read, before all writes.
fn add_initial(index: &Index<'_>, registers: &mut Registers) {
    let transactions = 0..id(index.history.transactions().len());
    for number in transactions.filter(|&number| index.happened[number as usize]) {
        for (_, key, op) in index.ops_of(number) {
            if let (Op::Write { .. }, Some(&initial)) = (op, registers.names.get(&(key, None))) {
                registers.versions[initial].1.next.push(number);
            }
        }
    }
}

/// Orders versions by the times at which transactions had them. Returns the first return to the
/// initial state, which no edge can express, because no transaction wrote that state.
fn add_by_time(
    index: &Index<'_>,
    key: u32,
    registers: &mut Registers,
    kind: EdgeKind,
    graph: &mut GraphBuilder,
) -> Option<Return> {
    let accesses = std::mem::take(&mut registers.accesses[key as usize]);
    let span = |access: &Access| {
        let transaction = &index.history.transactions()[access.transaction as usize];
        let completed = transaction.completed.expect("a committed transaction was answered");
        (transaction.invoked.index, completed.index)
    };
    let mut answers: Vec<(u64, Access)> = accesses.iter().map(|a| (span(a).1, *a)).collect();
    answers.sort_unstable_by_key(|(completed, _)| *completed);
    let mut answers = answers.into_iter().peekable();
    // Versions left by accesses such that no later invoked access has been answered; each version
    // once, by its last answer.
    let mut current: BTreeMap<u64, Current> = BTreeMap::new();
    let mut last_answer: HashMap<i64, u64> = HashMap::new();
    let mut returned = None;
    for access in &accesses {
        let (invoked, _) = span(access);
        while let Some((completed, answer)) = answers.next_if(|(at, _)| *at < invoked) {
            while let Some(first) = current.first_entry()
                && *first.key() < span(&answer).0
            {
                first.remove();
            }
            if let Some(value) = answer.left {
                let version = registers.number((key, Some(value)));
                let writer = happened_writer(index, key, value);
                if let Some(before) = last_answer.insert(value, completed) {
                    current.remove(&before);
                }
                let transaction = answer.transaction;
                current.insert(completed, Current { transaction, value, version, writer });
            }
        }
        let Some(later) = access.found else {
            let before = current.values().next_back();
            returned = returned.or(before.map(|&before| (before, access.transaction)));
            continue;
        };
        let Some(to) = happened_writer(index, key, later) else { continue };
        let earlier = current.values().rev().filter(|before| before.value != later);
        for before in earlier.take(CURRENT_MAX) {
            registers.versions[before.version].1.next_by_time.push(to);
            if let Some(from) = before.writer {
                graph.edge(from, to, kind, key);
            }
        }
    }
    returned
}

/// A version, and the transaction that found the initial state after it.
type Return = (Current, u32);

fn report_return(index: &Index<'_>, key: u32, (before, reader): Return, findings: &mut Findings) {
    let Current { transaction: earlier, value, .. } = before;
    findings.add(AnomalyKind::CyclicVersions, &[earlier, reader], || {
        let name = index.keys[key as usize];
        vec![format!(
            "T{earlier} had {name} as {value} and was answered before T{reader} was invoked, which \
             read nil: the version before all writes came after {value}, though {name} was \
             promised to be linearizable"
        )]
    });
}

/// A version that a transaction had recently.
#[derive(Clone, Copy, Debug)]
struct Current {
    /// The last transaction that had it.
    transaction: u32,
    value: i64,
    version: usize,
    writer: Option<u32>,
}
