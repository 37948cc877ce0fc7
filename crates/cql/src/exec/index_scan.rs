//! Scan of the rows that the entries of an index name.
//!
//! The scan reads a page of entries, then the rows of all of them in one multi-get. An entry of an
//! index on a static column names a partition, whose rows are read by a [`Scan`] of their own. An index
//! on a column of the partition key also has an entry for the static columns of a partition, before
//! those of its rows: it is a row if no entry of the partition follows.
//!
//! The entries of a value may lie in several partitions of the index, and on a cluster each read is a
//! round trip. So a read-only transaction reads the next partitions ahead, concurrently: four, then
//! twice as many each time. Other transactions depend on their reads, so they do not.
//!
//! The caller evaluates its filters on the rows as on those of any scan. A transaction depends on the
//! ranges of entries that were read, up to the last row that it used.

use std::collections::VecDeque;
use std::ops::RangeBounds;
use std::sync::Arc;

use carnet::catalog::TableSchema;
use carnet::index::IndexLayout;
use carnet::{CellKey, Error, KeyRange, PageLimit, PartitionKey, Result, Tx};
use carnet_base::concurrent::join;
use carnet_base::{CellPage, Token};
use carnet_data::RowImage;

use super::scan::{Scan, fetch_statics};
use super::stored_row::StoredRow;
use crate::access::{Access, Clustering, IndexAccess, Partitions};

/// Maximum number of entries in one read.
const PAGE_ENTRIES: usize = 256;
/// Number of entries in the first read of a filtered scan.
const FILTERED_ENTRIES: usize = 16;
/// Target size in bytes of a multi-get of rows.
const FETCH_BYTES: usize = 1 << 20;
/// Number of ranges that are read concurrently at first, and at most.
const AHEAD_FIRST: usize = 4;
const AHEAD_MAX: usize = 32;

/// Scan of the rows that the entries of an index name.
pub(super) struct IndexScan<'a> {
    tx: &'a Tx,
    table: &'a TableSchema,
    access: Access,
    index: usize,
    /// Ranges not yet read.
    ranges: VecDeque<KeyRange>,
    tokens: (std::ops::Bound<Token>, std::ops::Bound<Token>),
    /// Pages of the next ranges that were read ahead.
    ahead: VecDeque<(KeyRange, CellPage)>,
    /// Number of ranges to read at once.
    at_once: usize,
    /// The read that returned `found`.
    fetched: Option<Fetched>,
    /// Entries of the last read whose rows are not read yet.
    entries: VecDeque<CellKey>,
    /// Rows not yet returned, with their entries.
    found: VecDeque<(CellKey, StoredRow)>,
    held_bytes: usize,
    /// Partition that a static entry names, while its rows are read.
    partition: Option<Box<Scan<'a>>>,
    /// Entry of the last returned row.
    last_entry: Option<CellKey>,
    statics: Option<(PartitionKey, Option<Arc<RowImage>>)>,
    /// Partition whose other rows are skipped.
    skipped: Option<PartitionKey>,
    fetch_entries: usize,
}

/// A read of entries, as recorded in the read set.
struct Fetched {
    range: KeyRange,
    resume: Option<KeyRange>,
}

impl<'a> IndexScan<'a> {
    /// Begins a scan, after the row and its entry if rows were returned before.
    pub(super) async fn new(
        tx: &'a Tx,
        table: &'a TableSchema,
        access: Access,
        index: IndexAccess,
        is_filtered: bool,
        behind: Option<(&CellKey, &CellKey)>,
    ) -> Result<Self> {
        let mut scan = Self {
            tx,
            table,
            access,
            index: index.index,
            ranges: index.ranges.into(),
            tokens: index.tokens,
            ahead: VecDeque::new(),
            at_once: 1,
            fetched: None,
            entries: VecDeque::new(),
            found: VecDeque::new(),
            held_bytes: 0,
            partition: None,
            last_entry: None,
            statics: None,
            skipped: None,
            fetch_entries: if is_filtered { FILTERED_ENTRIES } else { 1 },
        };
        if let Some((row, entry)) = behind {
            scan.skip_to(row, entry).await?;
        }
        if scan.table.indexes[scan.index].bits > 0 && tx.start_timestamp().is_none() {
            scan.at_once = AHEAD_FIRST;
        }
        Ok(scan)
    }

    fn layout(&self) -> Result<IndexLayout<'a>> {
        IndexLayout::new(self.table, &self.table.indexes[self.index])
    }

    async fn skip_to(&mut self, row: &CellKey, entry: &CellKey) -> Result<()> {
        let place = self.ranges.iter().position(|range| range.contains(entry));
        let Some(place) = place else {
            return Err(Error::invalid(
                "the paging state belongs to a query of other values; begin the query anew",
            ));
        };
        let rest = self.ranges[place].after(entry.clone(), self.access.reverse);
        self.ranges.drain(..=place);
        if !rest.is_empty() {
            self.ranges.push_front(rest);
        }
        if self.layout()?.is_static() {
            self.enter(row.partition(), Some(row)).await?;
        }
        self.last_entry = Some(entry.clone());
        Ok(())
    }

    /// Begins to read the rows of a partition.
    async fn enter(&mut self, partition: PartitionKey, behind: Option<&CellKey>) -> Result<()> {
        let access = Access {
            partitions: Partitions::Keys(vec![partition]),
            clustering: Clustering::All,
            ..self.access.clone()
        };
        let scan = Box::pin(Scan::new(self.tx, access, false, behind)).await?;
        self.partition = Some(Box::new(scan));
        Ok(())
    }

    /// Returns the next row. The caller can use `wanted` rows, including this one.
    pub(super) async fn next(&mut self, wanted: usize) -> Result<Option<StoredRow>> {
        loop {
            if let Some(scan) = &mut self.partition {
                if let Some(row) = Box::pin(scan.next(wanted)).await? {
                    return Ok(Some(row));
                }
                self.partition = None;
            } else if let Some((entry, row)) = self.found.pop_front() {
                self.last_entry = Some(entry);
                let partition = row.key.partition();
                if self.skipped.as_ref() != Some(&partition) {
                    self.skipped = None;
                    return Ok(Some(row));
                }
            } else if !self.entries.is_empty() && !self.needs_next_entry()? {
                self.fetch_rows().await?;
            } else if let Some(range) = self.ranges.pop_front() {
                self.fetch_entries(range, wanted).await?;
            } else {
                return Ok(None);
            }
        }
    }

    async fn fetch_entries(&mut self, range: KeyRange, wanted: usize) -> Result<()> {
        let count = self.fetch_entries.max(wanted).min(PAGE_ENTRIES);
        self.fetch_entries = count * 2;
        let page = match self.ahead.pop_front_if(|(ahead, _)| *ahead == range) {
            Some((_, page)) => page,
            None => self.read_ahead(&range, PageLimit::cells(count)).await?,
        };
        if let Some(rest) = &page.resume {
            self.ranges.push_front(rest.clone());
        }
        self.fetched = Some(Fetched { range, resume: page.resume });
        for (entry, payload) in page.cells.share_all() {
            if self.tx.is_live_row(&payload)? {
                self.entries.push_back(entry);
            }
        }
        Ok(())
    }

    /// Reads a range, and the ranges after it that are to be read at once.
    async fn read_ahead(&mut self, range: &KeyRange, limit: PageLimit) -> Result<CellPage> {
        let (tx, reverse) = (self.tx, self.access.reverse);
        if self.at_once == 1 || self.ranges.is_empty() || !self.ahead.is_empty() {
            return tx.range_cells(range, reverse, limit).await;
        }
        let ranges: Vec<KeyRange> = self.ranges.iter().take(self.at_once - 1).cloned().collect();
        let mut reads = vec![tx.range_cells(range, reverse, limit)];
        for range in &ranges {
            reads.push(tx.range_cells(range, reverse, limit));
        }
        let mut pages = join(reads, self.at_once).await?.into_iter();
        self.at_once = (self.at_once * 2).min(AHEAD_MAX);
        let page = pages.next().expect("one page for each range");
        self.ahead = ranges.into_iter().zip(pages).collect();
        Ok(page)
    }

    /// Returns `true` if the next entry is that of a partition's static cell and no other entry is
    /// fetched: the entry after it shows if the partition has rows.
    fn needs_next_entry(&self) -> Result<bool> {
        Ok(self.entries.len() == 1 && !self.ranges.is_empty() && self.begins_partition()?)
    }

    /// Returns `true` if the next entry is that of a partition's static cell, in an index whose other
    /// entries name rows.
    fn begins_partition(&self) -> Result<bool> {
        let layout = self.layout()?;
        match self.entries.front() {
            Some(entry) if !layout.is_static() => Ok(layout.is_static_cell(&layout.row_of(entry)?)),
            _ => Ok(false),
        }
    }

    /// Takes the entry of a partition's static cell. Without rows the partition is one row.
    async fn take_static_cell(&mut self) -> Result<()> {
        let layout = self.layout()?;
        let Some(entry) = self.entries.pop_front() else { return Ok(()) };
        let key = layout.row_of(&entry)?;
        if let Some(next) = self.entries.front()
            && layout.row_of(next)?.same_partition(&key)
        {
            return Ok(());
        }
        if self.tokens.contains(&key.token())
            && let Some(statics) = self.statics_of(&key).await?
        {
            self.found.push_back((entry, StoredRow { key, image: None, statics: Some(statics) }));
        }
        Ok(())
    }

    /// Reads the rows of the next entries.
    async fn fetch_rows(&mut self) -> Result<()> {
        let layout = self.layout()?;
        if layout.is_static() {
            let Some(entry) = self.entries.pop_front() else { return Ok(()) };
            let row = layout.row_of(&entry)?;
            self.last_entry = Some(entry);
            if self.tokens.contains(&row.token()) {
                self.enter(row.partition(), None).await?;
            }
            return Ok(());
        }
        if self.begins_partition()? {
            return self.take_static_cell().await;
        }
        let mut keys = Vec::with_capacity(self.entries.len());
        let mut entries = Vec::with_capacity(self.entries.len());
        while let Some(entry) = self.entries.pop_front() {
            let key = layout.row_of(&entry)?;
            if layout.is_static_cell(&key) {
                self.entries.push_front(entry);
                break;
            }
            if self.tokens.contains(&key.token()) {
                keys.push(key);
                entries.push(entry);
            }
        }
        if keys.is_empty() {
            return Ok(());
        }
        let versions = self.tx.get_first_cells(&keys, FETCH_BYTES).await?;
        for entry in entries.drain(versions.len()..).rev() {
            self.entries.push_front(entry);
        }
        self.held_bytes = 0;
        for ((entry, key), version) in entries.into_iter().zip(keys).zip(versions) {
            let Some(version) = version else { continue };
            self.held_bytes += version.payload.len();
            let image = self.tx.row_image(&version.payload)?;
            let Some(image) = image.and_then(|image| self.access.kept.retain(image)) else {
                continue;
            };
            let statics = self.statics_of(&key).await?;
            self.found.push_back((entry, StoredRow { key, image: Some(image), statics }));
        }
        Ok(())
    }

    async fn statics_of(&mut self, row: &CellKey) -> Result<Option<Arc<RowImage>>> {
        if !self.access.has_statics {
            return Ok(None);
        }
        let partition = row.partition();
        if let Some((known, statics)) = &self.statics
            && *known == partition
        {
            return Ok(statics.clone());
        }
        let statics = fetch_statics(self.tx, &self.access, &partition).await?;
        self.statics = Some((partition, statics.clone()));
        Ok(statics)
    }

    /// Returns the number of bytes of the rows that are fetched and not yet returned.
    pub(super) fn held_bytes(&self) -> usize {
        let scanned = self.partition.as_ref().map_or(0, |scan| scan.held_bytes());
        scanned + if self.found.is_empty() { 0 } else { self.held_bytes }
    }

    /// Returns the entry of the last returned row.
    pub(super) fn last_entry(&self) -> Option<CellKey> {
        self.last_entry.clone()
    }

    /// Skips the other rows of the partition of the last row.
    pub(super) fn skip_partition(&mut self, last: &CellKey) {
        match &mut self.partition {
            Some(_) => self.partition = None,
            None => self.skipped = Some(last.partition()),
        }
    }

    /// Ends the scan after the row `last`: entries and rows fetched after it leave the read set.
    pub(super) fn stop<I>(&mut self, last: &StoredRow<I>) -> Result<()> {
        if let Some(mut scan) = self.partition.take() {
            scan.stop(last)?;
        }
        let unused: Vec<CellKey> = self.found.drain(..).map(|(_, row)| row.key).collect();
        self.tx.forget_cells(&unused)?;
        self.entries.clear();
        self.ranges.clear();
        self.ahead.clear();
        // A row of static columns only depends on the absence of rows after its entry.
        let depends_on_rest = last.image.is_none() && !self.layout()?.is_static();
        match (self.fetched.take().filter(|_| !depends_on_rest), &self.last_entry) {
            (Some(Fetched { range, resume }), Some(entry)) => {
                self.tx.narrow_range(&range, resume.as_ref(), self.access.reverse, entry)
            }
            _ => Ok(()),
        }
    }
}
