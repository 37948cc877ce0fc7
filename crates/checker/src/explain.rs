//! Explains in words why one transaction comes before another.

use std::collections::HashMap;

use crate::cycle::{Interference, Step};
use crate::graph::EdgeKind;
use crate::history::{Op, ShownList, Workload};
use crate::infer::{Index, lists};

/// Turns cycles into sentences.
pub(crate) struct Explainer<'i, 'h> {
    index: &'i Index<'h>,
    /// Index of each element in the order of its list's appends; empty for registers.
    places: HashMap<(u32, i64), usize>,
}

impl<'i, 'h> Explainer<'i, 'h> {
    pub(crate) fn new(index: &'i Index<'h>) -> Self {
        let orders = match index.history.workload() {
            Workload::ListAppend => lists::orders(index),
            Workload::Register => Vec::new(),
        };
        let mut places = HashMap::new();
        for (key, order) in (0..).zip(orders) {
            for (place, &element) in order.iter().enumerate() {
                places.entry((key, element)).or_insert(place);
            }
        }
        Self { index, places }
    }

    /// Returns a sentence for each step of a cycle, and the contradiction.
    pub(crate) fn cycle(&self, steps: &[Step]) -> Vec<String> {
        let mut reasons: Vec<String> = steps.iter().map(|step| self.step(step)).collect();
        if let Some(first) = steps.first() {
            reasons.push(format!("so T{} would come before itself: a contradiction", first.from));
        }
        reasons
    }

    /// Returns a sentence for each step between two interfering transactions, and the reason of the
    /// interference.
    pub(crate) fn interference(&self, found: &Interference) -> Vec<String> {
        let Interference { key, rivals: (a, b), steps } = found;
        let mut reasons: Vec<String> = steps.iter().map(|step| self.step(step)).collect();
        let name = self.index.keys[*key as usize];
        reasons.push(format!(
            "so neither T{a} nor T{b} saw the other, but both wrote {name}: one snapshot should \
             have held the other's write"
        ));
        reasons
    }

    /// Returns `true` if reads show the position of an element in its list.
    pub(crate) fn is_placed(&self, key: u32, element: i64) -> bool {
        self.places.contains_key(&(key, element))
    }

    fn step(&self, step: &Step) -> String {
        let Step { from, to, .. } = step;
        format!("T{from} comes before T{to}, because {}", self.reason(step))
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
        let of = |element: &i64| self.index.writes.get(&(key, *element)).map(|w| w.transaction);
        let place = |element: &i64| self.places.get(&(key, *element));
        let seen_of = |writer| self.index.written(writer, key).filter(|e| place(e).is_some());
        let first_of_to = seen_of(to).min_by_key(place);
        let unseen = || self.index.written(to, key).find(|element| place(element).is_none());
        let (later, is_seen) = match first_of_to {
            Some(element) => (Some(element), true),
            None => (unseen(), false),
        };
        let (later, nobody) = match (later, is_seen) {
            (Some(element), true) => (element.to_string(), ""),
            (Some(element), false) => {
                (element.to_string(), " (which no read of it shows, so it comes after all reads)")
            }
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
                let earlier = seen_of(from).max_by_key(place);
                let earlier = earlier.map_or_else(String::new, |element| element.to_string());
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
                "{name} was {earlier}, by T{from}, for a transaction that was answered before \
                 another was invoked, which had it as {later}, by T{to}"
            ),
            _ => format!(
                "{name} was {earlier}, by T{from}, for a transaction that then changed it to \
                 {later}, by T{to}"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::history::Recorder;
    use crate::{Key, Outcome};

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the test measures time")]
    fn a_long_cycle_is_explained_in_linear_time() {
        const COUNT: u32 = 30_000;
        let key = || Key::Int(1);
        let mut recorder = Recorder::default();
        let mut add = |process: u32, op: Op| {
            let call = recorder.invoke(process.into(), 0, vec![op]);
            recorder.complete(call, 0, Outcome::Committed, None);
        };
        for n in 0..COUNT {
            add(n, Op::Append { key: key(), element: n.into() });
        }
        add(COUNT, Op::ReadList { key: key(), list: (0..COUNT).map(i64::from).collect() });
        let history = recorder.finish().unwrap();
        let index = Index::new(&history).unwrap();
        let step = |from| Step { from, to: (from + 1) % COUNT, kind: EdgeKind::Ww, key: 0 };
        let steps: Vec<Step> = (0..COUNT).map(step).collect();
        let begin = Instant::now();
        let reasons = Explainer::new(&index).cycle(&steps);
        assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
        assert!(reasons[7].ends_with("in 1, 7 by T7 comes before 8 by T8"), "{}", reasons[7]);
    }
}
