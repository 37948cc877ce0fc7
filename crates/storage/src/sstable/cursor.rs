//! Walks a table's cells in order, either way, a block at a time.

use std::ops::Bound;
use std::sync::Arc;

use carnet_base::{CellKey, KeyRange, Result, Timestamp, Version};

use super::Table;
use super::block::{Block, Entry};

/// A walk over the cells of a range.
///
/// Each cell comes with its newest version at the snapshot, `None` where all are newer. No more
/// than one block is held.
pub(crate) struct TableCursor {
    table: Arc<Table>,
    bounds: (Bound<CellKey>, Bound<CellKey>),
    read: Timestamp,
    reverse: bool,
    /// The block and the entry that come next; `None` at the end.
    at: Option<Position>,
    next: Option<(CellKey, Option<Version>)>,
}

struct Position {
    number: usize,
    block: Arc<Block>,
    entry: usize,
}

impl TableCursor {
    /// Begins a walk.
    ///
    /// # Errors
    ///
    /// As [`Table::block`].
    pub(crate) fn new(
        table: Arc<Table>,
        range: &KeyRange,
        read: Timestamp,
        reverse: bool,
    ) -> Result<Self> {
        let Some(bounds) = range.map_bounds() else {
            let bounds = (Bound::Unbounded, Bound::Unbounded);
            return Ok(Self { table, bounds, read, reverse, at: None, next: None });
        };
        let mut cursor = Self { table, bounds, read, reverse, at: None, next: None };
        cursor.at = if reverse { cursor.seek_last()? } else { cursor.seek_first()? };
        cursor.advance()?;
        Ok(cursor)
    }

    /// Returns the cell that the cursor stands at, or `None` at the end.
    pub(crate) fn peek(&self) -> Option<&CellKey> {
        self.next.as_ref().map(|(key, _)| key)
    }

    /// Takes the cell that the cursor stands at and goes on to the next.
    ///
    /// # Errors
    ///
    /// As [`Table::block`].
    pub(crate) fn take(&mut self) -> Result<Option<(CellKey, Option<Version>)>> {
        let taken = self.next.take();
        if taken.is_some() {
            self.advance()?;
        }
        Ok(taken)
    }

    /// Finds the first entry within the bounds.
    fn seek_first(&self) -> Result<Option<Position>> {
        let (number, entry, block) = match &self.bounds.0 {
            Bound::Unbounded => (0, 0, self.table.block(0)?),
            // The first version of a cell is its newest, the last one its oldest.
            Bound::Included(key) => self.seek(key, Timestamp::MAX)?,
            // No commit has timestamp zero: this is the place behind all versions.
            Bound::Excluded(key) => self.seek(key, Timestamp::ZERO)?,
        };
        let position = Position { number, block, entry };
        if position.entry < position.block.entries().len() {
            return Ok(Some(position));
        }
        self.step(position)
    }

    /// Finds the last entry within the bounds.
    fn seek_last(&self) -> Result<Option<Position>> {
        let (number, entry, block) = match &self.bounds.1 {
            Bound::Unbounded => {
                let number = self.table.index().blocks() - 1;
                let block = self.table.block(number)?;
                (number, block.entries().len(), block)
            }
            Bound::Excluded(key) => self.seek(key, Timestamp::MAX)?,
            Bound::Included(key) => self.seek(key, Timestamp::ZERO)?,
        };
        // The entry found is the first one behind the bound.
        self.step(Position { number, block, entry })
    }

    fn seek(&self, key: &CellKey, read: Timestamp) -> Result<(usize, usize, Arc<Block>)> {
        let number = self.table.index().seek(key, read);
        let block = self.table.block(number)?;
        Ok((number, block.seek(key, read), block))
    }

    /// Goes to the neighbouring entry; into the next block where there is no more in this one.
    fn step(&self, at: Position) -> Result<Option<Position>> {
        let Position { number, block, entry } = at;
        if self.reverse {
            if entry > 0 {
                return Ok(Some(Position { number, block, entry: entry - 1 }));
            }
            let Some(number) = number.checked_sub(1) else { return Ok(None) };
            let block = self.table.block(number)?;
            let entry = block.entries().len() - 1;
            return Ok(Some(Position { number, block, entry }));
        }
        if entry + 1 < block.entries().len() {
            return Ok(Some(Position { number, block, entry: entry + 1 }));
        }
        let number = number + 1;
        if number == self.table.index().blocks() {
            return Ok(None);
        }
        Ok(Some(Position { number, block: self.table.block(number)?, entry: 0 }))
    }

    /// Reads all versions of the next cell and keeps the one at the snapshot.
    fn advance(&mut self) -> Result<()> {
        let Some(first) = self.at.as_ref().map(|at| at.block.entries()[at.entry].key.clone())
        else {
            return Ok(());
        };
        if !self.is_within(&first) {
            self.at = None;
            return Ok(());
        }
        let mut found: Option<Version> = None;
        while let Some(at) = self.at.take() {
            let entry: &Entry = &at.block.entries()[at.entry];
            if entry.key != first {
                self.at = Some(at);
                break;
            }
            // Forward the newest comes first and stays; backward it comes last and replaces.
            if entry.commit <= self.read && (found.is_none() || self.reverse) {
                found = Some(entry.version());
            }
            self.at = self.step(at)?;
        }
        self.next = Some((first, found));
        Ok(())
    }

    /// Tells whether a key lies before the far end of the walk.
    fn is_within(&self, key: &CellKey) -> bool {
        if self.reverse {
            match &self.bounds.0 {
                Bound::Unbounded => true,
                Bound::Included(lower) => key >= lower,
                Bound::Excluded(lower) => key > lower,
            }
        } else {
            match &self.bounds.1 {
                Bound::Unbounded => true,
                Bound::Included(upper) => key <= upper,
                Bound::Excluded(upper) => key < upper,
            }
        }
    }
}
