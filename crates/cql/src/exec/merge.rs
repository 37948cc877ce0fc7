//! Merge of several partitions in the order of their rows: `ORDER BY` with `IN` on the partition
//! key.
//!
//! Each partition has its own scan, whose rows come in the requested order. The heads of all scans,
//! which are their first rows not yet returned, are in a heap:
//!
//! ```text
//!   partition 0    · · 7 9        heads: 5 (partition 1), 7 (0), 8 (2)
//!   partition 1    · 5 6          next row: 5, then the scan of partition 1 advances
//!   partition 2    8
//! ```
//!
//! Rows that compare as equal come in the order of their partitions. No scan reads ahead of its
//! head by more than one of its own fetches. A `LIMIT` is therefore reached without reading the
//! partitions to their ends, and the transaction depends on each partition's rows up to its head
//! only. The heads are charged to the statement as they are read: thousands of partitions may have long rows.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use carnet::catalog::TableSchema;
use carnet::{CellKey, PartitionKey, Result, Tx};
use carnet_base::Bytes;
use carnet_data::RowImage;

use super::answer_memory::{AnswerMemory, of_table};
use super::comparison::Comparison;
use super::index_scan::IndexScan;
use super::scan::Scan;
use super::stored_row::{CellImage, StoredRow};
use super::system_rows::SystemRows;
use crate::access::{Access, Partitions};
use crate::compile::RowOrder;
use crate::cql_error::CqlError;

/// Source of the rows of a plan: partitions one after the other, or merged.
#[expect(clippy::large_enum_variant, reason = "the large one is that of almost every read")]
pub(super) enum Source<'a> {
    Scan(Scan<'a>),
    Merge(Box<Merge<'a>>),
    Index(Box<IndexScan<'a>>),
    System(Box<SystemRows>),
}

impl<'a> Source<'a> {
    /// Begins to read, after the row `behind` if rows were returned before.
    pub(super) async fn new(
        tx: &'a Tx,
        (table, memory): (&TableSchema, Option<&AnswerMemory>),
        access: Access,
        order: RowOrder,
        is_filtered: bool,
        behind: Option<&CellKey>,
    ) -> Result<Self, CqlError> {
        match (&access.partitions, order.merged) {
            (Partitions::Keys(keys), Some(columns)) if keys.len() > 1 => {
                let comparison = Comparison::new(table, columns, order.reverse);
                let charged = memory.map(|memory| (memory, table));
                let merge = Merge::new((tx, charged), &access, keys, comparison, is_filtered);
                Ok(Self::Merge(Box::new(Box::pin(merge).await?)))
            }
            _ => Ok(Self::Scan(Scan::new(tx, access, is_filtered, behind).await?)),
        }
    }

    /// Returns the next row. The caller can use `wanted` rows, including this one.
    pub(super) async fn next<I: CellImage>(
        &mut self,
        wanted: usize,
    ) -> Result<Option<StoredRow<I>>> {
        let row = match self {
            Self::Scan(scan) => return scan.next(wanted).await,
            Self::Index(scan) => Box::pin(scan.next(wanted)).await?,
            Self::Merge(merge) => Box::pin(merge.next()).await?,
            Self::System(rows) => rows.next(),
        };
        Ok(row.map(StoredRow::into_form))
    }

    /// Returns the number of bytes of the cells that are fetched and not yet returned.
    pub(super) fn held_bytes(&self) -> usize {
        match self {
            Self::Scan(scan) => scan.held_bytes(),
            Self::Index(scan) => scan.held_bytes(),
            Self::Merge(merge) => merge.held_bytes(),
            Self::System(rows) => rows.held_bytes(),
        }
    }

    /// Ends after the row `last`, which [`Source::next`] returned: no further row is needed.
    pub(super) fn stop<I>(&mut self, last: &StoredRow<I>) -> Result<()> {
        match self {
            Self::Scan(scan) => scan.stop(last),
            Self::Index(scan) => scan.stop(last),
            Self::Merge(merge) => merge.stop(last),
            Self::System(rows) => {
                rows.stop();
                Ok(())
            }
        }
    }

    /// Skips the rest of the partition of the last row.
    pub(super) fn skip_partition(&mut self, last: &CellKey) {
        match self {
            Self::Scan(scan) => scan.skip_partition(last),
            Self::Index(scan) => scan.skip_partition(last),
            Self::Merge(merge) => merge.last = None,
            Self::System(rows) => rows.skip_partition(last),
        }
    }
}

/// Merge of several partitions in the order of their rows.
pub(super) struct Merge<'a> {
    /// Scans by the position of their partition.
    scans: Vec<Scan<'a>>,
    comparison: Comparison,
    heads: BinaryHeap<Head>,
    /// Position of the partition of the last returned row, whose scan has no head yet.
    last: Option<usize>,
    /// Number of counted rows, by partition.
    counts: Vec<u32>,
    /// Position of the partition of the last returned row.
    current: usize,
    /// Number of bytes of the cells that all scans have fetched and not yet returned.
    fetched_bytes: usize,
    /// Number of bytes of the heads.
    head_bytes: usize,
}

impl<'a> Merge<'a> {
    async fn new(
        (tx, charged): (&'a Tx, Option<(&AnswerMemory, &TableSchema)>),
        access: &Access,
        keys: &[PartitionKey],
        comparison: Comparison,
        is_filtered: bool,
    ) -> Result<Self, CqlError> {
        let mut scans = Vec::with_capacity(keys.len());
        for key in keys {
            let partitions = Partitions::Keys(vec![key.clone()]);
            let access = Access { partitions, ..access.clone() };
            scans.push(Scan::new(tx, access, is_filtered, None).await?);
        }
        let counts = vec![0; scans.len()];
        let heads = BinaryHeap::with_capacity(scans.len());
        let mut merge = Self {
            scans,
            comparison,
            heads,
            last: None,
            counts,
            current: 0,
            fetched_bytes: 0,
            head_bytes: 0,
        };
        for place in 0..merge.scans.len() {
            merge.advance(place).await?;
            if let Some((memory, table)) = charged {
                let grown = memory.grow_to(0, merge.held_bytes());
                grown.map_err(|error| of_table(table, &error))?;
            }
        }
        Ok(merge)
    }

    const fn held_bytes(&self) -> usize {
        self.fetched_bytes + self.head_bytes
    }

    async fn next(&mut self) -> Result<Option<StoredRow>> {
        if let Some(place) = self.last.take() {
            self.advance(place).await?;
        }
        let Some(head) = self.heads.pop() else { return Ok(None) };
        self.head_bytes -= head.bytes();
        self.last = Some(head.place);
        self.current = head.place;
        Ok(Some(head.row))
    }

    /// Counts the last returned row, and returns the number of counted rows of its partition.
    pub(super) fn count_row(&mut self) -> u32 {
        let count = &mut self.counts[self.current];
        *count = count.saturating_add(1);
        *count
    }

    /// Reads the head of a partition.
    async fn advance(&mut self, place: usize) -> Result<()> {
        // Only one row: further rows of this partition may come after rows of other partitions.
        let scan = &mut self.scans[place];
        self.fetched_bytes -= scan.held_bytes();
        let row = scan.next(1).await?;
        self.fetched_bytes += scan.held_bytes();
        if let Some(row) = row {
            let sort_key = self.comparison.sort_key(&row.key)?;
            let head = Head { sort_key, reverse: self.comparison.reverse, place, row };
            self.head_bytes += head.bytes();
            self.heads.push(head);
        }
        Ok(())
    }

    fn stop<I>(&mut self, last: &StoredRow<I>) -> Result<()> {
        if let Some(place) = self.last.take() {
            self.scans[place].stop(last)?;
        }
        for head in self.heads.drain() {
            self.scans[head.place].stop(&head.row)?;
        }
        (self.fetched_bytes, self.head_bytes) = (0, 0);
        Ok(())
    }
}

/// First row of a partition that has not been returned.
struct Head {
    sort_key: Bytes,
    reverse: bool,
    place: usize,
    row: StoredRow,
}

impl Head {
    /// Returns the memory of the head; static columns are shared by the rows of a partition.
    fn bytes(&self) -> usize {
        let StoredRow { key, image, statics } = &self.row;
        let of_image = |image: &RowImage| image.encoded_bytes();
        let of_keys = key.as_bytes().len() + self.sort_key.len();
        of_keys + image.as_ref().map_or(0, of_image) + statics.as_deref().map_or(0, of_image)
    }
}

/// The greatest head is the next row, because the heap is a max-heap.
impl Ord for Head {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_key = self.sort_key.cmp(&other.sort_key);
        let by_key = if self.reverse { by_key } else { by_key.reverse() };
        by_key.then_with(|| other.place.cmp(&self.place))
    }
}

impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Head {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Head {}
