//! Scan of the rows of a plan, one after the other, with the static columns of their partition.
//!
//! Cells come from the store in key order, a partition's static cell before its rows. The scan
//! makes CQL rows of them:
//!
//! * A row is joined with its partition's static columns. If the scan reads backwards or begins in
//!   the middle of a partition, it fetches the static cell by a separate read.
//! * A partition that has live static columns and no row is one row whose clustering and regular
//!   columns are null, unless the statement restricts the clustering key.
//!
//! A scan fetches only as many cells as the statement can use. The first fetch of a statement with
//! `LIMIT 1` is one cell; each further fetch is twice as long as the one before, because filtered
//! or deleted rows must not cost a round trip each. When the limit is reached, [`Scan::stop`]
//! removes unused fetched cells from the read set: the transaction depends on the rows that it
//! needed, and on no later ones.

use std::collections::VecDeque;
use std::ops::Bound;
use std::sync::Arc;

use carnet::{CellKey, Error, KeyRange, PageLimit, PartitionKey, Result, Tx};
use carnet_base::{Bytes, CellRef, TimeSlice};
use carnet_data::RowImage;
use carnet_data::row::RowReader;

use super::cell_queue::CellQueue;
use super::stored_row::{CellImage, LentImage, LentRow, StoredRow};
use crate::access::{Access, Clustering, Partitions};

/// Maximum number of cells in one read to the store.
const PAGE_CELLS: usize = 256;

/// Maximum number of cells in the first multi-get of a scan, before cell sizes are known.
const UNKNOWN_CELLS: usize = 32;

/// Target size in bytes of a multi-get, by the sizes of earlier cells.
const FETCH_BYTES: usize = 1 << 20;

/// Bytes of an encoded row with collections above which a statement yields first: its elements are
/// decoded and encoded in one go.
const LONG_ROW_BYTES: usize = 256 << 10;

/// Number of cells between two checks of the time slice.
const SLICE_CELLS: usize = 16;

/// Number of cells in the first read of a filtered scan, whose rows may mostly be dropped.
const FILTERED_CELLS: usize = 16;

/// Scan of the rows of a plan.
pub(crate) struct Scan<'a> {
    tx: &'a Tx,
    access: Access,
    /// Partitions not yet entered; empty if the scan finds them by itself.
    partitions: VecDeque<PartitionKey>,
    /// Ranges and cells not yet read, within `current` or, when scanning tokens, beyond it.
    targets: VecDeque<Target>,
    current: Option<Current>,
    cells: CellQueue,
    /// The read that returned the rest of `cells`.
    fetched: Option<Fetched>,
    /// Minimum number of cells in the next read.
    fetch_cells: usize,
    /// Checked before each read: reads from memory never wait, so they never yield by themselves.
    slice: Option<TimeSlice<'a>>,
    /// Number of cells taken from `cells`, to check the time slice after each [`SLICE_CELLS`].
    taken: usize,
    /// Number of cells of multi-gets, including missing ones, and their bytes.
    fetched_cells: usize,
    fetched_bytes: usize,
}

/// Kind of a read from the store.
#[derive(Clone, Copy)]
enum Fetch {
    /// A page of a range, limited in bytes.
    Page,
    /// Cells by their keys.
    Cells,
}

/// A read from the store, as recorded in the read set.
enum Fetched {
    Range { range: KeyRange, resume: Option<KeyRange> },
    Cells { keys: Vec<CellKey> },
}

enum Target {
    Range(KeyRange),
    Cell(CellKey),
}

/// Current partition of the scan.
struct Current {
    partition: PartitionKey,
    statics: Option<Arc<RowImage>>,
    /// Whether it has a row, or was entered after one: it is not "static columns only".
    has_rows: bool,
}

impl<'a> Scan<'a> {
    /// Begins a scan, after the row `behind` if rows were returned before. `is_filtered` means that
    /// the caller drops rows.
    pub(crate) async fn new(
        tx: &'a Tx,
        access: Access,
        is_filtered: bool,
        behind: Option<&CellKey>,
    ) -> Result<Self> {
        let (partitions, targets) = match &access.partitions {
            Partitions::Keys(keys) => (keys.iter().cloned().collect(), VecDeque::new()),
            Partitions::Tokens(lower, upper) => {
                let range = KeyRange::tokens(access.table, *lower, *upper);
                (VecDeque::new(), VecDeque::from([Target::Range(range)]))
            }
        };
        let mut scan = Self {
            tx,
            access,
            partitions,
            targets,
            current: None,
            cells: CellQueue::default(),
            fetched: None,
            fetch_cells: if is_filtered { FILTERED_CELLS } else { 1 },
            slice: tx.time_slice(),
            taken: 0,
            fetched_cells: 0,
            fetched_bytes: 0,
        };
        if let Some(last) = behind {
            Box::pin(scan.skip_to(last)).await?;
        }
        Ok(scan)
    }

    /// Returns the next row. The caller can use `wanted` rows, including this one.
    pub(crate) async fn next<I: CellImage>(
        &mut self,
        wanted: usize,
    ) -> Result<Option<StoredRow<I>>> {
        loop {
            if let Some((key, payload)) = self.cells.pop() {
                self.taken += 1;
                if has_many_elements(&payload)? {
                    self.yield_now().await;
                } else if self.taken.is_multiple_of(SLICE_CELLS) {
                    self.end_slice().await;
                }
                if let Some(row) = self.take_cell(key, payload)? {
                    return Ok(Some(row));
                }
            } else if let Some(target) = self.targets.pop_front() {
                self.end_slice().await;
                // In memory of its own: the statement above would move it many times.
                Box::pin(self.fetch(target, wanted)).await?;
            } else if let Some(row) = self.leave_partition() {
                return Ok(Some(row));
            } else if self.partitions.is_empty() {
                return Ok(None);
            } else if self.is_of_single_rows() {
                self.end_slice().await;
                Box::pin(self.fetch_partitions(wanted)).await?;
            } else if let Some(partition) = self.partitions.pop_front() {
                self.end_slice().await;
                self.enter(partition).await?;
            }
        }
    }

    /// Lends the rows that follow the last returned one to `take`, as long as it returns `true`: those
    /// in the fetched page, up to the next check of the time slice. Returns the key of the last one.
    /// Rows with static columns are lent up to the end of their partition.
    pub(super) fn lend(
        &mut self,
        rows_max: usize,
        mut take: impl FnMut(&LentRow<'_>) -> bool,
    ) -> Result<Option<CellKey>> {
        let Self { tx, access, cells, taken, current: Some(current), .. } = self else {
            return Ok(None);
        };
        let (mut rows, mut last, mut goes_on) = (0, None, access.kept.are_all());
        while goes_on
            && rows < rows_max
            && (*taken + 1) % SLICE_CELLS != 0
            && let Some((at, cell)) = cells.peek()
        {
            let CellRef { key, payload, .. } = cell;
            let is_static = access.has_clustering && key.clustering().is_empty();
            if access.has_statics
                && (is_static || key.partition() != &current.partition.bytes()[..])
            {
                break;
            }
            if !is_static && tx.is_live_row(payload)? {
                let (image, statics) = (LentImage::Encoded(payload), current.statics.as_deref());
                goes_on = take(&LentRow { key, image: Some(image), statics });
                (rows, last) = (rows + 1, Some(at));
            }
            cells.skip();
            *taken += 1;
        }
        let last = last.and_then(|at| cells.key(at));
        if let Some(last) = &last {
            (current.partition, current.has_rows) = (last.partition(), true);
        }
        Ok(last)
    }

    /// Returns the number of bytes of the cells that are fetched and not yet returned.
    pub(super) const fn held_bytes(&self) -> usize {
        self.cells.bytes()
    }

    async fn yield_now(&mut self) {
        if let Some(slice) = &mut self.slice {
            slice.end().await;
        }
    }

    async fn end_slice(&mut self) {
        if let Some(slice) = &mut self.slice {
            slice.check().await;
        }
    }

    /// Skips all rows up to and including a row.
    async fn skip_to(&mut self, last: &CellKey) -> Result<()> {
        let last_partition = last.partition();
        match &self.access.partitions {
            Partitions::Keys(_) => {
                let place = self.partitions.iter().position(|key| *key == last_partition);
                let place = place.ok_or_else(|| {
                    Error::invalid(
                        "the paging state belongs to a query of other partitions; begin the query \
                         anew",
                    )
                })?;
                self.partitions.drain(..=place);
                self.enter(last_partition).await?;
                let reverse = self.access.reverse;
                let rest = self.targets.drain(..);
                self.targets = rest.filter_map(|target| trim(target, last, reverse)).collect();
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
            // The static cell, whose clustering key is empty, is already read.
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

    /// Leaves the partition at its end: static columns without a row form a row of their own.
    fn leave_partition<I>(&mut self) -> Option<StoredRow<I>> {
        let current = self.current.take()?;
        if current.has_rows || self.access.clustering != Clustering::All {
            return None;
        }
        let statics = current.statics?;
        let key = CellKey::new(self.access.table, &current.partition, "");
        Some(StoredRow { key, image: None, statics: Some(statics) })
    }

    /// Makes a row of a cell. The cell stays for the next call if the previous partition had static
    /// columns only: that partition's row is returned first.
    fn take_cell<I: CellImage>(
        &mut self,
        key: CellKey,
        payload: Bytes,
    ) -> Result<Option<StoredRow<I>>> {
        let partition = key.partition();
        if self.current.as_ref().is_none_or(|current| current.partition != partition)
            && let Some(row) = self.leave_partition()
        {
            self.cells.put_back(key, payload);
            return Ok(Some(row));
        }
        let current = self.current.get_or_insert_with(|| Current {
            partition,
            statics: None,
            has_rows: false,
        });
        if self.access.has_clustering && key.clustering().is_empty() {
            if self.access.has_statics {
                let image = RowImage::of(self.tx, &self.access.kept, payload)?;
                current.statics = image.map(Arc::new);
            }
            return Ok(None);
        }
        let Some(image) = I::of(self.tx, &self.access.kept, payload)? else {
            return Ok(None);
        };
        current.has_rows = true;
        Ok(Some(StoredRow { statics: current.statics.clone(), key, image: Some(image) }))
    }

    /// Returns the number of cells to read next. Over a cluster a multi-get has no limit in bytes: it
    /// begins with few cells, and continues with as many as fit by the size of earlier ones.
    fn next_fetch(&mut self, wanted: usize, kind: Fetch) -> usize {
        let most = match kind {
            Fetch::Page => PAGE_CELLS,
            Fetch::Cells => self.fetched_bytes.checked_div(self.fetched_cells).map_or(
                UNKNOWN_CELLS,
                |average| {
                    FETCH_BYTES.checked_div(average).unwrap_or(PAGE_CELLS).clamp(1, PAGE_CELLS)
                },
            ),
        };
        let cells = self.fetch_cells.max(wanted).min(most);
        self.fetch_cells = cells * 2;
        cells
    }

    async fn fetch(&mut self, target: Target, wanted: usize) -> Result<()> {
        match target {
            Target::Cell(key) => {
                let cells = self.next_fetch(wanted, Fetch::Cells);
                let mut keys = vec![key];
                while keys.len() < cells
                    && let Some(Target::Cell(key)) =
                        self.targets.pop_front_if(|target| matches!(target, Target::Cell(_)))
                {
                    keys.push(key);
                }
                for unread in self.fetch_cells(keys).await?.into_iter().rev() {
                    self.targets.push_front(Target::Cell(unread));
                }
            }
            Target::Range(range) => {
                let cells = self.next_fetch(wanted, Fetch::Page);
                let limit = PageLimit::cells(cells);
                let page = self.tx.range_cells(&range, self.access.reverse, limit).await?;
                self.cells.fill(page.cells);
                if let Some(rest) = &page.resume {
                    self.targets.push_front(Target::Range(rest.clone()));
                }
                self.fetched = Some(Fetched::Range { range, resume: page.resume });
            }
        }
        Ok(())
    }

    /// Returns `true` if a partition is one row, which is read by its key: without clustering
    /// columns a statement that names partitions names rows.
    const fn is_of_single_rows(&self) -> bool {
        !self.access.has_clustering
    }

    /// Reads the rows of single-row partitions, without entering them.
    async fn fetch_partitions(&mut self, wanted: usize) -> Result<()> {
        let count = self.partitions.len().min(self.next_fetch(wanted, Fetch::Cells));
        let table = self.access.table;
        let partitions = self.partitions.iter().take(count);
        let keys = partitions.map(|partition| CellKey::new(table, partition, "")).collect();
        let unread = self.fetch_cells(keys).await?.len();
        self.partitions.drain(..count - unread);
        Ok(())
    }

    /// Reads the first of some cells; returns the keys that were not read.
    async fn fetch_cells(&mut self, mut keys: Vec<CellKey>) -> Result<Vec<CellKey>> {
        let entries = self.tx.get_first_cells(&keys, FETCH_BYTES).await?;
        let unread = keys.split_off(entries.len());
        self.fetched_cells += keys.len();
        self.fetched_bytes +=
            entries.iter().flatten().map(|entry| entry.payload.len()).sum::<usize>();
        let found = keys.iter().cloned().zip(entries);
        self.cells.fill_single(found.filter_map(|(key, entry)| Some((key, entry?.payload))));
        self.fetched = Some(Fetched::Cells { keys });
        Ok(unread)
    }

    /// Ends the scan after the row `last`: the statement needs no further row. Cells fetched after
    /// it leave the read set.
    pub(crate) fn stop<I>(&mut self, last: &StoredRow<I>) -> Result<()> {
        self.cells.clear();
        self.targets.clear();
        self.partitions.clear();
        self.current = None;
        // If the row has only static columns, it depends on the absence of other rows, and so on
        // the whole range of its partition.
        let fetched = self.fetched.take().filter(|_| last.image.is_some());
        let last = &last.key;
        match fetched {
            Some(Fetched::Range { range, resume }) => {
                let reverse = self.access.reverse;
                self.tx.narrow_range(&range, resume.as_ref(), reverse, last)
            }
            Some(Fetched::Cells { keys }) => {
                let used = keys.iter().position(|key| key == last).map_or(keys.len(), |at| at + 1);
                self.tx.forget_cells(&keys[used..])
            }
            None => Ok(()),
        }
    }

    /// Skips the rest of a partition, if the scan is in it.
    pub(crate) fn skip_partition(&mut self, last: &CellKey) {
        let Some(current) = &mut self.current else { return };
        if current.partition != last.partition() {
            return;
        }
        current.has_rows = true;
        let partition = current.partition.clone();
        self.cells.skip_while(|key| key.partition() == partition);
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
        fetch_statics(self.tx, &self.access, partition).await
    }
}

/// Reads the static columns of a partition that a plan uses.
pub(super) async fn fetch_statics(
    tx: &Tx,
    access: &Access,
    partition: &PartitionKey,
) -> Result<Option<Arc<RowImage>>> {
    if !access.has_statics {
        return Ok(None);
    }
    let key = CellKey::new(access.table, partition, "");
    let Some(entry) = Box::pin(tx.get_cell(&key)).await? else { return Ok(None) };
    Ok(RowImage::of(tx, &access.kept, entry.payload)?.map(Arc::new))
}

/// Returns the part of a target after a row, which may lie before or after all of it.
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

/// Returns `true` if a statement yields before it works on the elements of a row.
pub(super) fn has_many_elements(payload: &Bytes) -> Result<bool> {
    if payload.len() <= LONG_ROW_BYTES {
        return Ok(false);
    }
    let mut columns = RowReader::new(payload)?;
    while let Some(column) = columns.next_column()? {
        if column.has_elements && column.value.len() > LONG_ROW_BYTES {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use carnet::catalog::KeptColumns;
    use carnet::{Db, Uuid, block_on};

    use super::*;
    use crate::system::NodeInfo;
    use crate::{Executor, Parameters, Session};

    #[test]
    fn scan_fetches_the_wanted_cells() {
        let executor =
            Executor::new(Db::builder().in_memory(), NodeInfo::local(Uuid::from_u64_pair(1, 2)));
        let session = Session::new();
        let parameters = Parameters::default();
        let query = |text: &str| block_on(executor.query(&session, text, &parameters)).unwrap();
        query("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy'}");
        query("USE ks");
        query("CREATE TABLE t (k int, c int, PRIMARY KEY (k, c))");
        for c in 0..600 {
            query(&format!("INSERT INTO t (k, c) VALUES (1, {c})"));
        }
        block_on(async {
            let tx = executor.db().snapshot_async().await.unwrap();
            let table = carnet::catalog::table(&tx, "ks", "t").await.unwrap().unwrap().id;
            let access = || Access {
                table,
                partitions: Partitions::Tokens(Bound::Unbounded, Bound::Unbounded),
                clustering: Clustering::All,
                reverse: false,
                has_clustering: true,
                has_statics: false,
                kept: KeptColumns::default(),
            };
            // The cells that a scan holds after its first row, and after the row following those.
            let mut held = Vec::new();
            for (wanted, is_filtered) in [(1, false), (3, false), (1, true), (usize::MAX, false)] {
                let mut scan = Scan::new(&tx, access(), is_filtered, None).await.unwrap();
                assert!(scan.next::<RowImage>(wanted).await.unwrap().is_some());
                let first = scan.cells.len() + 1;
                for _ in 0..first {
                    assert!(scan.next::<RowImage>(1).await.unwrap().is_some());
                }
                held.push((first, scan.cells.len() + 1));
            }
            assert_eq!(held, [(1, 2), (3, 6), (16, 32), (256, 256)]);
            // The time slice is checked in between, however many rows are in memory.
            let mut scan = Scan::new(&tx, access(), false, None).await.unwrap();
            for _ in 0..3 {
                assert!(scan.next::<RowImage>(usize::MAX).await.unwrap().is_some());
                let mut lent = 0;
                let count = |_: &LentRow<'_>| {
                    lent += 1;
                    true
                };
                assert!(scan.lend(usize::MAX, count).unwrap().is_some());
                assert!(lent < SLICE_CELLS, "{lent} rows are lent");
            }
        });
    }
}
