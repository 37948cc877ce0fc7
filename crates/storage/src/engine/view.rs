//! View: the memtables and tables that a reader searches, as an immutable list.

use std::collections::HashMap;
use std::sync::Arc;

use crate::manifest::{FlatRange, LEVELS, Levels, TableMeta};
use crate::memtable::Memtable;
use crate::sstable::Table;

/// An open table and its description in the manifest.
#[derive(Clone)]
pub(super) struct OpenTable {
    pub(super) meta: Arc<TableMeta>,
    pub(super) table: Arc<Table>,
}

/// All sources of versions at one point in time.
#[derive(Clone)]
pub(super) struct View {
    /// Number of views before this one.
    pub(super) number: u64,
    pub(super) active: Arc<Memtable>,
    /// Sealed memtables that wait for their flush, newest first.
    pub(super) sealed: Vec<Arc<Memtable>>,
    /// Tables of level 0 from oldest to newest, of other levels in key order.
    pub(super) levels: [Vec<OpenTable>; LEVELS],
}

impl View {
    /// Returns all memtables, newest first.
    pub(super) fn memtables(&self) -> impl Iterator<Item = &Arc<Memtable>> {
        std::iter::once(&self.active).chain(&self.sealed)
    }

    /// Returns all tables, level by level.
    pub(super) fn tables(&self) -> impl Iterator<Item = &OpenTable> {
        self.levels.iter().flatten()
    }

    /// Returns the tables that may contain a key, newest first.
    pub(super) fn tables_of<'a>(&'a self, key: &'a [u8]) -> impl Iterator<Item = &'a Arc<Table>> {
        let level0 = self.levels[0].iter().rev().filter(|open| open.meta.range.contains(key));
        let deeper = self.levels[1..].iter().filter_map(|level| {
            let at = level.partition_point(|open| open.meta.range.upper <= *key);
            level.get(at).filter(|open| open.meta.range.lower <= *key)
        });
        level0.chain(deeper).map(|open| &open.table)
    }

    /// Returns the runs that overlap a range, newest first; the tables of a run are disjoint and in
    /// key order.
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

    /// Returns the view after the active memtable was sealed and replaced.
    pub(super) fn sealed(&self, active: Arc<Memtable>) -> Self {
        let mut sealed = vec![Arc::clone(&self.active)];
        sealed.extend(self.sealed.iter().cloned());
        Self { number: self.number, active, sealed, levels: self.levels.clone() }
    }

    /// Returns the view after the oldest sealed memtable was flushed.
    pub(super) fn flushed(&self) -> Self {
        let mut flushed = self.clone();
        flushed.sealed.pop();
        flushed
    }

    /// Returns the view after an edit of the manifest; `new` are the tables that are not in this
    /// view.
    pub(super) fn with_levels(&self, levels: &Levels, new: &[Arc<Table>]) -> Self {
        let known = self.tables().map(|open| &open.table).chain(new);
        let tables: HashMap<u64, &Arc<Table>> =
            known.map(|table| (table.number(), table)).collect();
        let open = |meta: &Arc<TableMeta>| OpenTable {
            meta: Arc::clone(meta),
            table: Arc::clone(tables.get(&meta.number).expect("every table of an edit was opened")),
        };
        let levels = std::array::from_fn(|level| levels.level(level).iter().map(open).collect());
        let (active, sealed) = (Arc::clone(&self.active), self.sealed.clone());
        Self { number: self.number, active, sealed, levels }
    }
}
