//! Says in words why one transaction comes before another.

use crate::cycle::Step;
use crate::graph::EdgeKind;
use crate::history::{Op, ShownList, Workload};
use crate::infer::{Index, lists};

/// Turns cycles into sentences.
pub(crate) struct Explainer<'i, 'h> {
    index: &'i Index<'h>,
    /// The elements of each list in the order of their appends; none for registers.
    orders: Vec<&'h [i64]>,
}

impl<'i, 'h> Explainer<'i, 'h> {
    pub(crate) fn new(index: &'i Index<'h>) -> Self {
        let orders = match index.history.workload() {
            Workload::ListAppend => lists::orders(index),
            Workload::Register => Vec::new(),
        };
        Self { index, orders }
    }

    /// Returns a sentence for each step of a cycle, and the contradiction.
    pub(crate) fn cycle(&self, steps: &[Step]) -> Vec<String> {
        let reason = |step: &Step| {
            let Step { from, to, .. } = step;
            format!("T{from} comes before T{to}, because {}", self.reason(step))
        };
        let mut reasons: Vec<String> = steps.iter().map(reason).collect();
        if let Some(first) = steps.first() {
            reasons.push(format!("so T{} would come before itself: a contradiction", first.from));
        }
        reasons
    }

    fn reason(&self, step: &Step) -> String {
        let transactions = self.index.history.transactions();
        let Step { from, to, kind, key } = *step;
        let (first, second) = (&transactions[from as usize], &transactions[to as usize]);
        let answered = first.completed.map_or(0, |moment| moment.index);
        let invoked = second.invoked.index;
        match (kind, self.index.history.workload()) {
            (EdgeKind::RealTime | EdgeKind::Via, _) => format!(
                "T{from} was answered (at {answered}) before T{to} was invoked (at {invoked})"
            ),
            (EdgeKind::Session, _) => format!(
                "process {} had T{from} answered (at {answered}) before it invoked T{to} (at \
                 {invoked})",
                first.process
            ),
            (_, Workload::ListAppend) => self.list(from, to, kind, key),
            (_, Workload::Register) => self.register(from, to, kind, key),
        }
    }

    fn list(&self, from: u32, to: u32, kind: EdgeKind, key: u32) -> String {
        let name = self.index.keys[key as usize];
        let order = self.orders[key as usize];
        let of = |element: &i64| self.index.writes.get(&(key, *element)).map(|w| w.transaction);
        let at = |element: i64| order.iter().position(|other| *other == element);
        let first_of_to = order.iter().copied().find(|element| of(element) == Some(to));
        let unseen = || self.index.written(to, key).find(|element| at(*element).is_none());
        let (later, is_seen) = match first_of_to {
            Some(element) => (Some(element), true),
            None => (unseen(), false),
        };
        let (later, nobody) = match (later, is_seen) {
            (Some(element), true) => (element.to_string(), ""),
            (Some(element), false) => (
                element.to_string(),
                " (which no read of it shows, so that it comes after all that was read)",
            ),
            (None, _) => ("something".to_owned(), ""),
        };
        match kind {
            EdgeKind::Wr => {
                let read = self.reads(to, key).find(|read| {
                    read.iter().rev().find(|element| of(element) != Some(to)).and_then(of)
                        == Some(from)
                });
                let read = read.unwrap_or_default();
                let newest = read.iter().rev().find(|element| of(element) == Some(from));
                let newest = newest.map_or_else(String::new, i64::to_string);
                format!("T{to} read {name} as {}, whose {newest} T{from} appended", ShownList(read))
            }
            EdgeKind::Rw | EdgeKind::RwByTime => {
                let reads = self.reads(from, key);
                let read = reads.min_by_key(|read| read.len()).unwrap_or_default();
                format!(
                    "T{from} read {name} as {}, which lacks {later}, appended by T{to}{nobody}",
                    ShownList(read)
                )
            }
            _ => {
                let earlier = order.iter().rev().find(|element| of(element) == Some(from));
                let earlier = earlier.map_or_else(String::new, i64::to_string);
                format!("in {name}, {earlier} by T{from} comes before {later} by T{to}{nobody}")
            }
        }
    }

    fn reads(&self, number: u32, key: u32) -> impl Iterator<Item = &'h [i64]> {
        let ops = self.index.ops_of(number).filter(move |(_, of, _)| *of == key);
        ops.filter_map(|(_, _, op)| match op {
            Op::ReadList { list, .. } => Some(&list[..]),
            _ => None,
        })
    }

    fn register(&self, from: u32, to: u32, kind: EdgeKind, key: u32) -> String {
        let name = self.index.keys[key as usize];
        let last_of = |number| self.index.written(number, key).next_back();
        let shown = |value: Option<i64>| value.map_or("nil".to_owned(), |v| v.to_string());
        let (earlier, later) = (shown(last_of(from)), shown(last_of(to)));
        match kind {
            EdgeKind::Wr => {
                format!("T{to} read {earlier} from {name}, which T{from} wrote")
            }
            EdgeKind::Rw | EdgeKind::RwByTime => {
                let ops = self.index.ops_of(from).filter(|(_, of, _)| *of == key);
                let read = ops.map(|(_, _, op)| op).find_map(|op| match *op {
                    Op::ReadRegister { value, .. } => Some(value),
                    _ => None,
                });
                let time = if kind == EdgeKind::RwByTime { " in real time" } else { "" };
                let read = shown(read.flatten());
                format!(
                    "T{from} read {read} from {name}, which comes before {later}, written by \
                     T{to}{time}"
                )
            }
            EdgeKind::WwByTime => format!(
                "{name} was {earlier}, by T{from}, for somebody who was answered before somebody \
                 who had it as {later}, by T{to}, was invoked"
            ),
            _ => format!(
                "{name} was {earlier}, by T{from}, for somebody who then made it {later}, by T{to}"
            ),
        }
    }
}
