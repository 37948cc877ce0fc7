//! In-memory tables for tests: inputs, outputs, and reads by the rules of the engine.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard};

use bytes::Bytes;
use carnet_base::sync::lock;
use carnet_base::{Error, Result, Rng, SeededRng, TableId, Timestamp};

use super::*;
use crate::compaction::merge::{Fragment, Mark, RangeVersion};
use crate::manifest::{LEVELS, TableMeta, Tally, VersionKind, table_of};

/// First byte of deltas.
pub(super) const DELTA_MARK: u8 = b'+';

pub(super) fn at(number: u64) -> Timestamp {
    Timestamp::new(number).unwrap()
}

/// A version of a cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Version {
    pub(super) key: Vec<u8>,
    pub(super) commit: u64,
    pub(super) expiry: Option<u64>,
    pub(super) payload: Option<Vec<u8>>,
}

impl Version {
    fn cell(&self) -> Cell<'_> {
        let Self { commit, expiry, payload, .. } = self;
        let commit = at(*commit);
        Cell { commit, start: start(commit), expiry: *expiry, payload: payload.as_deref() }
    }

    fn bytes(&self) -> u64 {
        (self.key.len() + self.payload.as_ref().map_or(0, Vec::len)) as u64
    }
}

pub(super) fn start(commit: Timestamp) -> Timestamp {
    commit.previous().unwrap()
}

/// Contents of a table, in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Contents {
    pub(super) cells: Vec<Version>,
    pub(super) fragments: Vec<Fragment>,
}

impl Contents {
    pub(super) fn describe(&self, number: u64, level: u8) -> Option<TableMeta> {
        let mut tally = Tally::default();
        for cell in &self.cells {
            let kind = VersionKind::of(cell.payload.as_deref(), Some(DELTA_MARK));
            tally.cell(&cell.key, at(cell.commit), cell.expiry, kind);
        }
        for fragment in &self.fragments {
            for version in &fragment.versions {
                tally.range_tombstone(&fragment.lower, &fragment.upper, version.commit);
            }
        }
        tally.finish(number, level, self.bytes())
    }

    fn bytes(&self) -> u64 {
        self.cells.iter().map(Version::bytes).sum::<u64>() + 10 * self.fragments.len() as u64
    }

    /// Returns the newest version or covering range tombstone of a key at a timestamp.
    fn look_up(&self, key: &[u8], read: u64) -> Option<(u64, Option<&Version>)> {
        let cells = self.cells.iter().filter(|cell| cell.key == key && cell.commit <= read);
        let newest = cells.max_by_key(|cell| cell.commit);
        let covering = self.fragments.iter().filter(|next| next.lower <= *key && next.upper > *key);
        let commits = covering.flat_map(|next| &next.versions).map(|version| version.commit.get());
        let deleted = commits.filter(|commit| *commit <= read).max();
        match (newest, deleted) {
            (None, None) => None,
            (Some(cell), deleted) if deleted.is_none_or(|deleted| deleted <= cell.commit) => {
                Some((cell.commit, Some(cell)))
            }
            (_, deleted) => deleted.map(|commit| (commit, None)),
        }
    }
}

/// In-memory tables of a database. Clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct Memory {
    tables: Arc<Mutex<BTreeMap<u64, Contents>>>,
    /// First output number whose `finish` fails.
    pub(super) broken: Option<u64>,
}

impl Memory {
    /// Locks and returns the tables by number.
    pub(super) fn tables(&self) -> MutexGuard<'_, BTreeMap<u64, Contents>> {
        lock(&self.tables)
    }

    /// Adds a table to a level; an empty one is not added.
    pub(super) fn add(&self, level: u8, contents: Contents) -> Vec<TableMeta> {
        let number = self.next();
        let described = contents.describe(number, level);
        if described.is_some() {
            self.tables().insert(number, contents);
        }
        described.into_iter().collect()
    }

    fn next(&self) -> u64 {
        self.tables().keys().next_back().map_or(1, |last| last + 1)
    }

    /// Reads a key like the engine: the newest source with a version or range tombstone of it
    /// decides, and only tables whose range contains the key are searched. Deltas are added to the
    /// value below them.
    pub(super) fn read(
        &self,
        levels: &Levels,
        key: &[u8],
        read: u64,
        wall: u64,
    ) -> Option<Vec<u8>> {
        let version = self.version(levels, key, read)?;
        let version = Some(version).filter(|version| version.expiry.is_none_or(|at| at > wall))?;
        let payload = version.payload?;
        if payload.first() != Some(&DELTA_MARK) {
            return Some(payload);
        }
        if payload == b"+-" {
            return None;
        }
        let below = version.commit.checked_sub(1);
        let value = below.and_then(|below| self.read(levels, key, below, wall));
        Some([value.unwrap_or_else(|| b"0".to_vec()), payload].concat())
    }

    /// Returns the newest version of a key, unless it is deleted.
    fn version(&self, levels: &Levels, key: &[u8], read: u64) -> Option<Version> {
        let tables = self.tables();
        let young = levels.level(0).iter().rev();
        let behind = (1..LEVELS).flat_map(|level| levels.level(level));
        let mut within = young.chain(behind).filter(|table| table.range.contains(key));
        let (_, version) = within.find_map(|table| tables[&table.number].look_up(key, read))?;
        version.cloned()
    }
}

/// Cursor over an in-memory table.
pub(super) struct Cursor {
    cells: vec::IntoIter<Version>,
    current: Option<Version>,
}

impl Source for Cursor {
    fn key(&self) -> Option<&[u8]> {
        self.current.as_ref().map(|cell| &cell.key[..])
    }

    fn cell(&self) -> Cell<'_> {
        self.current.as_ref().unwrap().cell()
    }

    fn advance(&mut self) -> Result<()> {
        self.current = self.cells.next();
        Ok(())
    }
}

impl Tables for Memory {
    type Cursor = Cursor;

    fn range_tombstones(&self, table: u64) -> Result<Vec<Fragment>> {
        Ok(self.tables()[&table].fragments.clone())
    }

    fn cursor(&self, table: u64, within: &FlatRange) -> Result<Cursor> {
        let mut cells = self.tables()[&table].cells.clone();
        cells.retain(|cell| within.contains(&cell.key));
        let mut cells = cells.into_iter();
        Ok(Cursor { current: cells.next(), cells })
    }
}

/// A table that is being written.
pub(super) struct Building {
    memory: Memory,
    contents: Contents,
}

impl Outputs for Memory {
    type Output = Building;

    fn begin(&mut self) -> Result<Building> {
        Ok(Building { memory: self.clone(), contents: Contents::default() })
    }
}

impl Output for Building {
    fn push(&mut self, key: &[u8], cell: Cell<'_>) -> Result<()> {
        assert_eq!(cell.start, start(cell.commit));
        let Cell { commit, expiry, payload, .. } = cell;
        let (commit, payload) = (commit.get(), payload.map(<[u8]>::to_vec));
        let version = Version { key: key.to_vec(), commit, expiry, payload };
        let order = |version: &Version| (version.key.clone(), std::cmp::Reverse(version.commit));
        assert!(self.contents.cells.last().is_none_or(|last| order(last) < order(&version)));
        self.contents.cells.push(version);
        Ok(())
    }

    fn push_range_tombstone(
        &mut self,
        lower: &[u8],
        upper: &[u8],
        versions: &[RangeVersion],
    ) -> Result<()> {
        assert!(lower < upper && !versions.is_empty());
        assert!(versions.windows(2).all(|pair| pair[0].commit > pair[1].commit));
        assert!(self.contents.fragments.last().is_none_or(|last| last.upper <= *lower));
        let (lower, upper) = (lower.to_vec().into(), upper.to_vec().into());
        self.contents.fragments.push(Fragment { lower, upper, versions: versions.to_vec() });
        Ok(())
    }

    fn estimated_bytes(&self) -> u64 {
        self.contents.bytes()
    }

    fn finish(self) -> Result<Written> {
        let number = self.memory.next();
        if self.memory.broken.is_some_and(|broken| broken <= number) {
            return Err(Error::unavailable("the disk is full"));
        }
        let bytes = self.contents.bytes();
        self.memory.tables().insert(number, self.contents);
        Ok(Written { number, bytes })
    }
}

/// Table whose cells pass with the GC watermark, as commit-table entries do.
pub(super) const ENTRIES: TableId = TableId(8);
/// Table of which the newest cell below the GC watermark does not pass, as in the wall-clock map.
/// The last two bytes of a key are its timestamp.
pub(super) const POINTS: TableId = TableId(9);

/// GC watermark, dropped tables (of the catalog), and merges that fail.
#[derive(Clone, Debug, Default)]
pub(super) struct Hook {
    pub(super) mark: Mark,
    pub(super) dropped: BTreeSet<TableId>,
    /// Timestamps of all cells of [`POINTS`].
    pub(super) points: BTreeSet<u16>,
    /// Thousandths of all merges that fail, always the same ones.
    pub(super) failing: u64,
}

impl Hook {
    /// Returns an error for some merges.
    fn may_fail(&self, deltas: &[(Timestamp, Bytes)]) -> Result<()> {
        let seed = deltas
            .iter()
            .map(|(start, _)| start.get())
            .fold(7_u64, |all, at| all.wrapping_mul(31).wrapping_add(at));
        match SeededRng::new(seed).chance(self.failing) {
            true => Err(Error::corrupted("a delta is damaged")),
            false => Ok(()),
        }
    }
}

impl GcHook for Hook {
    fn mark(&self) -> Mark {
        self.mark.clone()
    }

    fn is_dropped(&self, table: TableId) -> bool {
        self.dropped.contains(&table)
    }

    fn passes(&self, table: TableId) -> bool {
        table == ENTRIES || table == POINTS
    }

    fn keeps_newest(&self, table: TableId) -> bool {
        table == POINTS
    }

    fn has_passed(&self, mark: Timestamp, key: &[u8], commit: Timestamp) -> bool {
        if table_of(key) == Some(ENTRIES) {
            return commit <= mark;
        }
        let (_, point) = key.split_last_chunk().unwrap();
        let later = u16::from_be_bytes(*point).saturating_add(1)..;
        self.points.range(later).any(|later| at((*later).into()) < mark)
    }

    fn delta_mark(&self, _: TableId) -> Option<u8> {
        Some(DELTA_MARK)
    }

    fn merge(
        &self,
        value: Option<(Timestamp, &Bytes)>,
        deltas: &[(Timestamp, Bytes)],
    ) -> Result<Option<Bytes>> {
        self.may_fail(deltas)?;
        // The delta `+-` deletes.
        let last_delete = deltas.iter().position(|(_, delta)| delta == "+-");
        if last_delete == Some(0) {
            return Ok(None);
        }
        let value = value.filter(|_| last_delete.is_none()).map_or(&b"0"[..], |(_, value)| value);
        let newer = deltas[..last_delete.unwrap_or(deltas.len())].iter().rev();
        let newer = newer.map(|(_, delta)| &delta[..]);
        Ok(Some(std::iter::once(value).chain(newer).collect::<Vec<_>>().concat().into()))
    }
}
