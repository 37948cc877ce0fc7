//! Rows of a range, read page by page.

use std::marker::PhantomData;

use carnet_base::row::RowReader;
use carnet_base::{Bytes, CellKeyRef, KeyRange, Result, block_on_one};
use carnet_store::PageLimit;

use super::fetched::Fetched;
use super::key::TableKey;
use super::lens::View;
use super::record::Record;
use super::typed::{Mapping, Span, Table};
use crate::tx::{Handle, Snapshot, SyncTx, Tx};

/// Rows in one read to the store, unless told otherwise.
const DEFAULT_PAGE_ROWS: usize = 100;

/// Where to go on reading a range: what [`Rows::resume`] returned.
///
/// It is good for as long as the transaction or snapshot that read the range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resume(KeyRange);

/// The rows of a range, fetched a page at a time.
///
/// With a [`SyncTx`] or a [`Snapshot`] it is an iterator. With a [`Tx`], call
/// [`Rows::next_page`].
#[must_use = "nothing is read before the first page is asked for"]
pub struct Rows<H: Handle, K: TableKey, V> {
    handle: H,
    table: Table<K, V>,
    progress: Progress,
    reverse: bool,
    page_rows: usize,
    /// The page that rows are handed out of; the progress lies behind it.
    page: Option<Page>,
}

enum Progress {
    Start(Span),
    Rest(KeyRange),
    End,
}

/// Cells that were fetched, of which some were looked at.
struct Page {
    mapping: View<Mapping>,
    cells: Fetched,
    next: usize,
}

/// A row on loan. It is decoded as far as it is asked for.
pub struct LentRow<'a, K, V> {
    mapping: &'a Mapping,
    cell: CellKeyRef<'a>,
    payload: &'a [u8],
    types: PhantomData<fn() -> (K, V)>,
}

impl<'a, K: TableKey, V: Record> LentRow<'a, K, V> {
    /// Reads the key.
    ///
    /// # Errors
    ///
    /// `Corrupted` where what is stored is none.
    pub fn key(&self) -> Result<K> {
        self.mapping.key(self.cell)
    }

    /// Reads the record.
    ///
    /// # Errors
    ///
    /// As [`Record::take_columns`].
    pub fn record(&self) -> Result<V> {
        let row = RowReader::new(self.payload)?;
        self.mapping.record(row, || Bytes::copy_from_slice(self.payload))
    }

    fn decode(&self) -> Result<(K, V)> {
        Ok((self.key()?, self.record()?))
    }

    /// Returns the partition key as Cassandra serializes it: the bytes of its only column, or each
    /// column's behind two bytes of length, with a zero byte at its end.
    #[must_use]
    pub fn partition_key(&self) -> &'a [u8] {
        self.cell.partition()
    }

    /// Returns the value of a column of the record as Cassandra serializes it; `None` is null.
    ///
    /// # Errors
    ///
    /// `Invalid` where the record has no column of that name; `Corrupted` where what is stored is
    /// no row, as far as that column.
    pub fn column(&self, name: &str) -> Result<Option<&'a [u8]>> {
        RowReader::new(self.payload)?.find(self.mapping.column::<V>(name)?)
    }
}

impl Page {
    /// Reads the next page of a range, unless that has ended; says how it goes on behind it.
    async fn read<K: TableKey, V: Record>(
        tx: &Tx,
        table: &Table<K, V>,
        progress: &Progress,
        reverse: bool,
        rows: usize,
    ) -> Result<Option<(Self, Progress)>> {
        if let Progress::End = progress {
            return Ok(None);
        }
        let mapping = table.mapping(tx).await?.kept();
        let range = match progress {
            Progress::Start(span) => mapping.range(span)?,
            Progress::Rest(rest) => rest.clone(),
            Progress::End => return Ok(None),
        };
        let (cells, rest) = Fetched::read(tx, &range, reverse, PageLimit::cells(rows)).await?;
        let progress = rest.map_or(Progress::End, Progress::Rest);
        Ok(Some((Self { mapping, cells, next: 0 }, progress)))
    }

    /// Takes the next cell that has a row.
    #[inline]
    fn advance(&mut self) -> Result<Option<usize>> {
        while let Some((cell, payload)) = self.cells.lend(self.next) {
            let has_row = self.mapping.has_row(cell, payload)?;
            self.next += 1;
            if has_row {
                return Ok(Some(self.next - 1));
            }
        }
        Ok(None)
    }

    /// Lends the row in a cell that has one.
    fn lend<K, V>(&self, at: usize) -> Option<LentRow<'_, K, V>> {
        let (cell, payload) = self.cells.lend(at)?;
        Some(LentRow { mapping: &self.mapping, cell, payload, types: PhantomData })
    }

    /// Copies the rows that were not taken.
    fn copy<K: TableKey, V: Record>(&self, rows: &mut Vec<(K, V)>) -> Result<()> {
        for at in self.next..self.cells.len() {
            if let Some(row) = self.lend(at)
                && self.mapping.has_row(row.cell, row.payload)?
            {
                rows.push(row.decode()?);
            }
        }
        Ok(())
    }
}

impl<H: Handle, K: TableKey, V: Record> Rows<H, K, V> {
    pub(super) fn new(handle: H, table: Table<K, V>, span: Span) -> Self {
        Self {
            handle,
            table,
            progress: Progress::Start(span),
            reverse: false,
            page_rows: DEFAULT_PAGE_ROWS,
            page: None,
        }
    }

    /// Reads from the last row to the first; said before the first row is asked for.
    pub fn rev(mut self) -> Self {
        self.reverse = !self.reverse;
        self
    }

    /// Sets how many rows are read at a time; at least 1.
    pub fn page(mut self, rows: usize) -> Self {
        self.page_rows = rows.max(1);
        self
    }

    /// Goes on where an earlier read of the same range, in the same direction, stopped.
    pub fn resume_from(mut self, resume: Resume) -> Self {
        self.progress = Progress::Rest(resume.0);
        self.page = None;
        self
    }

    /// Returns where to go on after the pages fetched so far; `None` at the end and before the
    /// first page.
    #[must_use]
    pub fn resume(&self) -> Option<Resume> {
        match &self.progress {
            Progress::Rest(rest) => Some(Resume(rest.clone())),
            Progress::Start(_) | Progress::End => None,
        }
    }

    /// Reads the next page, or returns what is left of one that was begun; an empty one is the end.
    ///
    /// # Errors
    ///
    /// As [`crate::Tx::range_cells`].
    pub fn next_page(&mut self) -> H::Out<'_, Result<Vec<(K, V)>>>
    where
        H: Send,
    {
        H::run(self.fetch())
    }

    async fn fetch(&mut self) -> Result<Vec<(K, V)>> {
        let mut rows = Vec::new();
        if let Some(page) = &self.page {
            page.copy(&mut rows)?;
            self.page = None;
            if !rows.is_empty() {
                return Ok(rows);
            }
        }
        // The progress moves with the rows that are returned: an error in between loses none.
        let mut reached = None;
        loop {
            let from = reached.as_ref().unwrap_or(&self.progress);
            let missing = self.page_rows - rows.len();
            let tx = self.handle.tx();
            let read = Page::read(tx, &self.table, from, self.reverse, missing).await?;
            if let Some((page, rest)) = read {
                page.copy(&mut rows)?;
                reached = Some(rest);
                if rows.len() < self.page_rows {
                    continue;
                }
            }
            self.progress = reached.unwrap_or(Progress::End);
            return Ok(rows);
        }
    }

    /// Takes the place of the next row in the page, which is another one where that has ended.
    fn advance(&mut self) -> Result<Option<usize>> {
        loop {
            if let Some(page) = &mut self.page
                && let Some(at) = page.advance()?
            {
                return Ok(Some(at));
            }
            let Self { handle, table, progress, .. } = &*self;
            let read = Page::read(handle.tx(), table, progress, self.reverse, self.page_rows);
            let Some((page, rest)) = block_on_one(read)? else { return Ok(None) };
            (self.page, self.progress) = (Some(page), rest);
        }
    }

    fn end(&mut self) {
        (self.page, self.progress) = (None, Progress::End);
    }

    fn lend_row(&mut self) -> Option<Result<LentRow<'_, K, V>>> {
        match self.advance() {
            Ok(at) => self.page.as_ref()?.lend(at?).map(Ok),
            Err(error) => {
                self.end();
                Some(Err(error))
            }
        }
    }

    fn next_row(&mut self) -> Option<Result<(K, V)>> {
        let row = self.lend_row()?.and_then(|row| row.decode());
        if row.is_err() {
            self.end();
        }
        Some(row)
    }
}

impl<H: Handle, K: TableKey, V> Drop for Rows<H, K, V> {
    /// The transaction depends on the rows that were taken, and on nothing behind them.
    fn drop(&mut self) {
        if let Some(page) = &self.page {
            page.cells.leave(self.handle.tx(), page.next);
        }
    }
}

macro_rules! waits {
    ($handle:ty) => {
        impl<K: TableKey, V: Record> Rows<$handle, K, V> {
            /// Returns the next row, as [`Iterator::next`] does, but lends it until the next one is
            /// asked for: what of it is not looked at is not decoded, and not copied once more.
            ///
            /// ```
            /// # carnet::record! { pub struct Line { pub text: String, pub n: i64 } }
            /// # fn main() -> carnet::Result<()> {
            /// # let db = carnet::Db::builder().in_memory();
            /// # use carnet::Key;
            /// let lines = db.table::<Key<(String,)>, Line>("lines")?;
            /// db.transact(|tx| {
            ///     lines.put(tx, &Key(("a".into(),), ()), &Line { text: "first".into(), n: 1 })
            /// })?;
            /// let mut rows = lines.scan(&db.snapshot()?);
            /// while let Some(row) = rows.next_lent() {
            ///     let row = row?;
            ///     assert_eq!(row.partition_key(), b"a");
            ///     assert_eq!(row.column("text")?, Some(&b"first"[..]));
            ///     assert_eq!(row.record()?.n, 1);
            /// }
            /// # Ok(())
            /// # }
            /// ```
            ///
            /// # Errors
            ///
            /// As [`Tx::range_cells`]; `Invalid` where the schema does not fit the table any more, or the
            /// range makes no sense; `Corrupted` where what is stored is no row. It ends with it.
            pub fn next_lent(&mut self) -> Option<Result<LentRow<'_, K, V>>> {
                self.lend_row()
            }
        }

        impl<K: TableKey, V: Record> Iterator for Rows<$handle, K, V> {
            type Item = Result<(K, V)>;

            fn next(&mut self) -> Option<Self::Item> {
                self.next_row()
            }
        }
    };
}

waits!(SyncTx);
waits!(Snapshot);
