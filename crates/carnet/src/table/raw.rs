//! Raw tables: byte strings under ordered byte keys, as in an ordered key-value store.

use std::fmt;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

use carnet_base::{
    Bytes, CellBuilder, CellKey, Error, KeyRange, PartitionKey, Result, TableId, Token, block_on,
    block_on_one,
};
use carnet_data::key::prefix_range;
use carnet_store::PageLimit;

use super::cached_schema::CachedSchema;
use super::ensure::ensure;
use super::fetched::Fetched;
use super::name::split_name;
use crate::catalog::{TableKind, TableSchema};
use crate::db::Db;
use crate::handle::{Handle, PointHandle, WriteHandle};
use crate::tx::{Snapshot, SyncTx, Tx};

/// Maximum length of a value that is copied into one buffer with its key.
const SMALL_BYTES: usize = 16 << 10;

/// Default number of cells per read from the store.
const DEFAULT_PAGE_CELLS: usize = 100;

/// A table of byte strings under ordered byte keys, stored as one partition.
///
/// ```
/// # fn main() -> carnet::Result<()> {
/// # let db = carnet::Db::builder().in_memory();
/// let log = db.raw("log")?;
/// db.transact(|tx| {
///     for line in ["b/1", "a/1", "a/2"] {
///         log.put(tx, line, "…")?;
///     }
///     Ok(())
/// })?;
/// let snapshot = db.snapshot()?;
/// let keys: Vec<_> =
///     log.prefix(&snapshot, "a/").rev().map(|cell| cell.map(|(key, _)| key)).collect::<Result<_, _>>()?;
/// assert_eq!(keys, ["a/2", "a/1"]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct RawTable {
    schema: Arc<CachedSchema<TableId>>,
}

impl fmt::Debug for RawTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CachedSchema { keyspace, name, .. } = &*self.schema;
        f.debug_struct("RawTable").field("keyspace", keyspace).field("name", name).finish()
    }
}

impl Db {
    /// Opens a table of ordered byte keys; creates the table and its keyspace if they do not
    /// exist.
    ///
    /// # Errors
    ///
    /// `Invalid` if the name is malformed or names a table of rows.
    pub fn raw(&self, name: &str) -> Result<RawTable> {
        block_on(self.raw_async(name))
    }

    /// Async variant of [`Db::raw`].
    ///
    /// # Errors
    ///
    /// Same as [`Db::raw`].
    pub async fn raw_async(&self, name: &str) -> Result<RawTable> {
        let (keyspace, name) = split_name(name);
        ensure(self, keyspace, name, &|uuid| {
            Ok(TableSchema::new(keyspace, name, TableKind::Raw, uuid))
        })
        .await?;
        let table = RawTable { schema: Arc::new(CachedSchema::new(keyspace, name)) };
        table.id(&self.snapshot_async().await?).await?;
        Ok(table)
    }
}

impl RawTable {
    /// Reads the value of a key: through a transaction or snapshot its version there, through a
    /// [`Db`] the newest committed version.
    ///
    /// Each read through a [`Db`] is independent and blocks the calling thread: two such reads may
    /// see different states, and one made inside a transaction is not part of it. Read related
    /// keys through a transaction or a [snapshot](Db::snapshot).
    ///
    /// # Errors
    ///
    /// Same as [`Tx::get_cell`].
    pub fn get<'a, H: PointHandle>(
        &'a self,
        handle: &'a H,
        key: impl AsRef<[u8]>,
    ) -> H::Out<'a, Result<Option<Bytes>>> {
        let (key, source) = (key.as_ref(), handle.source());
        let newest = H::at_once(|| {
            let cell = |id: &TableId| Ok(CellBuilder::from_key(*id, &partition(), key));
            self.schema.newest(source, cell, |_, payload| Ok(payload))
        });
        if let Some(newest) = newest {
            return newest;
        }
        let cell = cell(key);
        H::run(async move {
            let tx = source.tx().await?;
            let cell = cell(self.id(&tx).await?);
            Ok(tx.get_cell(&cell).await?.map(|entry| entry.payload))
        })
    }

    /// Writes the value of a key.
    ///
    /// # Errors
    ///
    /// Same as [`Tx::put_cell`].
    pub fn put<'a, H: WriteHandle>(
        &'a self,
        handle: &'a H,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> H::Out<'a, Result<()>> {
        let (key, value, tx) = (key.as_ref(), value.as_ref(), handle.tx());
        let put = H::at_once(|| {
            // A large value is copied only once, into its own buffer.
            let (id, schema) = self.schema.current(tx).filter(|_| value.len() <= SMALL_BYTES)?;
            let mut cell = CellBuilder::from_key(*id, &partition(), key);
            cell.payload().extend_from_slice(value);
            Some(tx.put_guarded(schema, &cell))
        });
        if let Some(put) = put {
            return put;
        }
        let (cell, value) = (cell(key), Bytes::copy_from_slice(value));
        H::run(async move { tx.put_cell(cell(self.id(tx).await?), value) })
    }

    /// Deletes a key; not an error if the key does not exist.
    ///
    /// # Errors
    ///
    /// Same as [`Tx::delete_cell`].
    pub fn delete<'a, H: WriteHandle>(
        &'a self,
        handle: &'a H,
        key: impl AsRef<[u8]>,
    ) -> H::Out<'a, Result<()>> {
        let (cell, tx) = (cell(key.as_ref()), handle.tx());
        H::run(async move { tx.delete_cell(cell(self.id(tx).await?)) })
    }

    /// Reads the keys of a range in ascending order.
    pub fn range<H: Handle, B: AsRef<[u8]>>(
        &self,
        handle: &H,
        bounds: impl RangeBounds<B>,
    ) -> RawRows<H> {
        let bytes = |bound: Bound<&B>| bound.map(|key| Bytes::copy_from_slice(key.as_ref()));
        let bounds = (bytes(bounds.start_bound()), bytes(bounds.end_bound()));
        RawRows::new(handle.clone(), self.clone(), bounds)
    }

    /// Reads the keys with a prefix in ascending order.
    pub fn prefix<H: Handle>(&self, handle: &H, prefix: impl AsRef<[u8]>) -> RawRows<H> {
        let prefix = prefix.as_ref();
        let bounds = if prefix.is_empty() {
            (Bound::Unbounded, Bound::Unbounded)
        } else {
            prefix_range(&Bytes::copy_from_slice(prefix))
        };
        RawRows::new(handle.clone(), self.clone(), bounds)
    }

    async fn id(&self, tx: &Tx) -> Result<TableId> {
        let id = |schema: &TableSchema| {
            if schema.kind == TableKind::Raw {
                return Ok(schema.id);
            }
            Err(Error::invalid(format!(
                "table {}.{} holds rows, not raw bytes; open it with Db::table",
                schema.keyspace, schema.name
            )))
        };
        Ok(*self.schema.view(tx, id).await?)
    }
}

fn partition() -> PartitionKey {
    PartitionKey::with_token(Token::MIN, Bytes::new())
}

/// Copies the key before the table is known, so that no future borrows it.
fn cell(key: &[u8]) -> impl FnOnce(TableId) -> CellKey + Send + use<> {
    CellKey::of_some_table(&partition(), key)
}

/// The cells of a range of a [`RawTable`], fetched a page at a time.
///
/// With a [`SyncTx`] or a [`Snapshot`] it is an iterator. With a [`Tx`], call
/// [`RawRows::next_page`].
#[must_use = "nothing is read before the first page is asked for"]
pub struct RawRows<H: Handle> {
    handle: H,
    table: RawTable,
    progress: Progress,
    reverse: bool,
    page_cells: usize,
    fetched: Fetched,
    /// Number of cells of the page that were returned.
    handed: usize,
}

enum Progress {
    Start((Bound<Bytes>, Bound<Bytes>)),
    Rest(KeyRange),
    End,
}

impl<H: Handle> RawRows<H> {
    fn new(handle: H, table: RawTable, bounds: (Bound<Bytes>, Bound<Bytes>)) -> Self {
        Self {
            handle,
            table,
            progress: Progress::Start(bounds),
            reverse: false,
            page_cells: DEFAULT_PAGE_CELLS,
            fetched: Fetched::default(),
            handed: 0,
        }
    }

    /// Reverses the order: from the last key to the first.
    pub fn rev(mut self) -> Self {
        self.reverse = !self.reverse;
        self
    }

    /// Sets the number of cells per read from the store, at least 1.
    pub fn page(mut self, cells: usize) -> Self {
        self.page_cells = cells.max(1);
        self
    }

    /// Returns the rest of a partly returned page, or reads the next one; an empty page is the
    /// end.
    ///
    /// # Errors
    ///
    /// Same as [`Tx::range_cells`].
    pub fn next_page(&mut self) -> H::Out<'_, Result<Vec<(Bytes, Bytes)>>>
    where
        H: Send,
    {
        H::run(async move {
            self.fetch().await?;
            let from = std::mem::replace(&mut self.handed, self.fetched.len());
            Ok((from..self.handed).filter_map(|at| self.fetched.share(at)).collect())
        })
    }

    /// Fetches the next page if the current one is used up.
    async fn fetch(&mut self) -> Result<()> {
        while self.handed == self.fetched.len() {
            let tx = self.handle.tx();
            let range = match &self.progress {
                Progress::Start((lower, upper)) => {
                    let table = self.table.id(tx).await?;
                    KeyRange::clustering(table, &partition(), lower.clone(), upper.clone())
                }
                Progress::Rest(rest) => rest.clone(),
                Progress::End => {
                    (self.fetched, self.handed) = (Fetched::default(), 0);
                    break;
                }
            };
            let limit = PageLimit::cells(self.page_cells);
            let (fetched, resume) = Fetched::read(tx, &range, self.reverse, limit).await?;
            self.progress = resume.map_or(Progress::End, Progress::Rest);
            (self.fetched, self.handed) = (fetched, 0);
        }
        Ok(())
    }

    /// Returns the index of the next cell in the page, and moves past it.
    fn advance(&mut self) -> Option<Result<usize>> {
        if self.handed == self.fetched.len()
            && let Err(error) = block_on_one(self.fetch())
        {
            self.progress = Progress::End;
            return Some(Err(error));
        }
        let at = self.handed;
        (at < self.fetched.len()).then(|| {
            self.handed += 1;
            Ok(at)
        })
    }

    fn next_cell(&mut self) -> Option<Result<(Bytes, Bytes)>> {
        let at = self.advance()?;
        at.map(|at| self.fetched.share(at)).transpose()
    }

    fn lend_cell(&mut self) -> Option<Result<(&[u8], &[u8])>> {
        let at = self.advance()?;
        let lend = |at| self.fetched.lend(at).map(|(key, value)| (key.clustering(), value));
        at.map(lend).transpose()
    }
}

impl<H: Handle> Drop for RawRows<H> {
    /// Narrows the transaction's read set to the cells that were returned.
    fn drop(&mut self) {
        self.fetched.leave(self.handle.tx(), self.handed);
    }
}

macro_rules! lends {
    ($handle:ty) => {
        impl RawRows<$handle> {
            /// Like [`Iterator::next`], but borrows the key and its value until the next call.
            /// This saves two reference counts per cell.
            ///
            /// ```
            /// # fn main() -> carnet::Result<()> {
            /// # let db = carnet::Db::builder().in_memory();
            /// let log = db.raw("log")?;
            /// db.transact(|tx| log.put(tx, "a", "first"))?;
            /// let mut cells = log.prefix(&db.snapshot()?, "");
            /// while let Some(cell) = cells.next_lent() {
            ///     let (key, value) = cell?;
            ///     assert_eq!((key, value), (&b"a"[..], &b"first"[..]));
            /// }
            /// # Ok(())
            /// # }
            /// ```
            ///
            /// # Errors
            ///
            /// Same as [`Tx::range_cells`]; the iteration ends after an error.
            pub fn next_lent(&mut self) -> Option<Result<(&[u8], &[u8])>> {
                self.lend_cell()
            }
        }
    };
}

lends!(SyncTx);
lends!(Snapshot);

impl Iterator for RawRows<SyncTx> {
    type Item = Result<(Bytes, Bytes)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_cell()
    }
}

impl Iterator for RawRows<Snapshot> {
    type Item = Result<(Bytes, Bytes)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_cell()
    }
}
