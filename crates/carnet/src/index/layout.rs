//! Keys of index entries, and the entries of a row.
//!
//! ```text
//! partition    the first bits of the row's token, one byte; empty if the index has one partition
//! clustering   value, or key and value of a map's entry     in the order of their types
//!              token of the row                             bigint
//!              partition key of the row                     blob
//!              clustering key of the row                    as it is; empty for static columns
//! ```
//!
//! An index that folds texts has the folded texts as values.
//!
//! An index on a static column has entries of static cells, an index on a column of the partition key
//! those of static cells and of rows: a partition that has static columns only is a row of the table.

use std::collections::BTreeMap;
use std::ops::Bound;

use carnet_base::limits::CLUSTERING_KEY_BYTES_MAX;
use carnet_base::{Bytes, CellKey, Error, PartitionKey, Result, TableId, Token};
use carnet_data::key::{self, Order};
use carnet_data::row::{Collection, CollectionKind, Element};
use carnet_data::{DataType, Folding, RowImage, Value, partition};

use crate::catalog::{
    ColumnKind, ColumnSchema, INDEX_BITS_MAX, IndexSchema, IndexedPart, TableSchema,
};
use crate::row_changes::{later, row_expiry};

/// Maximum length in bytes of the indexed value of an entry, as Cassandra serializes it.
pub const INDEX_VALUE_BYTES_MAX: usize = 8 << 10;

/// Entries of a row.
#[derive(Debug, Default)]
pub(crate) struct Entries {
    /// Keys and expiries.
    pub(crate) found: BTreeMap<CellKey, Option<i64>>,
    /// Errors for the values that no write may add, by their bytes.
    pub(crate) refused: BTreeMap<Bytes, Error>,
}

/// Layout of the entries of an index.
#[derive(Clone, Debug)]
pub struct IndexLayout<'a> {
    table: &'a TableSchema,
    index: &'a IndexSchema,
    column: &'a ColumnSchema,
    /// Types of the values at the front of an entry's key.
    types: Vec<DataType>,
    /// Steps by which texts are folded.
    folding: Folding,
}

impl<'a> IndexLayout<'a> {
    /// Makes the layout of an index of a table.
    ///
    /// # Errors
    ///
    /// `Corrupted` if the index does not fit its table; `Unsupported` for a value whose order has
    /// no encoding.
    pub fn new(table: &'a TableSchema, index: &'a IndexSchema) -> Result<Self> {
        let column = table.column_by_id(index.column);
        let found = column.and_then(|column| Some((column, index.part.types(&column.data_type)?)));
        let Some((column, types)) = found else {
            return Err(Error::corrupted(format!(
                "index {} of table {}.{} is on a column that the table does not have",
                index.name, table.keyspace, table.name
            )));
        };
        let is_unordered = |data_type: &&DataType| !data_type.is_key_type() && has_entries(column);
        if let Some(unordered) = types.iter().find(is_unordered) {
            return Err(Error::unsupported(format!(
                "index {} on a value of type {unordered}",
                index.name
            )));
        }
        Ok(Self { table, index, column, types, folding: index.folding() })
    }

    /// Returns the types of the values at the front of an entry's key.
    #[must_use]
    pub fn types(&self) -> &[DataType] {
        &self.types
    }

    /// Returns the steps by which the texts of entries are folded.
    #[must_use]
    pub const fn folding(&self) -> Folding {
        self.folding
    }

    /// Returns the table of the entries.
    #[must_use]
    pub const fn entries_table(&self) -> TableId {
        self.index.id
    }

    /// Returns `true` if the index is on a static column: an entry names a partition.
    #[must_use]
    pub const fn is_static(&self) -> bool {
        matches!(self.column.kind, ColumnKind::Static)
    }

    /// Returns the indexed table.
    pub(crate) const fn base(&self) -> &'a TableSchema {
        self.table
    }

    /// Returns the index.
    pub(crate) const fn index(&self) -> &'a IndexSchema {
        self.index
    }

    /// Returns `true` if a row in this cell may have entries.
    fn concerns(&self, cell: &CellKey) -> bool {
        match self.column.kind {
            ColumnKind::Static => self.is_static_cell(cell),
            ColumnKind::Partition if self.index.has_static_entries => true,
            _ => !self.is_static_cell(cell),
        }
    }

    /// Returns `true` for the cell of the static columns of a partition. The entry of such a cell in an
    /// index on a column of the partition key comes before those of the rows of its partition.
    #[must_use]
    pub fn is_static_cell(&self, cell: &CellKey) -> bool {
        cell.clustering().is_empty() && self.table.clustering_key().next().is_some()
    }

    /// Returns the partition with the entries of the rows of a token.
    fn partition_of(&self, token: Token) -> PartitionKey {
        match self.index.bits {
            0 => PartitionKey::new(Bytes::new()),
            bits => bucket(leading_bits(token, bits)),
        }
    }

    /// Returns the partitions with the entries of the rows whose tokens lie between two bounds, in
    /// the order of the tokens.
    #[must_use]
    pub fn partitions(&self, lower: Bound<Token>, upper: Bound<Token>) -> Vec<PartitionKey> {
        let bits = self.index.bits;
        if bits == 0 {
            return vec![self.partition_of(Token(0))];
        }
        let end = |bound, unbounded| match bound {
            Bound::Included(token) | Bound::Excluded(token) => leading_bits(token, bits),
            Bound::Unbounded => unbounded,
        };
        let last = u8::MAX >> (INDEX_BITS_MAX - bits);
        (end(lower, 0)..=end(upper, last)).map(bucket).collect()
    }

    /// Returns the front of the clustering keys of all entries with these values; with a token and a
    /// partition key, of the entries of the rows of this partition.
    ///
    /// # Errors
    ///
    /// `Invalid` for a value that does not [validate](Value::validate).
    pub fn prefix(&self, values: &[Value], row: Option<&PartitionKey>) -> Result<Bytes> {
        let mut all = values.to_vec();
        if let Some(row) = row {
            all.extend([Value::Bigint(row.token().0), Value::Blob(row.bytes().clone())]);
        }
        key::encode(&all, &[Order::Asc; 4])
    }

    /// Returns the front of the clustering keys of all entries with these values and a token.
    ///
    /// # Errors
    ///
    /// See [`IndexLayout::prefix`].
    pub fn prefix_of_token(&self, values: &[Value], token: Token) -> Result<Bytes> {
        let mut all = values.to_vec();
        all.push(Value::Bigint(token.0));
        key::encode(&all, &[Order::Asc; 3])
    }

    /// Returns the key of an entry, `None` if it is longer than keys are, and the error for a write that
    /// adds the entry.
    fn entry(&self, values: &[Value], cell: &CellKey) -> Result<(Option<CellKey>, Option<Error>)> {
        let row = cell.partition();
        let bytes: usize = values.iter().map(|value| value.serialize().len()).sum();
        let mut clustering = self.prefix(values, Some(&row))?.to_vec();
        clustering.extend_from_slice(cell.clustering());
        let (length, name) = (clustering.len(), &self.index.name);
        let key = CellKey::new(self.index.id, &self.partition_of(row.token()), clustering);
        let is_key = length <= CLUSTERING_KEY_BYTES_MAX;
        let error = if bytes > INDEX_VALUE_BYTES_MAX {
            Some(Error::invalid(format!(
                "Term's column '{}' exceeds the byte size limit for index. Term size is {bytes} bytes, \
                 max allowed size is {INDEX_VALUE_BYTES_MAX} bytes (index {name})",
                self.column.name,
            )))
        } else {
            (!is_key).then(|| {
                Error::invalid(format!(
                    "the row would have an entry of {length} bytes in index {name}, with the value of \
                     column {} and the key of the row; at most {CLUSTERING_KEY_BYTES_MAX} are allowed",
                    self.column.name
                ))
            })
        };
        Ok((is_key.then_some(key), error))
    }

    /// Returns the cell of the row that an entry names: the static cell of its partition for an
    /// index on a static column.
    ///
    /// # Errors
    ///
    /// `Corrupted` if the key is not that of an entry.
    pub fn row_of(&self, entry: &CellKey) -> Result<CellKey> {
        let types: Vec<DataType> =
            self.types.iter().cloned().chain([DataType::Bigint, DataType::Blob]).collect();
        let (values, clustering) = key::decode_first(entry.clustering(), &types, &[Order::Asc; 4])?;
        match &values[values.len() - 2..] {
            [Value::Bigint(token), Value::Blob(bytes)] => {
                let partition = PartitionKey::with_token(Token(*token), bytes.clone());
                Ok(CellKey::new(self.table.id, &partition, clustering))
            }
            _ => Err(Error::corrupted(format!("an entry of index {}", self.index.name))),
        }
    }

    /// Returns the entries of a row; none for a row that does not exist.
    ///
    /// # Errors
    ///
    /// `Corrupted`.
    pub(crate) fn entries(&self, cell: &CellKey, image: Option<&RowImage>) -> Result<Entries> {
        let mut entries = Entries::default();
        let has_entries = has_entries(self.column) && self.concerns(cell);
        let Some(image) = image.filter(|image| image.is_live() && has_entries) else {
            return Ok(entries);
        };
        for (values, expiry) in self.values(cell, image)? {
            let values: Vec<Value> =
                values.into_iter().map(|value| self.folding.value(value)).collect();
            // As in Cassandra's SAI, the empty value has no entry.
            if values.iter().any(|value| matches!(value, Value::Empty(_))) {
                continue;
            }
            let (entry, error) = self.entry(&values, cell)?;
            if let Some(error) = error {
                entries.refused.insert(key::encode(&values, &[Order::Asc; 2])?, error);
            }
            let Some(entry) = entry else { continue };
            // Two elements of a map may have one value: the entry lives as long as either.
            let known = entries.found.get(&entry).copied();
            entries.found.insert(entry, known.map_or(expiry, |known| later(known, expiry)));
        }
        Ok(entries)
    }

    /// Returns the indexed values of a row, with their expiries.
    fn values(&self, cell: &CellKey, image: &RowImage) -> Result<Vec<(Vec<Value>, Option<i64>)>> {
        if self.column.is_key() {
            return Ok(vec![(vec![self.key_value(cell)?], row_expiry(image))]);
        }
        if self.index.part == IndexedPart::Value {
            let Some(column) = image.column(self.column.id) else { return Ok(Vec::new()) };
            let value = self.column.data_type.deserialize(&column.value)?;
            return Ok(vec![(vec![value], column.expiry)]);
        }
        let Some(kind) = CollectionKind::of_type(&self.column.data_type) else {
            return Err(Error::corrupted(format!("column {} is no collection", self.column.name)));
        };
        let elements = image.elements(self.column.id, kind)?;
        let elements = elements.iter().flat_map(Collection::elements);
        elements.map(|element| Ok((self.element_values(kind, element)?, element.expiry))).collect()
    }

    fn element_values(&self, kind: CollectionKind, element: &Element) -> Result<Vec<Value>> {
        let parts = match (self.index.part, kind) {
            (IndexedPart::Keys, _) | (_, CollectionKind::Set) => vec![&element.key],
            (IndexedPart::Entries, _) => vec![&element.key, &element.value],
            (IndexedPart::Values | IndexedPart::Value, _) => vec![&element.value],
        };
        let values = parts.into_iter().zip(&self.types);
        values.map(|(bytes, data_type)| data_type.deserialize(bytes)).collect()
    }

    /// Returns the value of a column of the primary key.
    fn key_value(&self, cell: &CellKey) -> Result<Value> {
        let of_kind = |is_it: fn(&ColumnSchema) -> bool| {
            let columns: Vec<_> =
                self.table.columns.iter().filter(|column| is_it(column)).collect();
            let place = columns.iter().position(|column| column.id == self.column.id);
            let types = columns.iter().map(|column| column.data_type.clone()).collect::<Vec<_>>();
            (types, place)
        };
        let (values, place) = if self.column.kind == ColumnKind::Partition {
            let (types, place) = of_kind(|column| column.kind == ColumnKind::Partition);
            (partition::decode(&types, cell.partition().bytes())?, place)
        } else {
            let (types, place) = of_kind(|column| matches!(column.kind, ColumnKind::Clustering(_)));
            (key::decode(cell.clustering(), &types, &self.table.clustering_orders())?, place)
        };
        let value = place.and_then(|place| values.into_iter().nth(place));
        value.ok_or_else(|| Error::corrupted(format!("the key lacks {}", self.column.name)))
    }
}

/// Returns `false` for a column of vectors. Its index only names the similarity by which queries order
/// rows: they compare the vectors themselves.
#[must_use]
pub const fn has_entries(column: &ColumnSchema) -> bool {
    !matches!(column.data_type, DataType::Vector(_))
}

fn leading_bits(token: Token, bits: u8) -> u8 {
    let ordered = token.0.cast_unsigned() ^ (1 << 63);
    (ordered >> (64 - u32::from(bits))).to_be_bytes()[7]
}

fn bucket(number: u8) -> PartitionKey {
    PartitionKey::new(Bytes::copy_from_slice(&[number]))
}

#[cfg(test)]
mod tests {
    use carnet_base::{ColumnId, Uuid};
    use carnet_data::Marker;
    use carnet_data::row::Column;

    use super::*;
    use crate::catalog::TableKind;

    fn schema(bits: u8, column: u16, part: IndexedPart) -> TableSchema {
        let mut schema = TableSchema::new("ks", "t", TableKind::Rows, Uuid::nil());
        schema.id = TableId(1000);
        schema.add_column("k", DataType::Int, ColumnKind::Partition).unwrap();
        let kind = ColumnKind::Clustering(Order::Desc);
        schema.add_column("c", DataType::Text, kind).unwrap();
        schema.add_column("v", DataType::Int, ColumnKind::Regular).unwrap();
        let map = DataType::map(DataType::Text, DataType::Int);
        schema.add_collection("m", map, ColumnKind::Regular).unwrap();
        schema.indexes.push(IndexSchema {
            name: "i".to_owned(),
            id: TableId(1001),
            column: ColumnId(column),
            part,
            class: None,
            options: BTreeMap::new(),
            bits,
            has_static_entries: false,
            is_built: true,
            failure: None,
        });
        schema
    }

    fn cell(k: i32, c: &str) -> CellKey {
        let partition = partition::encode(&[Value::Int(k)]).unwrap();
        let clustering = key::encode(&[Value::Text(c.to_owned())], &[Order::Desc]).unwrap();
        CellKey::new(TableId(1000), &partition, clustering)
    }

    fn row(v: i32, map: &str) -> RowImage {
        let mut image = RowImage::new(1);
        image.set(ColumnId(2), Column::new(Value::Int(v).serialize()));
        let map_type = DataType::map(DataType::Text, DataType::Int);
        let map = map_type.parse_text(map).unwrap();
        image.set(ColumnId(3), Column::new(map.serialize()).expiring(Some(9)));
        image
    }

    #[test]
    fn entry_names_its_row() {
        for bits in [0, 1, 4, INDEX_BITS_MAX] {
            let schema = schema(bits, 2, IndexedPart::Value);
            let layout = IndexLayout::new(&schema, &schema.indexes[0]).unwrap();
            for k in 0..50 {
                let cell = cell(k, "with \0 zero");
                let entries = layout.entries(&cell, Some(&row(k % 3, "{}"))).unwrap().found;
                let (entry, expiry) = entries.first_key_value().unwrap();
                assert_eq!((entries.len(), *expiry), (1, None));
                assert_eq!(layout.row_of(entry).unwrap(), cell);
                let token = cell.token();
                let within = layout.partitions(Bound::Included(token), Bound::Included(token));
                assert_eq!(within, [entry.partition()]);
                let all = layout.partitions(Bound::Unbounded, Bound::Unbounded);
                assert_eq!(all.len(), 1 << bits);
                assert!(all.contains(&entry.partition()));
                let prefix = layout.prefix(&[Value::Int(k % 3)], Some(&cell.partition())).unwrap();
                assert!(entry.clustering().starts_with(&prefix));
            }
        }
    }

    #[test]
    fn entries_of_equal_values_are_in_the_order_of_rows() {
        let schema = schema(0, 2, IndexedPart::Value);
        let layout = IndexLayout::new(&schema, &schema.indexes[0]).unwrap();
        let cells = (0..40).flat_map(|k| ["a", "b", ""].map(|c| cell(k, c)));
        let mut cells: Vec<CellKey> = cells.collect();
        cells.sort();
        let entry =
            |cell| layout.entries(cell, Some(&row(5, "{}"))).unwrap().found.pop_first().unwrap();
        assert!(cells.iter().map(entry).is_sorted());
    }

    #[test]
    fn parts_of_a_map_are_entries() {
        let image = row(1, "{'a': 1, 'b': 1, 'c': 2}");
        for (part, count) in
            [(IndexedPart::Keys, 3), (IndexedPart::Values, 2), (IndexedPart::Entries, 3)]
        {
            let schema = schema(0, 3, part);
            let layout = IndexLayout::new(&schema, &schema.indexes[0]).unwrap();
            let entries = layout.entries(&cell(1, "x"), Some(&image)).unwrap();
            assert_eq!(entries.found.len(), count, "{part:?}");
            assert!(entries.found.values().all(|expiry| *expiry == Some(9)));
            assert!(layout.entries(&cell(1, "x"), None).unwrap().found.is_empty());
        }
    }

    #[test]
    fn entry_of_a_key_column_lives_as_long_as_the_row() {
        let schema = schema(0, 1, IndexedPart::Value);
        let layout = IndexLayout::new(&schema, &schema.indexes[0]).unwrap();
        let mut image = RowImage::new(1);
        let expiry = |image: &RowImage| {
            layout.entries(&cell(1, "x"), Some(image)).unwrap().found.into_values().next()
        };
        assert_eq!(expiry(&image), None, "the row does not exist");
        image.set(ColumnId(2), Column::new("1").expiring(Some(5)));
        assert_eq!(expiry(&image), Some(Some(5)));
        image.marker = Some(Marker::expiring(Some(8)));
        assert_eq!(expiry(&image), Some(Some(8)));
        image.set(ColumnId(3), Column::new("1"));
        assert_eq!(expiry(&image), Some(None));
    }

    #[test]
    fn long_value_is_refused_by_name() {
        let mut schema = schema(0, 1, IndexedPart::Value);
        schema.columns[1].name = "title".to_owned();
        let layout = IndexLayout::new(&schema, &schema.indexes[0]).unwrap();
        let mut image = RowImage::new(1);
        image.marker = Some(Marker::default());
        let longest = cell(1, &"x".repeat(INDEX_VALUE_BYTES_MAX));
        assert!(layout.entries(&longest, Some(&image)).unwrap().refused.is_empty());
        let long = cell(1, &"x".repeat(INDEX_VALUE_BYTES_MAX + 1));
        // The entry is found nevertheless, so that it can be deleted.
        let Entries { found, refused } = layout.entries(&long, Some(&image)).unwrap();
        assert_eq!((found.len(), refused.len()), (1, 1));
        let error = refused.into_values().next().unwrap();
        assert!(error.message().contains("column 'title'"), "{error}");
    }
}
