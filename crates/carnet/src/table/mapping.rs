//! Mapping between the rows of a table and the Rust types of its keys and records.

use std::ops::Bound;

use carnet_base::{
    Bytes, CellBuilder, CellKey, CellKeyBuilder, CellKeyRef, ColumnId, Error, KeyRange, Result,
    TableId, Token,
};
use carnet_data::key::{self, Order};
use carnet_data::row::{
    Change, Column, Marker, RowColumns, RowDelta, RowImage, RowReader, RowWriter,
};
use carnet_data::{DataType, Value, partition};

use super::key::{KeyTuple, TableKey};
use super::record::Record;
use super::scalar::stored;
use crate::catalog::{ColumnSchema, TableKind, TableSchema};
use crate::derived::RowStore;
use crate::tx::Tx;

/// Mapping of a table schema to `K` and `V`.
pub(super) struct Mapping {
    /// Version of the schema.
    version: u32,
    table: TableId,
    orders: Vec<Order>,
    has_clustering: bool,
    columns: Vec<ColumnId>,
    /// Whether the table has columns that the record lacks. A write keeps their values.
    pub(super) has_others: bool,
    /// Whether the record's columns are in ascending order of column id.
    is_in_order: bool,
    /// Schema of a table that has indexes or views, or is a view.
    indexed: Option<Box<TableSchema>>,
}

/// The requested rows, before the schema is known.
pub(super) enum Span {
    Table,
    Tokens { lower: Bound<Token>, upper: Bound<Token> },
    Partition { partition: Vec<Value>, lower: Bound<Vec<Value>>, upper: Bound<Vec<Value>> },
}

/// A key, encoded as far as possible without the schema, so that no future borrows the caller's
/// key.
pub(super) struct Parts {
    key: CellKeyBuilder,
    clustering: Vec<Value>,
}

impl Parts {
    pub(super) fn from_key<K: TableKey>(key: &K) -> Self {
        let (partition, clustering) = key.parts();
        let mut key = CellKeyBuilder::new();
        partition.put_partition(key.partition());
        Self { key, clustering: clustering.to_values() }
    }
}

impl Mapping {
    pub(super) fn new<K: TableKey, V: Record>(schema: &TableSchema) -> Result<Self> {
        let misfit = |what: String| {
            Error::invalid(format!(
                "table {}.{} does not fit the Rust types: {what}",
                schema.keyspace, schema.name
            ))
        };
        let types = |columns: &mut dyn Iterator<Item = &ColumnSchema>| -> Vec<DataType> {
            columns.map(|column| column.data_type.clone()).collect()
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
        if schema.base.as_ref().is_some_and(|base| !base.is_built) {
            return Err(schema.not_built());
        }
        let is_base = !schema.indexes.is_empty() || !schema.views.is_empty();
        let has_derived = is_base || schema.base.is_some();
        let has_others = schema.regular().count() > columns.len();
        Ok(Self {
            table: schema.id,
            orders: schema.clustering_orders(),
            has_clustering: !clustering.is_empty(),
            has_others,
            is_in_order: columns.is_sorted_by(|one, next| one < next),
            indexed: has_derived.then(|| Box::new(schema.clone())),
            columns,
            version: schema.version,
        })
    }

    /// Returns the writer of rows with their index entries and view rows; `None` for a table that has
    /// neither.
    pub(super) fn indexed<'a>(&'a self, tx: &'a Tx) -> Option<RowStore<'a>> {
        self.indexed.as_deref().map(|schema| RowStore::new(tx, schema))
    }

    /// Returns `true` if a record can be encoded column by column.
    pub(super) const fn is_plain(&self) -> bool {
        let has_indexes = self.indexed.is_some();
        self.is_in_order
            && !self.has_others
            && !has_indexes
            && self.columns.len() <= RowWriter::COLUMNS_MAX
    }

    pub(super) fn cell(&self, parts: Parts) -> Result<CellKey> {
        self.begin(parts).map(|cell| cell.to_key())
    }

    pub(super) fn begin(&self, parts: Parts) -> Result<CellBuilder> {
        let Parts { key, clustering } = parts;
        key.end(self.table, |out| key::encode_into(out, &clustering, &self.orders))
    }

    /// Builds the cell with the payload of [`Mapping::image`], without the intermediate image.
    pub(super) fn plain<V: Record>(&self, parts: Parts, record: &V) -> Result<CellBuilder> {
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

    pub(super) fn image(&self, columns: Vec<Option<Value>>) -> RowImage {
        let mut image = RowImage::new(self.version);
        image.marker = Some(Marker::default());
        for (id, value) in self.columns.iter().zip(columns) {
            if let Some(value) = value {
                image.set(*id, Column::new(value.serialize()));
            }
        }
        image
    }

    /// Returns the changes that replace all columns of the record, and no others of the row.
    pub(super) fn whole(&self, columns: Vec<Option<Value>>) -> RowDelta {
        let mut delta = RowDelta::new(self.version);
        delta.marker = Some(Marker::default());
        for (id, value) in self.columns.iter().zip(columns) {
            delta.change(*id, change(value.as_ref()));
        }
        delta
    }

    /// Returns the changes of named columns.
    pub(super) fn changes<V: Record>(&self, changes: &[(&str, Option<Value>)]) -> Result<RowDelta> {
        let mut delta = RowDelta::new(self.version);
        for (name, value) in changes {
            let id = self.column::<V>(name)?;
            let column = V::COLUMNS.iter().find(|(column, _)| column == name);
            if let (Some(value), Some((_, data_type))) = (value, column) {
                if value.data_type() != *data_type {
                    return Err(Error::invalid(format!(
                        "column {name} is of type {data_type}, not {}",
                        value.data_type()
                    )));
                }
                value.validate()?;
            }
            delta.change(id, change(value.as_ref()));
        }
        Ok(delta)
    }

    #[inline]
    pub(super) fn found<V: Record>(
        &self,
        payload: Option<Bytes>,
        now: impl Fn() -> i64,
    ) -> Result<Option<V>> {
        let Some(payload) = payload else { return Ok(None) };
        let row = RowReader::new(&payload)?.live(&now)?;
        row.map(|row| self.record(row, &now, || payload.clone())).transpose()
    }

    /// Decodes a record, as it is at the second `now()`. Calls `owned` for the row's bytes only if
    /// it cannot decode them in place.
    pub(super) fn record<V: Record>(
        &self,
        row: RowReader<'_>,
        now: &dyn Fn() -> i64,
        owned: impl FnOnce() -> Bytes,
    ) -> Result<V> {
        if self.is_in_order {
            let mut columns = RowColumns::new(row, &self.columns, now);
            let record = V::take_columns(&mut columns)?;
            columns.finish()?;
            return Ok(record);
        }
        let mut image = RowImage::decode(&owned())?;
        if image.expires() {
            image.expire(now());
        }
        let columns = V::COLUMNS
            .iter()
            .zip(&self.columns)
            .map(|((_, data_type), id)| {
                image.value(*id).map(|bytes| stored(data_type, bytes)).transpose()
            })
            .collect::<Result<_>>()?;
        V::from_columns(columns)
    }

    /// Returns `true` if a cell holds a live row at the second `now()`. A cell of static columns does
    /// not.
    #[inline]
    pub(super) fn has_row(
        &self,
        cell: CellKeyRef<'_>,
        payload: &[u8],
        now: impl Fn() -> i64,
    ) -> Result<bool> {
        let is_static = self.has_clustering && cell.clustering().is_empty();
        Ok(!is_static && RowReader::new(payload)?.live(now)?.is_some())
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

fn change(value: Option<&Value>) -> Change {
    match value {
        Some(value) => Change::Set { value: value.serialize(), expiry: None },
        None => Change::Deleted,
    }
}
