//! Tree of cells: reads take no locks, an insertion locks one leaf.
//!
//! ```text
//!  level 2                    [ -∞ │ m ]                 root: replaced when it is split
//!                             ╱        ╲
//!  level 1          [ -∞ │ d │ g ] ──→ [ m │ t ]         a level's nodes are linked rightwards
//!                    ╱     │    ╲        │    ╲
//!  level 0    [a b c]→[d e f]→[g h k]→[m p]→[t x]        leaves: cells
//! ```
//!
//! A search notes the version of each node before it reads it, and checks the version again once it
//! has the version of the child. A split adds the new node to its parent before it unlocks the
//! child. So if the parent is unchanged, the child's bounds are still the bounds that the
//! search followed; otherwise the search restarts. This is optimistic lock coupling (V. Leis et al., "The
//! ART of Practical Synchronization", 2016).
//!
//! A writer locks the leaf that it inserts into. If the leaf is full, the writer splits it and
//! locks the parent as well. Locks are taken upwards only, so there is no deadlock. Nodes and cells
//! are freed with the tree only, so readers need no protection.
//!
//! A large memtable is bound by cache misses. So the cells of a record descend the tree together,
//! and each prefetches its next node before any of them reads it.

#[cfg(test)]
mod tests;

use std::fmt;

use carnet_base::Timestamp;

use super::arena::{Arena, Cell, Link, Ref};
use super::cell::{CellRef, VersionRef};
use super::chunks::Chunks;
use super::node::{Entry, Locked, Node};

/// Number of cells that descend the tree together.
const ABREAST: usize = 8;

/// Number of cells by which a walk prefetches a cell ahead.
const CELLS_AHEAD: usize = 16;

/// Number of cells by which a walk prefetches a record ahead; its cell must have arrived by then.
const RECORDS_AHEAD: usize = 8;
/// Number of entries in a node: their heads fill eight cache lines.
pub(super) const NODE_ENTRIES: usize = 64;

/// The tree; see the module documentation.
pub(super) struct Tree<const N: usize = NODE_ENTRIES> {
    arena: Arena,
    root: Link<Node<N>>,
}

/// A node and the version that a reader noted.
struct Seen<const N: usize> {
    at: Ref<Node<N>>,
    version: u32,
}

impl<const N: usize> Clone for Seen<N> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<const N: usize> Copy for Seen<N> {}

/// Target of a descent.
#[derive(Clone, Copy)]
enum Toward<'a> {
    /// The leaf whose bounds contain the key.
    Key(&'a [u8]),
    /// The leaf that contains the last cell before the key.
    Before(&'a [u8]),
    Last,
}

impl<const N: usize> Tree<N> {
    pub(super) fn new(chunks: Chunks) -> Self {
        const { assert!(N >= 4) };
        let arena = Arena::new(chunks);
        let root = arena.put(Node::new(0));
        Self { arena, root: Link::new(Some(root)) }
    }

    /// Returns the bytes of cells and nodes.
    pub(super) fn allocated(&self) -> usize {
        self.arena.allocated()
    }

    fn node(&self, at: Ref<Node<N>>) -> &Node<N> {
        self.arena.get(at)
    }

    fn root(&self) -> Seen<N> {
        loop {
            let at = self.root.load().expect("a tree has a root");
            let version = self.node(at).begin();
            // A split of the root sets the new root before it unlocks the old one.
            if self.root.load() == Some(at) {
                return Seen { at, version };
            }
        }
    }

    /// Returns the child in the target's direction; not yet validated.
    fn route(&self, from: Seen<N>, toward: Toward<'_>) -> Option<Ref<Node<N>>> {
        let node = self.node(from.at);
        let before = match toward {
            Toward::Key(key) => node.rank(&self.arena, key, true),
            Toward::Before(key) => node.rank(&self.arena, key, false),
            Toward::Last => node.len(),
        };
        node.child(before.saturating_sub(1))
    }

    /// Moves to a child; `None` if the parent has changed.
    fn step(&self, from: Seen<N>, child: Option<Ref<Node<N>>>) -> Option<Seen<N>> {
        let node = self.node(from.at);
        let at = child.filter(|_| node.is_unchanged(from.version))?;
        let version = self.node(at).begin();
        node.is_unchanged(from.version).then_some(Seen { at, version })
    }

    /// Descends to a level.
    fn descend(&self, toward: Toward<'_>, level: u32) -> Seen<N> {
        'anew: loop {
            let mut seen = self.root();
            while self.node(seen.at).level() > level {
                let child = self.route(seen, toward);
                // A binary search reads one line after the other; prefetched, they arrive together.
                if let Some(child) = child {
                    self.arena.prefetch(child);
                }
                let Some(next) = self.step(seen, child) else { continue 'anew };
                seen = next;
            }
            return seen;
        }
    }

    /// Descends to the leaves of several keys together; `None` where a node has changed.
    fn descend_abreast(&self, keys: &[&[u8]], leaves: &mut [Option<Seen<N>>; ABREAST]) {
        let root = self.root();
        leaves.fill(Some(root));
        for _ in 0..self.node(root.at).level() {
            let mut children = [None; ABREAST];
            for ((key, seen), child) in keys.iter().zip(leaves.iter()).zip(&mut children) {
                *child = seen.and_then(|seen| self.route(seen, Toward::Key(key)));
                if let Some(child) = *child {
                    self.arena.prefetch(child);
                }
            }
            for (seen, child) in leaves.iter_mut().zip(children) {
                *seen = seen.and_then(|seen| self.step(seen, child));
            }
        }
    }

    /// Inserts the cells of one record.
    pub(super) fn insert<'a>(
        &self,
        start: Timestamp,
        commit: Timestamp,
        cells: impl Iterator<Item = CellRef<'a>> + Clone,
    ) {
        let mut keys = cells.clone().map(|cell| cell.key);
        let mut written = self.arena.write(start, commit, cells);
        let mut abreast: [&[u8]; ABREAST] = [&[]; ABREAST];
        let mut leaves = [None; ABREAST];
        loop {
            let mut count = 0;
            for (place, key) in abreast.iter_mut().zip(&mut keys) {
                *place = key;
                count += 1;
            }
            if count == 0 {
                return;
            }
            self.descend_abreast(&abreast[..count], &mut leaves);
            for ((key, leaf), cell) in abreast[..count].iter().zip(leaves).zip(&mut written) {
                self.insert_at(leaf, key, cell);
            }
        }
    }

    fn insert_at(&self, leaf: Option<Seen<N>>, key: &[u8], cell: Ref<Cell>) {
        let mut leaf = leaf.unwrap_or_else(|| self.descend(Toward::Key(key), 0));
        let locked = loop {
            if let Some(locked) = self.node(leaf.at).lock(&self.arena, leaf.version) {
                break locked;
            }
            leaf = self.descend(Toward::Key(key), 0);
        };
        match locked.node().find(&self.arena, key) {
            Ok((at, newest)) => self.add_version(&locked, at, newest, cell),
            Err(_) if locked.is_full() => self.split(&locked, leaf.at, key, Entry::Cell(cell)),
            Err(_) => locked.insert(key, Entry::Cell(cell)),
        }
    }

    /// Inserts a version into its cell's list; a duplicate is ignored.
    fn add_version(&self, leaf: &Locked<'_, N>, at: usize, newest: Ref<Cell>, cell: Ref<Cell>) {
        let added = self.arena.cell(cell);
        let (mut newer, mut next) = (None, Some(newest));
        while let Some(version) = next {
            let view = self.arena.cell(version);
            if view.commit() == added.commit() {
                return;
            }
            if view.commit() < added.commit() {
                break;
            }
            (newer, next) = (Some(view), view.older());
        }
        added.set_older(next);
        match newer {
            Some(newer) => newer.set_older(Some(cell)),
            None => leaf.replace(at, cell),
        }
    }

    /// Splits a full node, inserts an entry, and adds the new node to the parent before unlocking.
    fn split(&self, full: &Locked<'_, N>, at: Ref<Node<N>>, key: &[u8], entry: Entry<N>) {
        let appended = match entry {
            Entry::Cell(cell) => Some(cell),
            Entry::Child(_) => None,
        };
        let (right, separator) = full.split(key, appended);
        let separator = self.arena.key(separator);
        if key < separator {
            full.insert(key, entry);
        } else {
            let locked = self.node(right).lock(&self.arena, self.node(right).begin());
            locked.expect("no other thread knows the new node").insert(key, entry);
        }
        self.add_child(at, right, separator);
    }

    /// Adds `right`, which was split off `left`, to the parent level. The caller has locked `left`.
    fn add_child(&self, left: Ref<Node<N>>, right: Ref<Node<N>>, separator: &[u8]) {
        let level = self.node(left).level() + 1;
        if self.root.load() == Some(left) {
            let above = Node::above(&self.arena, level, left, right);
            self.root.store(Some(self.arena.put(above)));
            return;
        }
        let entry = Entry::Child(right);
        loop {
            let above = self.descend(Toward::Key(separator), level);
            let Some(locked) = self.node(above.at).lock(&self.arena, above.version) else {
                continue;
            };
            if locked.is_full() {
                self.split(&locked, above.at, separator, entry);
            } else {
                locked.insert(separator, entry);
            }
            return;
        }
    }

    /// Calls `take` with the newest version at or before `read`.
    pub(super) fn get<T>(
        &self,
        key: &[u8],
        read: Timestamp,
        take: impl FnOnce(VersionRef<'_>) -> T,
    ) -> Option<T> {
        let newest = loop {
            let leaf = self.descend(Toward::Key(key), 0);
            let found = self.node(leaf.at).find(&self.arena, key);
            if self.node(leaf.at).is_unchanged(leaf.version) {
                break found.ok()?.1;
            }
        };
        let mut versions = Versions { arena: &self.arena, next: Some(newest) };
        versions.find(|version| version.commit <= read).map(take)
    }

    /// Calls `take` with the cells from a key on, in order, until it returns `false`. Returns
    /// `true` if the cells ended first.
    pub(super) fn walk(
        &self,
        from: Option<&[u8]>,
        mut take: impl FnMut(&[u8], Versions<'_>) -> bool,
    ) -> bool {
        let mut from = from.unwrap_or_default();
        let mut leaf = self.copy(|| self.descend(Toward::Key(from), 0), from);
        loop {
            if let Some(next) = leaf.next {
                self.arena.prefetch(next);
            }
            if !self.hand_all(leaf.cells[leaf.rank..leaf.len].iter(), &mut take) {
                return false;
            }
            let Some(next) = leaf.next else { return true };
            let seen = || Seen { at: next, version: self.node(next).begin() };
            from = &[];
            leaf = self.copy(seen, from);
            leaf.rank = 0;
        }
    }

    /// Like [`Tree::walk`], but backward from the last cell before `to`.
    pub(super) fn walk_back(
        &self,
        to: Option<&[u8]>,
        mut take: impl FnMut(&[u8], Versions<'_>) -> bool,
    ) -> bool {
        let mut leaf = match to {
            Some(to) => self.copy(|| self.descend(Toward::Before(to), 0), to),
            None => {
                let mut last = self.copy(|| self.descend(Toward::Last, 0), &[]);
                last.rank = last.len;
                last
            }
        };
        loop {
            if !self.hand_all(leaf.cells[..leaf.rank].iter().rev(), &mut take) {
                return false;
            }
            let Some(low) = leaf.low else { return true };
            let low = self.arena.key(low);
            leaf = self.copy(|| self.descend(Toward::Before(low), 0), low);
        }
    }

    /// Calls `take` with cells until it returns `false`; returns `true` if it never did.
    ///
    /// Cells are in the order of their records, so each costs two dependent cache misses: the cell
    /// and its record. Prefetching overlaps them.
    fn hand_all<'a>(
        &self,
        cells: impl Iterator<Item = &'a Option<Ref<Cell>>> + Clone,
        take: &mut impl FnMut(&[u8], Versions<'_>) -> bool,
    ) -> bool {
        let mut cells_ahead = cells.clone().flatten();
        let mut records_ahead = cells.clone().flatten();
        cells_ahead.by_ref().take(CELLS_AHEAD).for_each(|cell| self.arena.prefetch_cell(*cell));
        records_ahead.by_ref().take(RECORDS_AHEAD).for_each(|of| self.arena.prefetch_record(*of));
        cells.flatten().all(|newest| {
            if let Some(cell) = cells_ahead.next() {
                self.arena.prefetch_cell(*cell);
            }
            if let Some(cell) = records_ahead.next() {
                self.arena.prefetch_record(*cell);
            }
            take(self.arena.key(*newest), Versions { arena: &self.arena, next: Some(*newest) })
        })
    }

    /// Copies a leaf's entries and finds a key's position among them.
    fn copy(&self, find: impl Fn() -> Seen<N>, key: &[u8]) -> Leaf<N> {
        loop {
            let seen = find();
            let node = self.node(seen.at);
            let leaf = Leaf {
                cells: std::array::from_fn(|at| node.cell(at)),
                len: node.len().min(N),
                rank: node.rank(&self.arena, key, false),
                low: node.low(),
                next: node.next(),
            };
            if node.is_unchanged(seen.version) {
                return leaf;
            }
        }
    }
}

impl<const N: usize> fmt::Debug for Tree<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tree").field("allocated", &self.allocated()).finish_non_exhaustive()
    }
}

/// A consistent copy of a leaf.
struct Leaf<const N: usize> {
    cells: [Option<Ref<Cell>>; N],
    len: usize,
    /// Number of cells before the key that was searched.
    rank: usize,
    low: Option<Ref<Cell>>,
    next: Option<Ref<Node<N>>>,
}

/// Iterator over the versions of a cell, newest first.
#[derive(Clone)]
pub(super) struct Versions<'a> {
    arena: &'a Arena,
    next: Option<Ref<Cell>>,
}

impl<'a> Iterator for Versions<'a> {
    type Item = VersionRef<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        let cell = self.arena.cell(self.next?);
        self.next = cell.older();
        Some(cell.version())
    }
}
