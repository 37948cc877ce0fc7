//! Typed tables.

use std::marker::PhantomData;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

use carnet_base::{Result, Token, Uuid, block_on};
use carnet_data::key::Order;
use carnet_data::{Value, partition};

use super::cached_schema::{CachedSchema, View};
use super::ensure::ensure;
use super::key::{KeyTuple, TableKey};
use super::mapping::{Mapping, Parts, Span};
use super::name::split_name;
use super::record::Record;
use super::rows::Rows;
use crate::catalog::{ColumnKind, TableKind, TableSchema};
use crate::db::Db;
use crate::handle::{Handle, PointHandle, WriteHandle};
use crate::tx::Tx;

/// A table of typed rows with keys `K`, a [`Key`](crate::Key) of two tuples, and records `V`.
///
/// Made by [`Db::table`]. It is a description, not a connection: clone it, and use it with any
/// transaction of the same database.
pub struct Table<K, V> {
    schema: Arc<CachedSchema<Mapping>>,
    types: PhantomData<fn() -> (K, V)>,
}

impl<K, V> Clone for Table<K, V> {
    fn clone(&self) -> Self {
        Self { schema: Arc::clone(&self.schema), types: PhantomData }
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
        let table =
            Table { schema: Arc::new(CachedSchema::new(keyspace, name)), types: PhantomData };
        table.mapping(&self.snapshot_async().await?).await?;
        Ok(table)
    }
}

fn new_schema<K: TableKey, V: Record>(
    keyspace: &str,
    name: &str,
    uuid: Uuid,
) -> Result<TableSchema> {
    let mut schema = TableSchema::new(keyspace, name, TableKind::Rows, uuid);
    for (n, data_type) in K::Partition::TYPES.iter().enumerate() {
        schema.add_column(&format!("p{}", n + 1), data_type.clone(), ColumnKind::Partition)?;
    }
    for (n, data_type) in K::Clustering::TYPES.iter().enumerate() {
        let kind = ColumnKind::Clustering(Order::Asc);
        schema.add_column(&format!("c{}", n + 1), data_type.clone(), kind)?;
    }
    for (name, data_type) in V::COLUMNS {
        schema.add_column(name, data_type.clone(), ColumnKind::Regular)?;
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
            self.schema.newest(
                source,
                |mapping| mapping.begin(Parts::from_key(key)),
                |mapping, payload| mapping.found(payload, || source.wall_seconds()),
            )
        });
        if let Some(newest) = newest {
            return newest;
        }
        let parts = Parts::from_key(key);
        H::run(async move {
            let tx = source.tx().await?;
            let mapping = self.mapping(&tx).await?;
            let entry = tx.get_cell(&mapping.cell(parts)?).await?;
            mapping.found(entry.map(|entry| entry.payload), || tx.wall_seconds())
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
                self.schema.current(tx).filter(|(mapping, _)| mapping.is_plain())?;
            let cell = mapping.plain(Parts::from_key(key), record);
            Some(cell.and_then(|cell| tx.put_guarded(schema, &cell)))
        });
        if let Some(put) = put {
            return put;
        }
        let (parts, columns) = (Parts::from_key(key), record.to_columns());
        H::run(async move {
            let mapping = self.mapping(tx).await?;
            let cell = mapping.cell(parts)?;
            match (mapping.indexed(tx), mapping.has_others) {
                (Some(rows), true) => rows.change(cell, &mapping.whole(columns)).await,
                (Some(rows), false) => rows.put(cell, mapping.image(columns)).await,
                (None, true) => tx.change_row(cell, &mapping.whole(columns)).await,
                (None, false) => tx.put_cell(cell, mapping.image(columns).encode()),
            }
        })
    }

    /// Changes columns of a row by their names; `None` sets a column to null. The other columns keep
    /// their values. In a database on disk this reads nothing and conflicts with no other change of
    /// the row: the last commit of each column wins.
    ///
    /// A row that does not exist begins to exist with these columns, and ceases to exist with its
    /// last one. A record of it can be read once each column that must not be null has a value.
    ///
    /// ```
    /// # carnet::record! { pub struct Account { pub balance: i64, pub note: Option<String> } }
    /// # fn main() -> carnet::Result<()> {
    /// # let db = carnet::Db::builder().in_memory();
    /// use carnet::{Key, Value};
    ///
    /// let accounts = db.table::<Key<(i64,)>, Account>("accounts")?;
    /// let key = Key((7,), ());
    /// db.transact(|tx| accounts.put(tx, &key, &Account { balance: 100, note: None }))?;
    /// let note = Some(Value::Text("closed".to_owned()));
    /// db.transact(|tx| accounts.update(tx, &key, &[("note", note.clone())]))?;
    /// let account = accounts.get(&db, &key)?.expect("the account was written");
    /// assert_eq!((account.balance, account.note.as_deref()), (100, Some("closed")));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Same as [`Table::put`]; `Invalid` for a name that is no column of the record, and for a value
    /// of another type.
    pub fn update<'a, H: WriteHandle>(
        &'a self,
        handle: &'a H,
        key: &K,
        changes: &'a [(&'a str, Option<Value>)],
    ) -> H::Out<'a, Result<()>> {
        let (parts, tx) = (Parts::from_key(key), handle.tx());
        H::run(async move {
            let mapping = self.mapping(tx).await?;
            let delta = mapping.changes::<V>(changes)?;
            let cell = mapping.cell(parts)?;
            match mapping.indexed(tx) {
                Some(rows) => rows.change(cell, &delta).await,
                None => tx.change_row(cell, &delta).await,
            }
        })
    }

    /// Deletes a row; not an error if the row does not exist.
    ///
    /// # Errors
    ///
    /// Same as [`Table::put`].
    pub fn delete<'a, H: WriteHandle>(&'a self, handle: &'a H, key: &K) -> H::Out<'a, Result<()>> {
        let parts = Parts::from_key(key);
        let tx = handle.tx();
        H::run(async move {
            let mapping = self.mapping(tx).await?;
            let cell = mapping.cell(parts)?;
            match mapping.indexed(tx) {
                Some(rows) => rows.delete(cell).await,
                None => tx.delete_cell(cell),
            }
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
        Rows::new(handle.clone(), Arc::clone(&self.schema), span)
    }

    /// Reads every row of the table: partitions in token order, rows in clustering order.
    pub fn scan<H: Handle>(&self, handle: &H) -> Rows<H, K, V> {
        Rows::new(handle.clone(), Arc::clone(&self.schema), Span::Table)
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
        Rows::new(handle.clone(), Arc::clone(&self.schema), Span::Tokens { lower, upper })
    }

    /// Computes the token of a partition, which determines its position in a scan.
    ///
    /// # Errors
    ///
    /// `Invalid` when the partition key is empty or too long.
    pub fn token(&self, partition: &K::Partition) -> Result<Token> {
        Ok(partition::encode(&partition.to_values())?.token())
    }

    async fn mapping(&self, tx: &Tx) -> Result<View<Mapping>> {
        self.schema.view(tx, Mapping::new::<K, V>).await
    }
}
