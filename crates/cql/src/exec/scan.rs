//! Reads the rows of a plan, one after the other, with the static columns of their partition.
//!
//! Cells come from the store in their order, a partition's static cell before its rows. What CQL
//! makes of them:
//!
//! * A row is joined with its partition's static columns. Reading backwards, or beginning in the
//!   middle of a partition, the static cell is fetched by a read of its own.
//! * A partition that has live static columns and no row is one row whose clustering and regular
//!   columns are null, unless the statement restricts the clustering key.

use std::collections::VecDeque;
use std::ops::Bound;
use std::sync::Arc;

use carnet::base::{Bytes, RowImage, TableId, Token};
use carnet::{CellKey, Entry, KeyRange, PageLimit, PartitionKey, Result, Tx};

/// Cells in one read to the store.
const PAGE_CELLS: usize = 256;

/// The partitions that a statement reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Partitions {
    /// These, in token order, none twice.
    Keys(Vec<PartitionKey>),
    /// All whose token lies within the bounds.
    Tokens(Bound<Token>, Bound<Token>),
}

/// The rows that a statement reads within a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Clustering {
    /// All of them; the statement does not restrict the clustering key.
    All,
    /// Those with these clustering keys, in their order, none twice.
    Cells(Vec<Bytes>),
    /// Those whose clustering key lies in one of the spans, in the order of the spans, which is
    /// that of the keys.
    Spans(Vec<(Bound<Bytes>, Bound<Bytes>)>),
}

/// What a statement reads, and in which order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Access {
    pub(crate) table: TableId,
    pub(crate) partitions: Partitions,
    pub(crate) clustering: Clustering,
    /// Rows of a partition from the last to the first; partitions stay in token order.
    pub(crate) reverse: bool,
    pub(crate) has_clustering: bool,
    pub(crate) has_statics: bool,
}

/// A row as it is stored.
#[derive(Clone, Debug)]
pub(crate) struct StoredRow {
    pub(crate) key: CellKey,
    /// The row's own columns; `None` for a partition that has static columns only.
    pub(crate) image: Option<RowImage>,
    pub(crate) statics: Option<Arc<RowImage>>,
}

/// Reads the rows of a plan.
pub(crate) struct Scan<'a> {
    tx: &'a Tx,
    access: Access,
    /// Partitions still to be entered; empty when the scan finds them by itself.
    partitions: VecDeque<PartitionKey>,
    /// What is still to be read, within `current` or, scanning tokens, beyond it.
    targets: VecDeque<Target>,
    current: Option<Current>,
    cells: VecDeque<(CellKey, Entry)>,
}

enum Target {
    Range(KeyRange),
    Cell(CellKey),
}

/// The partition that the scan is in.
struct Current {
    partition: PartitionKey,
    statics: Option<Arc<RowImage>>,
    /// It has a row, or was entered behind one: it is not "static columns only".
    has_rows: bool,
}

impl<'a> Scan<'a> {
    /// Begins a scan, behind a row that was returned before where one is given.
    pub(crate) async fn new(tx: &'a Tx, access: Access, behind: Option<&CellKey>) -> Result<Self> {
        let (partitions, targets) = match &access.partitions {
            Partitions::Keys(keys) => (keys.iter().cloned().collect(), VecDeque::new()),
            Partitions::Tokens(lower, upper) => {
                let range = KeyRange::tokens(access.table, *lower, *upper);
                (VecDeque::new(), VecDeque::from([Target::Range(range)]))
            }
        };
        let mut scan =
            Self { tx, access, partitions, targets, current: None, cells: VecDeque::new() };
        if let Some(last) = behind {
            scan.skip_to(last).await?;
        }
        Ok(scan)
    }

    /// Returns the next row.
    pub(crate) async fn next(&mut self) -> Result<Option<StoredRow>> {
        loop {
            if let Some((key, entry)) = self.cells.pop_front() {
                if let Some(row) = self.take_cell(key, &entry)? {
                    return Ok(Some(row));
                }
            } else if let Some(target) = self.targets.pop_front() {
                self.fetch(target).await?;
            } else if let Some(row) = self.leave_partition() {
                return Ok(Some(row));
            } else if self.partitions.is_empty() {
                return Ok(None);
            } else if self.is_of_single_rows() {
                self.fetch_partitions().await?;
            } else if let Some(partition) = self.partitions.pop_front() {
                self.enter(partition).await?;
            }
        }
    }

    /// Skips everything up to a row, itself included.
    async fn skip_to(&mut self, last: &CellKey) -> Result<()> {
        let last_partition = last.partition();
        match &self.access.partitions {
            Partitions::Keys(_) => {
                self.partitions.retain(|partition| *partition >= last_partition);
                if self.partitions.front() == Some(&last_partition) {
                    self.partitions.pop_front();
                    self.enter(last_partition).await?;
                    let reverse = self.access.reverse;
                    let rest = self.targets.drain(..);
                    self.targets = rest.filter_map(|target| trim(target, last, reverse)).collect();
                }
            }
            Partitions::Tokens(..) => {
                let statics = self.fetch_statics(&last_partition).await?;
                self.current = Some(Current { partition: last_partition, statics, has_rows: true });
                let rest = self.targets.drain(..);
                self.targets = rest.filter_map(|target| trim(target, last, false)).collect();
            }
        }
        if let Some(current) = &mut self.current {
            current.has_rows = true;
        }
        Ok(())
    }

    /// Enters a partition that the statement names.
    async fn enter(&mut self, partition: PartitionKey) -> Result<()> {
        let statics = self.fetch_statics(&partition).await?;
        let table = self.access.table;
        let span = |lower: &Bound<Bytes>, upper: &Bound<Bytes>| {
            Target::Range(KeyRange::clustering(table, &partition, lower.clone(), upper.clone()))
        };
        self.targets = match &self.access.clustering {
            // The static cell, whose clustering key is empty, has been read already.
            Clustering::All if self.access.has_clustering => {
                VecDeque::from([span(&Bound::Excluded(Bytes::new()), &Bound::Unbounded)])
            }
            Clustering::All => VecDeque::from([span(&Bound::Unbounded, &Bound::Unbounded)]),
            Clustering::Cells(cells) => {
                let cell =
                    |clustering: &Bytes| Target::Cell(CellKey::new(table, &partition, clustering));
                cells.iter().map(cell).collect()
            }
            Clustering::Spans(spans) => {
                spans.iter().map(|(lower, upper)| span(lower, upper)).collect()
            }
        };
        if self.access.reverse {
            self.targets.make_contiguous().reverse();
        }
        self.current = Some(Current { partition, statics, has_rows: false });
        Ok(())
    }

    /// Leaves the partition at its end: static columns without a row are a row of their own.
    fn leave_partition(&mut self) -> Option<StoredRow> {
        let current = self.current.take()?;
        if current.has_rows || self.access.clustering != Clustering::All {
            return None;
        }
        let statics = current.statics?;
        let key = CellKey::new(self.access.table, &current.partition, "");
        Some(StoredRow { key, image: None, statics: Some(statics) })
    }

    /// Makes a row of a cell. It may have to be left for the next call: the partition before it
    /// had static columns only, and is returned first.
    fn take_cell(&mut self, key: CellKey, entry: &Entry) -> Result<Option<StoredRow>> {
        let partition = key.partition();
        if self.current.as_ref().is_none_or(|current| current.partition != partition)
            && let Some(row) = self.leave_partition()
        {
            self.cells.push_front((key, entry.clone()));
            return Ok(Some(row));
        }
        let current = self.current.get_or_insert_with(|| Current {
            partition,
            statics: None,
            has_rows: false,
        });
        let image = RowImage::decode(&entry.payload)?;
        if self.access.has_clustering && key.clustering().is_empty() {
            if image.is_live() && self.access.has_statics {
                current.statics = Some(Arc::new(image));
            }
            return Ok(None);
        }
        if !image.is_live() {
            return Ok(None);
        }
        current.has_rows = true;
        Ok(Some(StoredRow { statics: current.statics.clone(), key, image: Some(image) }))
    }

    async fn fetch(&mut self, target: Target) -> Result<()> {
        match target {
            Target::Cell(key) => {
                let mut keys = vec![key];
                while keys.len() < PAGE_CELLS
                    && let Some(Target::Cell(key)) =
                        self.targets.pop_front_if(|target| matches!(target, Target::Cell(_)))
                {
                    keys.push(key);
                }
                self.fetch_cells(keys).await?;
            }
            Target::Range(range) => {
                let limit = PageLimit::cells(PAGE_CELLS);
                let page = self.tx.range_cells(&range, self.access.reverse, limit).await?;
                self.cells.extend(page.cells);
                if let Some(rest) = page.resume {
                    self.targets.push_front(Target::Range(rest));
                }
            }
        }
        Ok(())
    }

    /// Tells whether a partition is one row, which is read by its key.
    fn is_of_single_rows(&self) -> bool {
        !self.access.has_clustering && self.access.clustering == Clustering::All
    }

    /// Reads the rows of partitions that have one each, without entering them.
    async fn fetch_partitions(&mut self) -> Result<()> {
        let count = self.partitions.len().min(PAGE_CELLS);
        let table = self.access.table;
        let partitions = self.partitions.drain(..count);
        let keys = partitions.map(|partition| CellKey::new(table, &partition, "")).collect();
        self.fetch_cells(keys).await
    }

    async fn fetch_cells(&mut self, keys: Vec<CellKey>) -> Result<()> {
        let entries = self.tx.get_cells(&keys).await?;
        let found = keys.into_iter().zip(entries);
        self.cells.extend(found.filter_map(|(key, entry)| Some((key, entry?))));
        Ok(())
    }

    /// Skips what is left of the partition that the scan is in.
    pub(crate) fn skip_partition(&mut self) {
        let Some(current) = &mut self.current else { return };
        current.has_rows = true;
        let partition = current.partition.clone();
        self.cells.retain(|(key, _)| key.partition() != partition);
        match self.access.partitions {
            Partitions::Keys(_) => self.targets.clear(),
            Partitions::Tokens(..) => {
                let next = CellKey::new(self.access.table, &partition.successor(), "");
                for target in &mut self.targets {
                    if let Target::Range(range) = target
                        && range.contains(&next)
                    {
                        range.lower = Bound::Included(next.clone());
                    }
                }
            }
        }
    }

    async fn fetch_statics(&self, partition: &PartitionKey) -> Result<Option<Arc<RowImage>>> {
        if !self.access.has_statics {
            return Ok(None);
        }
        let key = CellKey::new(self.access.table, partition, "");
        let Some(entry) = self.tx.get_cell(&key).await? else { return Ok(None) };
        let image = RowImage::decode(&entry.payload)?;
        Ok(image.is_live().then(|| Arc::new(image)))
    }
}

/// Returns what is left of a target behind a row, which may lie before or behind all of it.
fn trim(target: Target, last: &CellKey, reverse: bool) -> Option<Target> {
    let range = match target {
        Target::Cell(key) => {
            let is_behind = if reverse { key < *last } else { key > *last };
            return is_behind.then_some(Target::Cell(key));
        }
        Target::Range(range) => range,
    };
    let begins_behind = match (reverse, &range.lower, &range.upper) {
        (false, Bound::Included(first) | Bound::Excluded(first), _) => first > last,
        (true, _, Bound::Included(first) | Bound::Excluded(first)) => first < last,
        _ => false,
    };
    let rest = if begins_behind { range } else { range.after(last.clone(), reverse) };
    (!rest.is_empty()).then_some(Target::Range(rest))
}
