//! Range reads of typed rows, page by page.

use std::marker::PhantomData;
use std::sync::Arc;

use carnet_base::{Bytes, CellKeyRef, KeyRange, Result, block_on_one};
use carnet_data::row::RowReader;
use carnet_store::PageLimit;

use super::cached_schema::{CachedSchema, View};
use super::fetched::Fetched;
use super::key::TableKey;
use super::mapping::{Mapping, Span};
use super::record::Record;
use crate::handle::Handle;
use crate::tx::{Snapshot, SyncTx, Tx};

/// Default number of rows per read from the store.
const DEFAULT_PAGE_ROWS: usize = 100;

/// Position at which to resume a range read, returned by [`Rows::resume`].
///
/// Valid as long as the transaction or snapshot that read the range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resume(KeyRange);

/// The rows of a range, fetched a page at a time.
///
/// With a [`SyncTx`] or a [`Snapshot`] it is an iterator. With a [`Tx`], call
/// [`Rows::next_page`].
#[must_use = "nothing is read before the first page is asked for"]
pub struct Rows<H: Handle, K: TableKey, V> {
    handle: H,
    schema: Arc<CachedSchema<Mapping>>,
    types: PhantomData<fn() -> (K, V)>,
    progress: Progress,
    reverse: bool,
    page_rows: usize,
    /// Page from which rows are returned; `progress` is the position after it.
    page: Option<Page>,
}

enum Progress {
    Start(Span),
    Rest(KeyRange),
    End,
}

/// A fetched page, and the position of the next cell in it.
struct Page {
    tx: Tx,
    mapping: View<Mapping>,
    cells: Fetched,
    next: usize,
}

/// A borrowed row, decoded on demand.
pub struct LentRow<'a, K, V> {
    tx: &'a Tx,
    mapping: &'a Mapping,
    cell: CellKeyRef<'a>,
    payload: &'a [u8],
    types: PhantomData<fn() -> (K, V)>,
}

impl<'a, K: TableKey, V: Record> LentRow<'a, K, V> {
    /// Decodes the key.
    ///
    /// # Errors
    ///
    /// `Corrupted` if the stored key does not decode.
    pub fn key(&self) -> Result<K> {
        self.mapping.key(self.cell)
    }

    /// Decodes the record.
    ///
    /// # Errors
    ///
    /// Same as [`Record::take_columns`].
    pub fn record(&self) -> Result<V> {
        let row = RowReader::new(self.payload)?;
        self.mapping
            .record(row, &|| self.tx.wall_seconds(), || Bytes::copy_from_slice(self.payload))
    }

    fn decode(&self) -> Result<(K, V)> {
        Ok((self.key()?, self.record()?))
    }

    /// Returns the partition key in Cassandra's serialization: a single column as it is; several
    /// columns each with a two-byte length before it and a zero byte after it.
    #[must_use]
    pub fn partition_key(&self) -> &'a [u8] {
        self.cell.partition()
    }

    /// Returns a column of the record in Cassandra's serialization; `None` if it is null.
    ///
    /// # Errors
    ///
    /// `Invalid` if the record has no such column; `Corrupted` if the stored row does not decode
    /// up to that column.
    pub fn column(&self, name: &str) -> Result<Option<&'a [u8]>> {
        let id = self.mapping.column::<V>(name)?;
        RowReader::new(self.payload)?.find(id, || self.tx.wall_seconds())
    }
}

impl Page {
    /// Reads the next page of a range and returns the progress after it; `None` at the end of the
    /// range.
    async fn read<K: TableKey, V: Record>(
        tx: &Tx,
        schema: &CachedSchema<Mapping>,
        progress: &Progress,
        reverse: bool,
        rows: usize,
    ) -> Result<Option<(Self, Progress)>> {
        if let Progress::End = progress {
            return Ok(None);
        }
        let mapping = schema.view(tx, Mapping::new::<K, V>).await?.kept();
        let range = match progress {
            Progress::Start(span) => mapping.range(span)?,
            Progress::Rest(rest) => rest.clone(),
            Progress::End => return Ok(None),
        };
        let (cells, rest) = Fetched::read(tx, &range, reverse, PageLimit::cells(rows)).await?;
        let progress = rest.map_or(Progress::End, Progress::Rest);
        Ok(Some((Self { tx: tx.clone(), mapping, cells, next: 0 }, progress)))
    }

    /// Returns the index of the next cell that holds a row, and moves past it.
    #[inline]
    fn advance(&mut self) -> Result<Option<usize>> {
        while let Some((cell, payload)) = self.cells.lend(self.next) {
            let has_row = self.mapping.has_row(cell, payload, || self.tx.wall_seconds())?;
            self.next += 1;
            if has_row {
                return Ok(Some(self.next - 1));
            }
        }
        Ok(None)
    }

    /// Returns the row in a cell, which must hold one.
    fn lend<K, V>(&self, at: usize) -> Option<LentRow<'_, K, V>> {
        let (cell, payload) = self.cells.lend(at)?;
        Some(LentRow { tx: &self.tx, mapping: &self.mapping, cell, payload, types: PhantomData })
    }

    /// Decodes the remaining rows of the page.
    fn copy<K: TableKey, V: Record>(&self, rows: &mut Vec<(K, V)>) -> Result<()> {
        for at in self.next..self.cells.len() {
            if let Some(row) = self.lend(at)
                && self.mapping.has_row(row.cell, row.payload, || self.tx.wall_seconds())?
            {
                rows.push(row.decode()?);
            }
        }
        Ok(())
    }
}

impl<H: Handle, K: TableKey, V: Record> Rows<H, K, V> {
    pub(super) fn new(handle: H, schema: Arc<CachedSchema<Mapping>>, span: Span) -> Self {
        Self {
            handle,
            schema,
            types: PhantomData,
            progress: Progress::Start(span),
            reverse: false,
            page_rows: DEFAULT_PAGE_ROWS,
            page: None,
        }
    }

    /// Reverses the order: from the last row to the first. Call it before reading the first row.
    pub fn rev(mut self) -> Self {
        self.reverse = !self.reverse;
        self
    }

    /// Sets the number of rows per read from the store, at least 1.
    pub fn page(mut self, rows: usize) -> Self {
        self.page_rows = rows.max(1);
        self
    }

    /// Resumes where an earlier read of the same range, in the same direction, stopped.
    pub fn resume_from(mut self, resume: Resume) -> Self {
        self.progress = Progress::Rest(resume.0);
        self.page = None;
        self
    }

    /// Returns the position after the pages fetched so far; `None` at the end and before the first
    /// page.
    #[must_use]
    pub fn resume(&self) -> Option<Resume> {
        match &self.progress {
            Progress::Rest(rest) => Some(Resume(rest.clone())),
            Progress::Start(_) | Progress::End => None,
        }
    }

    /// Returns the rest of a partly returned page, or reads the next one; an empty page is the
    /// end.
    ///
    /// # Errors
    ///
    /// Same as [`crate::Tx::range_cells`].
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
        // `progress` moves together with the returned rows, so that an error in between loses no
        // row.
        let mut reached = None;
        loop {
            let from = reached.as_ref().unwrap_or(&self.progress);
            let missing = self.page_rows - rows.len();
            let tx = self.handle.tx();
            let read = Page::read::<K, V>(tx, &self.schema, from, self.reverse, missing).await?;
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

    /// Returns the index of the next row in the page; fetches the next page if this one is used
    /// up.
    fn advance(&mut self) -> Result<Option<usize>> {
        loop {
            if let Some(page) = &mut self.page
                && let Some(at) = page.advance()?
            {
                return Ok(Some(at));
            }
            let Self { handle, schema, progress, .. } = &*self;
            let read =
                Page::read::<K, V>(handle.tx(), schema, progress, self.reverse, self.page_rows);
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
    /// Narrows the transaction's read set to the rows that were returned.
    fn drop(&mut self) {
        if let Some(page) = &self.page {
            page.cells.leave(self.handle.tx(), page.next);
        }
    }
}

macro_rules! waits {
    ($handle:ty) => {
        impl<K: TableKey, V: Record> Rows<$handle, K, V> {
            /// Like [`Iterator::next`], but borrows the row until the next call: columns that the
            /// caller does not read are neither decoded nor copied.
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
            /// Same as [`Tx::range_cells`]; `Invalid` if the schema no longer fits the table or
            /// the range is malformed; `Corrupted` if a stored row does not decode. The iteration
            /// ends after an error.
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
