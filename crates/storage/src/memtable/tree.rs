//! Regions in the order of their keys, split as they grow.
//!
//! ```text
//!  root   separators   -∞        "f"        "q"            a lock for all of it: shared, but to split
//!                      │         │          │
//!         regions   [a … e]   [f … p]   [q … z]            a lock for each
//! ```
//!
//! An insert holds the root's lock, shared, and one region's. So writers meet only where their
//! keys lie close together, in one partition or in many: a table of one wide partition is as
//! concurrent as one of many small ones. Locks are taken from the root down.
//! The sizes of regions and leaves were not tuned by measurement.

use std::sync::RwLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use carnet_base::Timestamp;

use super::CellRef;
use super::region::{Place, Region, VersionRef, Versions, common_prefix, head};
use crate::lock::{read, write};

/// How large a region grows before it is split.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) versions: usize,
    pub(super) bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { versions: 4096, bytes: 1 << 20 }
    }
}

/// See the module's essay.
#[derive(Debug)]
pub(super) struct Tree {
    root: RwLock<Root>,
    limits: Limits,
    /// Bytes asked of the allocator.
    allocated: AtomicUsize,
}

#[derive(Debug)]
struct Root {
    /// The length of the prefix that all separators share.
    skip: usize,
    /// The heads of the separators behind that.
    heads: Vec<u64>,
    /// The first key of each region but the first.
    separators: Vec<Box<[u8]>>,
    regions: Vec<RwLock<Region>>,
}

impl Root {
    /// The region in which a key lies or would lie.
    fn find(&self, key: &[u8]) -> usize {
        let Some(first) = self.separators.first() else { return 0 };
        match key.get(..self.skip).unwrap_or(key).cmp(&first[..self.skip]) {
            std::cmp::Ordering::Less => return 0,
            std::cmp::Ordering::Greater => return self.separators.len(),
            std::cmp::Ordering::Equal => {}
        }
        let head = head(key, self.skip);
        let mut at = self.heads.partition_point(|&other| other < head);
        while self.heads.get(at) == Some(&head) && *self.separators[at] <= *key {
            at += 1;
        }
        at
    }

    /// Splits a region that is too large.
    fn split(&mut self, index: usize, limits: Limits) -> Option<(usize, usize)> {
        let mut region = write(&self.regions[index]);
        if !is_too_large(&region, limits) {
            return None;
        }
        let before = region.allocated();
        let upper = region.split();
        let after = region.allocated() + upper.allocated();
        drop(region);
        let separator: Box<[u8]> =
            upper.first_key().expect("a split leaves cells on both sides").into();
        let after = after + separator.len() + size_of::<(u64, Box<[u8]>)>();
        self.regions.insert(index + 1, RwLock::new(upper));
        self.add_separator(index, separator);
        Some((before, after + size_of::<RwLock<Region>>()))
    }

    fn add_separator(&mut self, at: usize, separator: Box<[u8]>) {
        let skip = match self.separators.first() {
            None => separator.len(),
            Some(first) => common_prefix(&first[..self.skip], &separator),
        };
        self.heads.insert(at, head(&separator, self.skip));
        self.separators.insert(at, separator);
        if skip != self.skip || self.separators.len() == 1 {
            self.skip = skip;
            self.heads = self.separators.iter().map(|separator| head(separator, skip)).collect();
        }
    }
}

fn is_too_large(region: &Region, limits: Limits) -> bool {
    (region.versions() > limits.versions || region.bytes() > limits.bytes) && region.is_divisible()
}

impl Tree {
    pub(super) fn new(limits: Limits) -> Self {
        let root = Root {
            skip: 0,
            heads: Vec::new(),
            separators: Vec::new(),
            regions: vec![RwLock::default()],
        };
        Self { root: RwLock::new(root), limits, allocated: AtomicUsize::new(0) }
    }

    /// Bytes asked of the allocator.
    pub(super) fn allocated(&self) -> usize {
        self.allocated.load(Ordering::Relaxed)
    }

    /// Inserts the cells of one record.
    pub(super) fn insert<'a>(
        &self,
        start: Timestamp,
        commit: Timestamp,
        cells: impl Iterator<Item = CellRef<'a>>,
    ) {
        let mut too_large: Vec<&[u8]> = Vec::new();
        let root = read(&self.root);
        let mut held = None;
        let mut grown = 0;
        for cell in cells {
            let index = root.find(cell.key);
            // Neighbours follow each other: keep the lock between them, and never hold two.
            if held.as_ref().is_none_or(|(locked, _)| *locked != index) {
                drop(held.take());
                held = Some((index, write(&root.regions[index])));
            }
            let Some((_, region)) = &mut held else { continue };
            let before = region.allocated();
            region.insert(start, commit, &cell);
            grown += region.allocated() - before;
            if is_too_large(region, self.limits) {
                too_large.push(cell.key);
            }
        }
        drop(held);
        // Before anybody can split what has grown, and take it away again.
        self.allocated.fetch_add(grown, Ordering::Relaxed);
        drop(root);
        if !too_large.is_empty() {
            self.split(&too_large);
        }
    }

    fn split(&self, keys: &[&[u8]]) {
        let mut root = write(&self.root);
        for key in keys {
            let index = root.find(key);
            if let Some((before, after)) = root.split(index, self.limits) {
                self.allocated.fetch_add(after, Ordering::Relaxed);
                self.allocated.fetch_sub(before, Ordering::Relaxed);
            }
        }
    }

    /// Hands the newest version at or before `read` to `take`.
    pub(super) fn get<T>(
        &self,
        key: &[u8],
        at: Timestamp,
        take: impl FnOnce(VersionRef<'_>) -> T,
    ) -> Option<T> {
        let root = read(&self.root);
        let region = read(&root.regions[root.find(key)]);
        region.get(key, at).map(take)
    }

    /// Hands cells from a place on to `take`, in order, until it returns false or the cells end;
    /// tells whether they ended.
    pub(super) fn walk(
        &self,
        from: Option<&[u8]>,
        mut take: impl FnMut(&[u8], Versions<'_>) -> bool,
    ) -> bool {
        let root = read(&self.root);
        let first = from.map_or(0, |from| root.find(from));
        for (index, region) in root.regions.iter().enumerate().skip(first) {
            let region = read(region);
            let mut place = match from {
                Some(from) if index == first => region.seek(from).0,
                _ => region.seek(&[]).0,
            };
            while let Some((key, versions)) = region.cell(place) {
                if !take(key, versions) {
                    return false;
                }
                place = region.next(place);
            }
        }
        true
    }

    /// As [`Tree::walk`], backward from the last cell before `to`.
    pub(super) fn walk_back(
        &self,
        to: Option<&[u8]>,
        mut take: impl FnMut(&[u8], Versions<'_>) -> bool,
    ) -> bool {
        let root = read(&self.root);
        let last = to.map_or(root.regions.len() - 1, |to| root.find(to));
        for (index, region) in root.regions[..=last].iter().enumerate().rev() {
            let region = read(region);
            let end: Place = match to {
                Some(to) if index == last => region.seek(to).0,
                _ => region.end(),
            };
            let mut next = region.previous(end);
            while let Some(place) = next {
                let Some((key, versions)) = region.cell(place) else { break };
                if !take(key, versions) {
                    return false;
                }
                next = region.previous(place);
            }
        }
        true
    }
}
