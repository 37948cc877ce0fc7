//! Rows of a range, read page by page.

use std::collections::VecDeque;

use carnet_base::{KeyRange, Result, block_on_one};
use carnet_store::PageLimit;

use super::key::TableKey;
use super::record::Record;
use super::typed::{Span, Table};
use crate::tx::{Handle, Snapshot, SyncTx};

/// Rows in one read to the store, unless told otherwise.
const DEFAULT_PAGE_ROWS: usize = 100;

/// Where to go on reading a range: what [`Rows::resume`] returned.
///
/// It is good for as long as the transaction or snapshot that read the range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resume(KeyRange);

/// The rows of a range, fetched a page at a time.
///
/// With a [`SyncTx`] or a [`Snapshot`] it is an iterator. With a [`Tx`](crate::Tx), call
/// [`Rows::next_page`].
#[must_use = "nothing is read before the first page is asked for"]
pub struct Rows<H, K: TableKey, V> {
    handle: H,
    table: Table<K, V>,
    progress: Progress,
    reverse: bool,
    page_rows: usize,
    buffer: VecDeque<(K, V)>,
}

enum Progress {
    Start(Span),
    Rest(KeyRange),
    End,
}

impl<H: Handle, K: TableKey, V: Record> Rows<H, K, V> {
    pub(super) fn new(handle: H, table: Table<K, V>, span: Span) -> Self {
        Self {
            handle,
            table,
            progress: Progress::Start(span),
            reverse: false,
            page_rows: DEFAULT_PAGE_ROWS,
            buffer: VecDeque::new(),
        }
    }

    /// Reads from the last row to the first.
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

    /// Reads the next page; an empty one is the end.
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
        let tx = self.handle.tx().clone();
        let mapping = self.table.mapping(&tx).await?;
        let mut range = match &self.progress {
            Progress::Start(span) => mapping.range(span)?,
            Progress::Rest(rest) => rest.clone(),
            Progress::End => return Ok(Vec::new()),
        };
        let mut rows = Vec::new();
        // The progress moves with the rows that are returned: an error in between loses none.
        loop {
            let limit = PageLimit::cells(self.page_rows - rows.len());
            let resume = match tx.page(&range, self.reverse, limit).await? {
                Some(page) => {
                    for cell in page.cells.iter() {
                        rows.extend(mapping.row(cell.key, cell.payload)?);
                    }
                    page.resume
                }
                None => {
                    let page = tx.range_cells(&range, self.reverse, limit).await?;
                    for (key, entry) in &page.cells {
                        rows.extend(mapping.row(key.as_key_ref(), &entry.payload)?);
                    }
                    page.resume
                }
            };
            let Some(rest) = resume else {
                self.progress = Progress::End;
                return Ok(rows);
            };
            if rows.len() >= self.page_rows {
                self.progress = Progress::Rest(rest);
                return Ok(rows);
            }
            range = rest;
        }
    }

    fn next_row(&mut self) -> Option<Result<(K, V)>> {
        if self.buffer.is_empty() {
            match block_on_one(self.fetch()) {
                Ok(rows) => self.buffer.extend(rows),
                Err(error) => {
                    self.progress = Progress::End;
                    return Some(Err(error));
                }
            }
        }
        self.buffer.pop_front().map(Ok)
    }
}

impl<K: TableKey, V: Record> Iterator for Rows<SyncTx, K, V> {
    type Item = Result<(K, V)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_row()
    }
}

impl<K: TableKey, V: Record> Iterator for Rows<Snapshot, K, V> {
    type Item = Result<(K, V)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_row()
    }
}
