//! What a reader sees: memtables and tables, as one immutable list.

use std::collections::HashMap;
use std::sync::Arc;

use crate::manifest::{FlatRange, LEVELS, Levels, TableMeta};
use crate::memtable::Memtable;
use crate::sstable::Table;

/// A table as the manifest names it, open.
#[derive(Clone)]
pub(super) struct OpenTable {
    pub(super) meta: Arc<TableMeta>,
    pub(super) table: Arc<Table>,
}

/// Every place in which versions lie, at one moment.
#[derive(Clone)]
pub(super) struct View {
    /// How many views there were before.
    pub(super) number: u64,
    pub(super) active: Arc<Memtable>,
    /// Full, waiting for their flush; newest first.
    pub(super) sealed: Vec<Arc<Memtable>>,
    /// Level 0 oldest first, the others in the order of keys.
    pub(super) levels: [Vec<OpenTable>; LEVELS],
}

impl View {
    /// All memtables, newest first.
    pub(super) fn memtables(&self) -> impl Iterator<Item = &Arc<Memtable>> {
        std::iter::once(&self.active).chain(&self.sealed)
    }

    /// All tables, level by level.
    pub(super) fn tables(&self) -> impl Iterator<Item = &OpenTable> {
        self.levels.iter().flatten()
    }

    /// The tables that may know a key, the newest knowledge first.
    pub(super) fn tables_of<'a>(&'a self, key: &'a [u8]) -> impl Iterator<Item = &'a Arc<Table>> {
        let level0 = self.levels[0].iter().rev().filter(|open| open.meta.range.contains(key));
        let deeper = self.levels[1..].iter().filter_map(|level| {
            let at = level.partition_point(|open| open.meta.range.upper <= *key);
            level.get(at).filter(|open| open.meta.range.lower <= *key)
        });
        level0.chain(deeper).map(|open| &open.table)
    }

    /// The runs of tables that overlap a range, the newest knowledge first: of a run the tables
    /// are disjoint and in the order of keys.
    pub(super) fn runs(&self, range: &FlatRange) -> Vec<Vec<Arc<Table>>> {
        let within = |open: &&OpenTable| open.meta.range.overlaps(range);
        let level0 = self.levels[0].iter().rev().filter(within);
        let mut runs: Vec<_> = level0.map(|open| vec![Arc::clone(&open.table)]).collect();
        for level in &self.levels[1..] {
            let from = level.partition_point(|open| open.meta.range.upper <= range.lower);
            let run: Vec<_> = level[from..]
                .iter()
                .take_while(|open| open.meta.range.lower < range.upper)
                .map(|open| Arc::clone(&open.table))
                .collect();
            if !run.is_empty() {
                runs.push(run);
            }
        }
        runs
    }

    /// The view after a memtable was sealed and another took its place.
    pub(super) fn sealed(&self, active: Arc<Memtable>) -> Self {
        let mut sealed = vec![Arc::clone(&self.active)];
        sealed.extend(self.sealed.iter().cloned());
        Self { number: self.number, active, sealed, levels: self.levels.clone() }
    }

    /// The view after the oldest sealed memtable became a table.
    pub(super) fn flushed(&self) -> Self {
        let mut flushed = self.clone();
        flushed.sealed.pop();
        flushed
    }

    /// The view after the manifest was edited; `new` are the tables that it does not know yet.
    pub(super) fn with_levels(&self, levels: &Levels, new: &[Arc<Table>]) -> Self {
        let known = self.tables().map(|open| &open.table).chain(new);
        let tables: HashMap<u64, &Arc<Table>> =
            known.map(|table| (table.number(), table)).collect();
        let open = |meta: &Arc<TableMeta>| OpenTable {
            meta: Arc::clone(meta),
            table: Arc::clone(tables.get(&meta.number).expect("whoever edits opens the tables")),
        };
        let levels = std::array::from_fn(|level| levels.level(level).iter().map(open).collect());
        let (active, sealed) = (Arc::clone(&self.active), self.sealed.clone());
        Self { number: self.number, active, sealed, levels }
    }
}
