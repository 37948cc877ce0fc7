//! The view row of a base row.

use std::cmp::Ordering;

use carnet_base::limits::CLUSTERING_KEY_BYTES_MAX;
use carnet_base::{Bytes, CellKey, ColumnId, Error, Result, TableId};
use carnet_data::key;
use carnet_data::row::{Collection, CollectionKind};
use carnet_data::{DataType, Marker, RowDelta, RowImage, Value, partition};

use super::cells::Cells;
use crate::catalog::{
    ColumnKind, ColumnSchema, Order, TableSchema, ViewOperator, ViewSchema, ViewTest,
};
use crate::row_changes::{earlier, later, row_expiry};

/// Layout of the rows of a view.
#[derive(Clone, Debug)]
pub struct ViewLayout<'a> {
    base: &'a TableSchema,
    view: &'a ViewSchema,
    partition: Vec<&'a ColumnSchema>,
    clustering: Vec<&'a ColumnSchema>,
    orders: Vec<Order>,
    /// Columns outside the base table's key that must have a value.
    required: Vec<&'a ColumnSchema>,
    /// Columns of the base table's key that are compared with constants.
    compared: Vec<Compared<'a>>,
}

/// Comparison of a column with constants.
#[derive(Clone, Debug)]
struct Compared<'a> {
    column: &'a ColumnSchema,
    operator: ViewOperator,
    values: Vec<Value>,
}

impl<'a> ViewLayout<'a> {
    /// Makes the layout of a view of a table.
    ///
    /// # Errors
    ///
    /// `Corrupted` if the view does not fit its table.
    pub fn new(base: &'a TableSchema, view: &'a ViewSchema) -> Result<Self> {
        let find = |id: ColumnId| base.column_by_id(id).ok_or_else(|| view.misfit(base));
        let partition = view.partition.iter().map(|id| find(*id)).collect::<Result<Vec<_>>>()?;
        let clustering = view.clustering.iter().map(|(id, _)| find(*id));
        let clustering = clustering.collect::<Result<Vec<_>>>()?;
        let mut required: Vec<&ColumnSchema> = Vec::new();
        let mut compared = Vec::new();
        let in_key = partition.iter().chain(&clustering).copied();
        required.extend(in_key.filter(|column| !column.is_key()));
        for relation in &view.filter {
            let column = find(relation.column)?;
            match &relation.test {
                ViewTest::NotNull if column.is_key() => {}
                ViewTest::NotNull => required.push(column),
                // Only columns of the base table's key are compared; see `cql`.
                ViewTest::Compare { .. } if !column.is_key() => return Err(view.misfit(base)),
                ViewTest::Compare { operator, values, .. } => {
                    let values = values.iter().map(|value| column.data_type.deserialize(value));
                    let values = values.collect::<Result<_>>()?;
                    compared.push(Compared { column, operator: *operator, values });
                }
            }
        }
        let orders = view.clustering.iter().map(|(_, order)| *order).collect();
        Ok(Self { base, view, partition, clustering, orders, required, compared })
    }

    /// Returns the base table.
    pub(crate) const fn base(&self) -> &'a TableSchema {
        self.base
    }

    /// Returns the view.
    pub(crate) const fn view(&self) -> &'a ViewSchema {
        self.view
    }

    /// Returns the table of the view's rows.
    #[must_use]
    pub const fn table(&self) -> TableId {
        self.view.id
    }

    /// Returns `true` if a change of a base row may change its view row.
    pub(crate) fn concerns(&self, delta: &RowDelta) -> bool {
        // Without a required column the view row exists as long as any part of the base row.
        self.required.is_empty()
            || delta.changes().iter().any(|(id, _)| {
                let is_required = self.required.iter().any(|column| column.id == *id);
                is_required || self.base.column_by_id(*id).is_some_and(|it| self.view.has(it))
            })
    }

    /// Returns the view row of a base row, if it has one.
    ///
    /// # Errors
    ///
    /// `Corrupted`.
    pub(crate) fn row(&self, cell: &CellKey, image: Option<&RowImage>) -> Result<Cells> {
        let mut cells = Cells::default();
        let Some(image) = image.filter(|image| image.is_live()) else { return Ok(cells) };
        let Some(expiry) = self.expiry(image)? else { return Ok(cells) };
        let keys = self.base_key(cell)?;
        if !self.compared.iter().all(|compared| compared.holds(&keys)) {
            return Ok(cells);
        }
        let Some(values) = self.key(&keys, image)? else { return Ok(cells) };
        let key = match self.cell(&values) {
            Ok(key) => key,
            Err(error) => {
                cells.refused.insert(values.bytes(), error);
                return Ok(cells);
            }
        };
        let mut row = image.clone();
        row.retain(|id| {
            let column = self.base.column_by_id(id);
            column.is_some_and(|column| self.view.has(column) && !self.view.is_key(id))
        });
        row.marker = Some(Marker::expiring(expiry));
        if let (false, Some(limit)) = (self.required.is_empty(), expiry) {
            row.limit_expiry(limit);
        }
        cells.found.insert(key, row);
        Ok(cells)
    }

    /// Returns the expiry of the view row of a base row; `None` if a required column has no value.
    fn expiry(&self, image: &RowImage) -> Result<Option<Option<i64>>> {
        if self.required.is_empty() {
            return Ok(Some(row_expiry(image)));
        }
        let mut expiry = None;
        for column in &self.required {
            let Some(found) = column_expiry(column, image)? else { return Ok(None) };
            expiry = earlier(expiry, found);
        }
        Ok(Some(expiry))
    }

    /// Returns the values of the base table's key.
    fn base_key(&self, cell: &CellKey) -> Result<Vec<(ColumnId, Value)>> {
        let of_kind = |is_it: fn(&ColumnSchema) -> bool| -> (Vec<ColumnId>, Vec<DataType>) {
            let columns = self.base.columns.iter().filter(|column| is_it(column));
            columns.map(|column| (column.id, column.data_type.clone())).unzip()
        };
        let (mut ids, types) = of_kind(|column| column.kind == ColumnKind::Partition);
        let mut values = partition::decode(&types, cell.partition().bytes())?;
        let (more, types) = of_kind(|column| matches!(column.kind, ColumnKind::Clustering(_)));
        values.extend(key::decode(cell.clustering(), &types, &self.base.clustering_orders())?);
        ids.extend(more);
        Ok(ids.into_iter().zip(values).collect())
    }

    /// Returns the values of the key of the view row; `None` if there is none.
    fn key(&self, keys: &[(ColumnId, Value)], image: &RowImage) -> Result<Option<KeyValues>> {
        let values = |columns: &[&ColumnSchema]| -> Result<Option<Vec<Value>>> {
            columns.iter().map(|column| value(column, keys, image)).collect()
        };
        let Some(partition) = values(&self.partition)? else { return Ok(None) };
        let Some(clustering) = values(&self.clustering)? else { return Ok(None) };
        if let [only] = &partition[..]
            && only.serialize().is_empty()
        {
            return Ok(None);
        }
        Ok(Some(KeyValues { partition, clustering }))
    }

    /// Makes the key of the view row.
    ///
    /// # Errors
    ///
    /// `Invalid` if the values are too long for a key.
    fn cell(&self, values: &KeyValues) -> Result<CellKey> {
        let refuse = |why: &str| {
            Error::invalid(format!(
                "the row would have no valid key in view {}: {why}",
                self.view.name
            ))
        };
        let partition = partition::encode(&values.partition);
        let partition = partition.map_err(|error| refuse(error.message()))?;
        let clustering = key::encode(&values.clustering, &self.orders);
        let clustering = clustering.map_err(|error| refuse(error.message()))?;
        if clustering.len() > CLUSTERING_KEY_BYTES_MAX {
            return Err(refuse(&format!(
                "a clustering key of {} bytes; at most {CLUSTERING_KEY_BYTES_MAX} are allowed",
                clustering.len()
            )));
        }
        Ok(CellKey::new(self.view.id, &partition, clustering))
    }
}

/// Values of the key of a view row.
struct KeyValues {
    partition: Vec<Value>,
    clustering: Vec<Value>,
}

impl KeyValues {
    /// Returns the serialized values, as one text of bytes.
    fn bytes(&self) -> Bytes {
        let mut bytes = Vec::new();
        for value in self.partition.iter().chain(&self.clustering) {
            let value = value.serialize();
            bytes.extend_from_slice(&value.len().to_be_bytes());
            bytes.extend_from_slice(&value);
        }
        bytes.into()
    }
}

impl Compared<'_> {
    fn holds(&self, keys: &[(ColumnId, Value)]) -> bool {
        let Some((_, found)) = keys.iter().find(|(id, _)| *id == self.column.id) else {
            return false;
        };
        self.values.iter().any(|value| {
            let ordering = found.compare(value);
            match self.operator {
                ViewOperator::Equal | ViewOperator::In => ordering == Ordering::Equal,
                ViewOperator::Less => ordering == Ordering::Less,
                ViewOperator::LessOrEqual => ordering != Ordering::Greater,
                ViewOperator::Greater => ordering == Ordering::Greater,
                ViewOperator::GreaterOrEqual => ordering != Ordering::Less,
            }
        })
    }
}

fn value(
    column: &ColumnSchema,
    keys: &[(ColumnId, Value)],
    image: &RowImage,
) -> Result<Option<Value>> {
    if let Some((_, value)) = keys.iter().find(|(id, _)| *id == column.id) {
        return Ok(Some(value.clone()));
    }
    image.value(column.id).map(|value| column.data_type.deserialize(value)).transpose()
}

/// Returns the expiry of a column; `None` if it is null.
fn column_expiry(column: &ColumnSchema, image: &RowImage) -> Result<Option<Option<i64>>> {
    let kind = CollectionKind::of_type(&column.data_type).filter(|_| column.is_multi_cell);
    let Some(kind) = kind else {
        return Ok(image.column(column.id).map(|column| column.expiry));
    };
    let elements = image.elements(column.id, kind)?;
    let elements = elements.iter().flat_map(Collection::elements);
    Ok(elements.map(|element| element.expiry).reduce(later))
}
