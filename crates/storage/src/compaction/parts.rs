//! Subcompactions: the parts of one compaction, which several threads run concurrently.
//!
//! ```text
//!  level 0   ├──────────────────────────────────────┤      each part: its own merge, its own files
//!            ├─────────────────────────────────┤
//!  base      ├── a ──┤├── b ──┤├─ c ─┤├─ d ─┤├── e ──┤
//!                             ▲            ▲
//!            │    part 0      │   part 1   │  part 2 │     one edit, when the last one is done
//! ```
//!
//! Parts end where a table of the largest sorted input begins, so the output has hardly more files
//! than that of a single merge. The keys of a merge are independent of each other, except for range
//! tombstones, which are split at the ends of parts as they are at the ends of files. So the parts
//! together write the same as a single merge, each with its own GC watermark.
//!
//! The division assumes that level 0 has the key distribution of the largest sorted input; a part
//! with more than its share of level 0 takes longer. Without a sorted input of at least two tables
//! the compaction is not divided.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;

use super::policy::{Config, Plan};
use crate::manifest::{Edit, FlatRange, Levels, TableMeta};

/// Progress of a divided compaction: pending, running and finished parts.
#[derive(Clone, Debug)]
pub struct Parts {
    plan: Arc<Plan>,
    levels: Arc<Levels>,
    unbegun: VecDeque<FlatRange>,
    under_way: usize,
    add: Vec<TableMeta>,
    is_abandoned: bool,
}

/// A part of a compaction for one thread.
#[derive(Clone, Debug)]
pub struct Part {
    /// Plan of the whole compaction.
    pub plan: Arc<Plan>,
    /// Levels on which it was planned.
    pub levels: Arc<Levels>,
    /// Key range of this part.
    pub range: FlatRange,
}

impl Parts {
    /// Divides a compaction that was planned on `levels` into at most `parts_max` parts of
    /// sufficient size.
    #[must_use]
    pub fn new(plan: Plan, levels: Levels, config: &Config, parts_max: usize) -> Self {
        let worthy = plan.bytes() / config.part_bytes.max(1);
        let parts = usize::try_from(worthy).unwrap_or(usize::MAX).min(parts_max);
        let bounds = bounds(&plan, parts);
        Self::between(plan, levels, bounds)
    }

    /// Divides a compaction at ascending keys within its range.
    pub(super) fn between(plan: Plan, levels: Levels, bounds: Vec<Bytes>) -> Self {
        let mut unbegun = VecDeque::with_capacity(bounds.len() + 1);
        let mut lower = plan.hull.lower.clone();
        for bound in bounds {
            unbegun.push_back(FlatRange::new(lower, bound.clone()));
            lower = bound;
        }
        unbegun.push_back(FlatRange::new(lower, plan.hull.upper.clone()));
        let (plan, levels) = (Arc::new(plan), Arc::new(levels));
        Self { plan, levels, unbegun, under_way: 0, add: Vec::new(), is_abandoned: false }
    }

    /// Returns the plan.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Starts the next pending part; the caller has to run it.
    pub fn begin(&mut self) -> Option<Part> {
        let range = self.unbegun.pop_front()?;
        self.under_way += 1;
        Some(Part { plan: Arc::clone(&self.plan), levels: Arc::clone(&self.levels), range })
    }

    /// Ends a part with its edit; returns the edit of the whole compaction after the last part.
    pub fn end(&mut self, part: Edit) -> Option<Edit> {
        self.under_way -= 1;
        self.add.extend(part.add);
        let done = self.under_way == 0 && self.unbegun.is_empty();
        done.then(|| Edit {
            add: std::mem::take(&mut self.add),
            remove: self.plan.numbers().collect(),
            ..Edit::default()
        })
    }

    /// Abandons the compaction: no further part starts, and the caller has to drop running parts.
    /// Returns the numbers of the files that finished parts wrote; `None` if it was abandoned
    /// before.
    pub fn abandon(&mut self) -> Option<Vec<u64>> {
        if std::mem::replace(&mut self.is_abandoned, true) {
            return None;
        }
        self.unbegun.clear();
        Some(self.add.drain(..).map(|table| table.number).collect())
    }

    /// Returns `true` if the compaction was abandoned.
    #[must_use]
    pub const fn is_abandoned(&self) -> bool {
        self.is_abandoned
    }
}

/// Returns the keys that divide a compaction into parts of about equal size, as far as the tables'
/// sizes show. A compaction with a single output file, or into level 0, is not divided.
fn bounds(plan: &Plan, parts: usize) -> Vec<Bytes> {
    let bytes = |tables: &[Arc<TableMeta>]| tables.iter().map(|table| table.bytes).sum::<u64>();
    let ordered = plan.inputs.iter().filter(|(level, _)| *level > 0).map(|(_, tables)| tables);
    let Some(longest) = ordered.max_by_key(|tables| bytes(tables)) else { return Vec::new() };
    if plan.output_level == 0 || plan.cut_bytes == u64::MAX {
        return Vec::new();
    }
    let part_bytes = bytes(longest) / parts.max(1) as u64;
    let (mut bounds, mut passed) = (Vec::new(), 0);
    for table in longest {
        let due = part_bytes * (bounds.len() as u64 + 1);
        if passed >= due && bounds.len() + 1 < parts {
            bounds.push(table.range.lower.clone());
        }
        passed += table.bytes;
    }
    bounds
}

#[cfg(test)]
mod tests {
    use carnet_base::Timestamp;

    use super::*;
    use crate::compaction::policy::Reason;
    use crate::manifest::{Tally, VersionKind};

    fn table(level: u8, keys: std::ops::RangeInclusive<u8>, bytes: u64) -> Arc<TableMeta> {
        let mut tally = Tally::default();
        for key in [*keys.start(), *keys.end()] {
            tally.cell(
                &[0, 0, 0, 1, key],
                Timestamp::new(u64::from(level) + 1).unwrap(),
                None,
                VersionKind::Value,
            );
        }
        Arc::new(tally.finish(u64::from(*keys.start()), level, bytes).unwrap())
    }

    fn plan(base: Vec<Arc<TableMeta>>) -> Plan {
        let inputs = vec![(0, vec![table(0, 0..=200, 80)]), (6, base)];
        let tables = inputs.iter().flat_map(|(_, tables)| tables);
        Plan {
            hull: FlatRange::hull(tables.map(|table| &table.range)).unwrap(),
            inputs,
            output_level: 6,
            cut_bytes: 40,
            grandparent_bytes: u64::MAX,
            reason: Reason::Level0,
        }
    }

    fn divided(plan: &Plan, parts_max: usize) -> Parts {
        let config = Config { part_bytes: 10, ..Config::default() };
        Parts::new(plan.clone(), Levels::default(), &config, parts_max)
    }

    /// Returns where the parts begin, except for the first.
    fn begins(plan: &Plan, parts_max: usize) -> Vec<u8> {
        divided(plan, parts_max).unbegun.iter().skip(1).map(|part| part.lower[4]).collect()
    }

    #[test]
    fn parts_are_similar_and_end_between_tables() {
        let even = |number: u8| table(6, 10 * number + 1..=10 * number + 9, 40);
        let even = plan((0..8).map(even).collect());
        assert_eq!(begins(&even, 4), [21, 41, 61]);
        assert_eq!(begins(&even, 1), []);
        assert_eq!(begins(&even, 100).len(), 7, "no more than there are tables");
        let uneven = [(1, 12), (11, 2), (21, 1), (31, 1), (41, 8)];
        let uneven = uneven.map(|(key, tens)| table(6, key..=key + 5, 10 * tens));
        assert_eq!(begins(&plan(uneven.to_vec()), 2), [11]);
    }

    #[test]
    fn small_or_single_file_compaction_is_not_divided() {
        let base = vec![table(6, 1..=9, 9), table(6, 11..=19, 9)];
        let mut short = plan(base.clone());
        short.inputs.remove(0);
        assert_eq!(begins(&short, 4), []);
        assert_eq!(begins(&plan(base.clone()), 4), [11]);
        assert_eq!(begins(&Plan { cut_bytes: u64::MAX, ..plan(base.clone()) }, 4), []);
        assert_eq!(begins(&Plan { output_level: 0, ..plan(base) }, 4), []);
    }

    #[test]
    fn abandoned_parts_are_not_begun() {
        let base = vec![table(6, 1..=9, 9), table(6, 11..=19, 9)];
        let mut parts = divided(&plan(base), 4);
        parts.begin().unwrap();
        let added = Edit { add: vec![(*table(6, 5..=5, 1)).clone()], ..Edit::default() };
        assert_eq!(parts.end(added), None);
        assert_eq!((parts.abandon(), parts.abandon()), (Some(vec![5]), None));
        assert!(parts.is_abandoned() && parts.begin().is_none());
    }

    #[test]
    fn last_part_returns_the_edit() {
        let base = vec![table(6, 1..=9, 9), table(6, 11..=19, 9)];
        let mut parts = divided(&plan(base), 4);
        let ranges = [parts.begin().unwrap().range, parts.begin().unwrap().range];
        assert!(parts.begin().is_none() && ranges[0].upper == ranges[1].lower);
        let added = |key| Edit { add: vec![(*table(6, key..=key, 1)).clone()], ..Edit::default() };
        assert_eq!(parts.end(added(15)), None);
        let edit = parts.end(added(5)).unwrap();
        assert_eq!((edit.add.len(), edit.remove.len()), (2, 3));
    }
}
