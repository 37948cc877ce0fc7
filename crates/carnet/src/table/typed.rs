//! Typed tables.

use std::marker::PhantomData;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

use carnet_base::key::{self, Order};
use carnet_base::row::{Column, Marker, RowColumns, RowImage, RowReader, RowWriter};
use carnet_base::{
    Bytes, CellBuilder, CellKey, CellKeyBuilder, CellKeyRef, ColumnId, DataType, Error, KeyRange,
    Result, TableId, Token, Uuid, Value, block_on, partition,
};
use carnet_txn::Entry;

use super::key::{KeyTuple, TableKey};
use super::lens::{Lens, View};
use super::record::Record;
use super::rows::Rows;
use super::scalar::stored;
use super::split_name;
use crate::catalog::{self, ColumnKind, KeyspaceSchema, TableKind, TableSchema};
use crate::db::Db;
use crate::tx::{Handle, PointHandle, Tx, WriteHandle};

/// A table of typed rows with keys `K`, a [`Key`](crate::Key) of two tuples, and records `V`.
///
/// Made by [`Db::table`]. It is a description, not a connection: clone it, and use it with any
/// transaction of the same database.
pub struct Table<K, V> {
    lens: Arc<Lens<Mapping>>,
    types: PhantomData<fn() -> (K, V)>,
}

/// Mapping of a table schema to `K` and `V`.
pub(super) struct Mapping {
    /// Version of the schema.
    version: u32,
    pub(super) table: TableId,
    orders: Vec<Order>,
    pub(super) has_clustering: bool,
    columns: Vec<ColumnId>,
    /// Whether the table has columns that the record lacks. A write keeps their values.
    has_others: bool,
    /// Whether the record's columns are in ascending order of column id.
    is_in_order: bool,
}

impl<K, V> Clone for Table<K, V> {
    fn clone(&self) -> Self {
        Self { lens: Arc::clone(&self.lens), types: PhantomData }
    }
}

impl Db {
    /// Opens a table of typed rows; creates the table and its keyspace if they do not exist.
    ///
    /// `name` is `table` or `keyspace.table`; the default keyspace is
    /// [`DEFAULT_KEYSPACE`](crate::table::DEFAULT_KEYSPACE). Key columns of a new table are named
    /// `p1`, `p2` … and `c1`, `c2` …. In an existing table, for example one made by CQL, only the
    /// types of the key columns must match.
    ///
    /// # Errors
    ///
    /// `Invalid` if an existing table has other key types or lacks a column of the record.
    pub fn table<K: TableKey, V: Record>(&self, name: &str) -> Result<Table<K, V>> {
        block_on(self.table_async(name))
    }

    /// Async variant of [`Db::table`].
    ///
    /// # Errors
    ///
    /// Same as [`Db::table`].
    pub async fn table_async<K: TableKey, V: Record>(&self, name: &str) -> Result<Table<K, V>> {
        let (keyspace, name) = split_name(name);
        ensure(self, keyspace, name, &|uuid| new_schema::<K, V>(keyspace, name, uuid)).await?;
        let table = Table { lens: Arc::new(Lens::new(keyspace, name)), types: PhantomData };
        table.mapping(&self.snapshot_async().await?).await?;
        Ok(table)
    }
}

/// Creates a table and its keyspace if they do not exist.
pub(super) async fn ensure(
    db: &Db,
    keyspace: &str,
    name: &str,
    schema: &(impl Fn(Uuid) -> Result<TableSchema> + Sync),
) -> Result<()> {
    let snapshot = db.snapshot_async().await?;
    if catalog::table(&snapshot, keyspace, name).await?.is_some() {
        return Ok(());
    }
    db.run(|tx| async move {
        if catalog::table(&tx, keyspace, name).await?.is_some() {
            return Ok(());
        }
        if catalog::keyspace(&tx, keyspace).await?.is_none() {
            catalog::create_keyspace(&tx, &KeyspaceSchema::local(keyspace)).await?;
        }
        let start = tx.start_timestamp().map_or(0, carnet_base::Timestamp::get);
        let uuid = Uuid::from_u64_pair(start, u64::from(u32::MAX));
        catalog::create_table(&tx, schema(uuid)?).await?;
        Ok(())
    })
    .await
}

fn new_schema<K: TableKey, V: Record>(
    keyspace: &str,
    name: &str,
    uuid: Uuid,
) -> Result<TableSchema> {
    let mut schema = TableSchema::new(keyspace, name, TableKind::Rows, uuid);
    for (n, data_type) in K::Partition::TYPES.iter().enumerate() {
        schema.add_column(&format!("p{}", n + 1), *data_type, ColumnKind::Partition)?;
    }
    for (n, data_type) in K::Clustering::TYPES.iter().enumerate() {
        let kind = ColumnKind::Clustering(Order::Asc);
        schema.add_column(&format!("c{}", n + 1), *data_type, kind)?;
    }
    for (name, data_type) in V::COLUMNS {
        schema.add_column(name, *data_type, ColumnKind::Regular)?;
    }
    Ok(schema)
}

impl<K: TableKey, V: Record> Table<K, V> {
    /// Reads a row: through a transaction or snapshot its version there, through a [`Db`] the
    /// newest committed version.
    ///
    /// Each read through a [`Db`] is independent and blocks the calling thread: two such reads may
    /// see different states, and one made inside a transaction is not part of it. Read related rows
    /// through a transaction or a [snapshot](Db::snapshot).
    ///
    /// # Errors
    ///
    /// Same as [`Tx::get_cell`]; `Invalid` when the table's schema no longer fits the types.
    pub fn get<'a, H: PointHandle>(
        &'a self,
        handle: &'a H,
        key: &K,
    ) -> H::Out<'a, Result<Option<V>>> {
        let source = handle.source();
        let newest = H::at_once(|| {
            self.lens.newest(source, |mapping| mapping.begin(Parts::of(key)), Mapping::found)
        });
        if let Some(newest) = newest {
            return newest;
        }
        let parts = Parts::of(key);
        H::run(async move {
            let tx = source.tx().await?;
            let mapping = self.mapping(&tx).await?;
            let entry = tx.get_cell(&mapping.cell(parts)?).await?;
            mapping.found(entry.map(|entry| entry.payload))
        })
    }

    /// Writes a whole row: all columns of the record are replaced.
    ///
    /// # Errors
    ///
    /// Same as [`Tx::put_cell`]; `Invalid` when the table's schema no longer fits the types.
    pub fn put<'a, H: WriteHandle>(
        &'a self,
        handle: &'a H,
        key: &K,
        record: &V,
    ) -> H::Out<'a, Result<()>> {
        let tx = handle.tx();
        let put = H::at_once(|| {
            let (mapping, schema) =
                self.lens.current(tx).filter(|(mapping, _)| mapping.is_plain())?;
            let cell = mapping.plain(Parts::of(key), record);
            Some(cell.and_then(|cell| tx.put_guarded(schema, &cell)))
        });
        if let Some(put) = put {
            return put;
        }
        let (parts, columns) = (Parts::of(key), record.to_columns());
        H::run(async move {
            let mapping = self.mapping(tx).await?;
            let cell = mapping.cell(parts)?;
            let image = mapping.image(columns);
            if mapping.has_others
                && let Some(entry) = tx.get_cell(&cell).await?
            {
                let image = mapping.keep_others(image, &entry)?;
                return tx.put_cell(cell, image.encode());
            }
            tx.put_cell(cell, image.encode())
        })
    }

    /// Deletes a row; not an error if the row does not exist.
    ///
    /// # Errors
    ///
    /// Same as [`Table::put`].
    pub fn delete<'a, H: WriteHandle>(&'a self, handle: &'a H, key: &K) -> H::Out<'a, Result<()>> {
        let parts = Parts::of(key);
        let tx = handle.tx();
        H::run(async move {
            let mapping = self.mapping(tx).await?;
            tx.delete_cell(mapping.cell(parts)?)
        })
    }

    /// Reads the rows of a partition whose clustering keys lie in a range, in clustering order.
    pub fn range<H: Handle>(
        &self,
        handle: &H,
        partition: &K::Partition,
        bounds: impl RangeBounds<K::Clustering>,
    ) -> Rows<H, K, V> {
        let values = |bound: Bound<&K::Clustering>| bound.map(K::Clustering::to_values);
        let span = Span::Partition {
            partition: partition.to_values(),
            lower: values(bounds.start_bound()),
            upper: values(bounds.end_bound()),
        };
        Rows::new(handle.clone(), self.clone(), span)
    }

    /// Reads every row of the table: partitions in token order, rows in clustering order.
    pub fn scan<H: Handle>(&self, handle: &H) -> Rows<H, K, V> {
        Rows::new(handle.clone(), self.clone(), Span::Table)
    }

    /// Reads the rows of all partitions whose tokens lie in a range: partitions in token order,
    /// rows in clustering order. A range with start after end is empty: ranges do not wrap around
    /// the token ring.
    ///
    /// Tokens are distributed evenly, so that several threads or processes can scan parts of a
    /// table:
    ///
    /// ```
    /// # carnet::record! { pub struct Row { pub n: i64 } }
    /// # fn main() -> carnet::Result<()> {
    /// # let db = carnet::Db::builder().in_memory();
    /// use carnet::{Key, Token};
    ///
    /// let table = db.table::<Key<(i64,)>, Row>("t")?;
    /// db.transact(|tx| (0..100).try_for_each(|n| table.put(tx, &Key((n,), ()), &Row { n })))?;
    /// let snapshot = db.snapshot()?;
    /// let halves = [
    ///     table.scan_tokens(&snapshot, ..Token(0)).count(),
    ///     table.scan_tokens(&snapshot, Token(0)..).count(),
    /// ];
    /// assert_eq!(halves[0] + halves[1], 100);
    /// # Ok(())
    /// # }
    /// ```
    pub fn scan_tokens<H: Handle>(
        &self,
        handle: &H,
        tokens: impl RangeBounds<Token>,
    ) -> Rows<H, K, V> {
        let (lower, upper) = (tokens.start_bound().cloned(), tokens.end_bound().cloned());
        Rows::new(handle.clone(), self.clone(), Span::Tokens { lower, upper })
    }

    /// Computes the token of a partition, which determines its position in a scan.
    ///
    /// # Errors
    ///
    /// `Invalid` when the partition key is empty or too long.
    pub fn token(&self, partition: &K::Partition) -> Result<Token> {
        Ok(partition::encode(&partition.to_values())?.token())
    }

    pub(super) async fn mapping(&self, tx: &Tx) -> Result<View<Mapping>> {
        self.lens.view(tx, Mapping::new::<K, V>).await
    }
}

/// The requested rows, before the schema is known.
pub(super) enum Span {
    Table,
    Tokens { lower: Bound<Token>, upper: Bound<Token> },
    Partition { partition: Vec<Value>, lower: Bound<Vec<Value>>, upper: Bound<Vec<Value>> },
}

/// A key, encoded as far as possible without the schema, so that no future borrows the caller's
/// key.
struct Parts {
    key: CellKeyBuilder,
    clustering: Vec<Value>,
}

impl Parts {
    fn of<K: TableKey>(key: &K) -> Self {
        let (partition, clustering) = key.parts();
        let mut key = CellKeyBuilder::new();
        partition.put_partition(key.partition());
        Self { key, clustering: clustering.to_values() }
    }
}

impl Mapping {
    fn new<K: TableKey, V: Record>(schema: &TableSchema) -> Result<Self> {
        let misfit = |what: String| {
            Error::invalid(format!(
                "table {}.{} does not fit the Rust types: {what}",
                schema.keyspace, schema.name
            ))
        };
        let types = |columns: &mut dyn Iterator<Item = &catalog::ColumnSchema>| -> Vec<DataType> {
            columns.map(|column| column.data_type).collect()
        };
        let partition = types(&mut schema.partition_key());
        let clustering = types(&mut schema.clustering_key());
        if schema.kind != TableKind::Rows
            || partition != K::Partition::TYPES
            || clustering != K::Clustering::TYPES
        {
            return Err(misfit(format!(
                "its key is {partition:?}, {clustering:?}, not {:?}, {:?}",
                K::Partition::TYPES,
                K::Clustering::TYPES
            )));
        }
        let mut columns = Vec::new();
        for (name, data_type) in V::COLUMNS {
            match schema.regular().find(|column| column.name == *name) {
                Some(column) if column.data_type == *data_type => columns.push(column.id),
                Some(column) => {
                    return Err(misfit(format!(
                        "column {name} is {}, not {data_type}",
                        column.data_type
                    )));
                }
                None => return Err(misfit(format!("it has no column {name}"))),
            }
        }
        let has_others = schema.regular().count() > columns.len();
        Ok(Self {
            table: schema.id,
            orders: schema.clustering_orders(),
            has_clustering: !clustering.is_empty(),
            has_others,
            is_in_order: columns.is_sorted_by(|one, next| one < next),
            columns,
            version: schema.version,
        })
    }

    /// Returns `true` if a record can be encoded column by column.
    const fn is_plain(&self) -> bool {
        self.is_in_order && !self.has_others && self.columns.len() <= RowWriter::COLUMNS_MAX
    }

    fn cell(&self, parts: Parts) -> Result<CellKey> {
        self.begin(parts).map(|cell| cell.to_key())
    }

    fn begin(&self, parts: Parts) -> Result<CellBuilder> {
        let Parts { key, clustering } = parts;
        key.end(self.table, |out| key::encode_into(out, &clustering, &self.orders))
    }

    /// Builds the cell with the payload of [`Mapping::image`], without the intermediate image.
    fn plain<V: Record>(&self, parts: Parts, record: &V) -> Result<CellBuilder> {
        let mut cell = self.begin(parts)?;
        record.put_columns(&mut RowWriter::new(cell.payload(), self.version, &self.columns));
        Ok(cell)
    }

    pub(super) fn range(&self, span: &Span) -> Result<KeyRange> {
        let (partition, lower, upper) = match span {
            Span::Table => return Ok(KeyRange::table(self.table)),
            Span::Tokens { lower, upper } => {
                return Ok(KeyRange::tokens(self.table, *lower, *upper));
            }
            Span::Partition { partition, lower, upper } => (partition, lower, upper),
        };
        let partition = partition::encode(partition)?;
        if !self.has_clustering {
            return Ok(KeyRange::partition(self.table, &partition));
        }
        let slice = |bound: &Bound<Vec<Value>>| bound.as_ref().map(Vec::clone);
        let (lower, upper) = (slice(lower), slice(upper));
        let (lower, upper) = key::slice(
            &self.orders,
            &[],
            lower.as_ref().map(Vec::as_slice),
            upper.as_ref().map(Vec::as_slice),
        )?;
        Ok(KeyRange::clustering(self.table, &partition, lower, upper))
    }

    fn image(&self, columns: Vec<Option<Value>>) -> RowImage {
        let mut image = RowImage::new(self.version);
        image.marker = Some(Marker::default());
        for (id, value) in self.columns.iter().zip(columns) {
            if let Some(value) = value {
                image.set(*id, Column::new(value.serialize()));
            }
        }
        image
    }

    fn keep_others(&self, image: RowImage, entry: &Entry) -> Result<RowImage> {
        let mut older = RowImage::decode(&entry.payload)?;
        older.retain(|id, _| !self.columns.contains(&id));
        Ok(image.merged_over(&older, entry.start))
    }

    #[inline]
    fn found<V: Record>(&self, payload: Option<Bytes>) -> Result<Option<V>> {
        let Some(payload) = payload else { return Ok(None) };
        let row = RowReader::new(&payload)?.live()?;
        row.map(|row| self.record(row, || payload.clone())).transpose()
    }

    /// Decodes a record. Calls `owned` for the row's bytes only if it cannot decode them in place.
    pub(super) fn record<V: Record>(
        &self,
        row: RowReader<'_>,
        owned: impl FnOnce() -> Bytes,
    ) -> Result<V> {
        if self.is_in_order {
            let mut columns = RowColumns::new(row, &self.columns);
            let record = V::take_columns(&mut columns)?;
            columns.finish()?;
            return Ok(record);
        }
        let image = RowImage::decode(&owned())?;
        let columns = V::COLUMNS
            .iter()
            .zip(&self.columns)
            .map(|((_, data_type), id)| {
                image.value(*id).map(|bytes| stored(data_type, bytes)).transpose()
            })
            .collect::<Result<_>>()?;
        V::from_columns(columns)
    }

    /// Returns `true` if a cell holds a live row. A cell of static columns does not.
    #[inline]
    pub(super) fn has_row(&self, cell: CellKeyRef<'_>, payload: &[u8]) -> Result<bool> {
        let is_static = self.has_clustering && cell.clustering().is_empty();
        Ok(!is_static && RowReader::exists(payload)?)
    }

    /// Decodes the key of a row.
    pub(super) fn key<K: TableKey>(&self, cell: CellKeyRef<'_>) -> Result<K> {
        let partition = K::Partition::take_partition(cell.partition())?;
        let clustering = key::decode(cell.clustering(), K::Clustering::TYPES, &self.orders)?;
        let clustering = K::Clustering::from_values(clustering)?;
        Ok(K::from_parts(partition, clustering))
    }

    /// Returns the id of a column of the record.
    #[inline]
    pub(super) fn column<V: Record>(&self, name: &str) -> Result<ColumnId> {
        let at = V::COLUMNS.iter().position(|(column, _)| *column == name);
        at.and_then(|at| self.columns.get(at).copied()).ok_or_else(|| no_column(name))
    }
}

#[cold]
fn no_column(name: &str) -> Error {
    Error::invalid(format!("the record has no column {name}"))
}
