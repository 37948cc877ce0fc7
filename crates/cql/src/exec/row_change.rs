//! Change of one row by the statements of a group.
//!
//! A version is a whole row image, or a delta of statements that do not set every column. A
//! statement that needs the row, or whose delta the store does not take, reads the row first, in
//! the same transaction, and keeps the other columns.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use carnet::catalog::{ColumnKind, ColumnSchema};
use carnet::derived::RowStore;
use carnet::{CellKey, PartitionKey, Tx};
use carnet_base::limits::VALUE_BYTES_MAX;
use carnet_base::{BytePermit, Bytes, WallTime};
use carnet_data::row::{Change as ColumnChange, Collection, CollectionKind};
use carnet_data::{Marker, RowDelta, RowImage};

use super::row;
use super::scan::has_many_elements;
use super::stored_row::StoredRow;
use super::targets::Targeted;
use crate::compile::{Assigned, Change, ElementEdit, GuardPlan, WritePlan, value_change};
use crate::cql_error::CqlError;
use crate::steps::Steps;

/// Changes of one row, or of the static columns of a partition, by statements in their order.
pub(super) struct RowGroup<'w> {
    pub(super) writes: Vec<&'w Targeted<'w>>,
    pub(super) written: WallTime,
    pub(super) partition: &'w PartitionKey,
    /// `None` for static columns only.
    pub(super) clustering: Option<&'w Bytes>,
    /// Columns that are changed, by position, and whether elements of them are.
    pub(super) columns: HashMap<usize, bool>,
}

impl<'w> RowGroup<'w> {
    pub(super) fn new(
        write: &'w Targeted<'w>,
        partition: &'w PartitionKey,
        clustering: Option<&'w Bytes>,
    ) -> Self {
        let (writes, columns, written) = (vec![write], HashMap::new(), write.written);
        Self { writes, written, partition, clustering, columns }
    }

    /// Adds the statement of another group of the same row. Returns it if it has to be made after
    /// this one.
    pub(super) fn add(&mut self, later: Self) -> Option<Self> {
        let fits = self.written == later.written
            && later.columns.iter().all(|(position, elements)| {
                self.columns.get(position).is_none_or(|known| known == elements)
            });
        if !fits {
            return Some(later);
        }
        self.columns.extend(later.columns);
        self.writes.extend(later.writes);
        None
    }
}

/// Bytes of a value above which the length of the row is checked when the value is made.
const LONG_BYTES: usize = 64 << 10;

/// Changes a row and the static columns of its partition; without a clustering key, only the static
/// columns.
///
/// Every value is calculated from the row before either cell changes.
pub(super) async fn change_row(tx: &Tx, group: &RowGroup<'_>) -> Result<(), CqlError> {
    let Some(first) = group.writes.first() else { return Ok(()) };
    let table = &first.plan.table;
    let static_cell = CellKey::new(table.id, group.partition, "");
    let row_cell =
        group.clustering.map(|clustering| CellKey::new(table.id, group.partition, clustering));
    let current = if group.writes.iter().any(|write| write.plan.reads_row()) {
        let written = group.written;
        Box::pin(CurrentRow::read(tx, first, written, &static_cell, row_cell.as_ref())).await?
    } else {
        CurrentRow::default()
    };
    let changes = Box::pin(changes(tx, group, &current)).await?;
    if group.writes.iter().any(|write| write.plan.changes_statics()) {
        change_cell(tx, group, static_cell, ColumnKind::Static, &changes).await?;
    }
    if let Some(cell) = row_cell {
        change_cell(tx, group, cell, ColumnKind::Regular, &changes).await?;
    }
    Ok(())
}

/// Returns the changes of columns, static or not; values that are set get an expiry. Columns whose values
/// were left unset do not change. Of the values of a column the last one is kept.
async fn changes(
    tx: &Tx,
    group: &RowGroup<'_>,
    current: &CurrentRow<'_>,
) -> Result<RowDelta, CqlError> {
    let mut slice = tx.time_slice();
    let mut changes = RowDelta::default();
    let mut edits: BTreeMap<usize, ElementEdit<'_>> = BTreeMap::new();
    for write in &group.writes {
        let (plan, expiry) = (write.plan, write.expiry);
        let environment = &write.environment.with_row(&current.columns);
        match &plan.change {
            Change::Set { columns, .. } => {
                for (position, assigned) in columns {
                    let column = &plan.table.columns[*position];
                    let (kind, elements) = match assigned {
                        Assigned::Value(operand) => {
                            let change = value_change(operand, column, expiry, environment)?;
                            if let Some(change) = change {
                                add_value(&mut changes, column, change, write.decides)?;
                            }
                            environment.steps.pace(&mut slice).await?;
                            continue;
                        }
                        Assigned::Elements(kind, _, elements) => (*kind, elements),
                    };
                    let edit = match edits.entry(*position) {
                        Entry::Occupied(known) => known.into_mut(),
                        Entry::Vacant(free) => {
                            let elements = current.elements(column)?;
                            let now = tx.wall_seconds();
                            let edit = ElementEdit::new(column, kind, elements, now);
                            free.insert(edit.deciding_by_value(write.decides))
                        }
                    };
                    for change in elements {
                        edit.make(change, expiry, environment)?;
                        environment.steps.pace(&mut slice).await?;
                    }
                }
            }
            Change::Add(additions) => {
                for (position, addition) in additions {
                    if let Some(amount) = addition.amount(environment)? {
                        let column = &plan.table.columns[*position];
                        changes.change(column.id, ColumnChange::Added(amount));
                    }
                }
            }
            Change::Clear(columns) => {
                for position in columns {
                    add_value(
                        &mut changes,
                        &plan.table.columns[*position],
                        ColumnChange::Deleted,
                        write.decides,
                    )?;
                }
            }
            Change::Delete => {}
        }
        environment.steps.pace(&mut slice).await?;
    }
    for (position, edit) in edits {
        if let (Some(change), Some(write)) = (edit.finish()?, group.writes.first()) {
            changes.change(write.plan.table.columns[position].id, change);
        }
    }
    Ok(changes)
}

/// Adds a new value to the changes of a row.
fn add_value(
    changes: &mut RowDelta,
    column: &ColumnSchema,
    change: ColumnChange,
    decides: bool,
) -> Result<(), CqlError> {
    if decides
        && let Some((_, earlier)) = changes.changes().iter().find(|(id, _)| *id == column.id)
        && precedes(earlier, &change)
    {
        return Ok(());
    }
    let value_bytes = |change: &ColumnChange| match change {
        ColumnChange::Set { value, .. } => value.len(),
        _ => 0,
    };
    let is_long = value_bytes(&change) > LONG_BYTES;
    changes.change(column.id, change);
    let row = || changes.changes().iter().map(|(_, change)| value_bytes(change)).sum::<usize>();
    if is_long && row() > VALUE_BYTES_MAX {
        return Err(CqlError::invalid(format!(
            "a row's value of {} bytes is too long: at most {VALUE_BYTES_MAX} bytes are stored",
            row()
        )));
    }
    Ok(())
}

/// Returns `true` if a change precedes a later one of the same time, as in Cassandra: by deletion, then by
/// expiry, then by the bytes of the value.
fn precedes(earlier: &ColumnChange, later: &ColumnChange) -> bool {
    match (earlier, later) {
        (ColumnChange::Deleted, _) => true,
        (
            ColumnChange::Set { value, expiry },
            ColumnChange::Set { value: other, expiry: other_expiry },
        ) => (expiry, value) > (other_expiry, other),
        _ => false,
    }
}

/// Writes a new version of a cell: the columns of one kind, static or regular, of a row.
async fn change_cell(
    tx: &Tx,
    group: &RowGroup<'_>,
    cell: CellKey,
    kind: ColumnKind,
    changes: &RowDelta,
) -> Result<(), CqlError> {
    let Some(first) = group.writes.first() else { return Ok(()) };
    let table = &first.plan.table;
    let mut delta = RowDelta::new(table.version);
    if kind == ColumnKind::Regular {
        delta.marker = marker(group);
    }
    delta.written = Some(group.written);
    let statics: Vec<_> = table.statics().map(|column| column.id).collect();
    for (id, change) in changes.changes() {
        if statics.contains(id) == (kind == ColumnKind::Static) {
            delta.change(*id, change.clone());
        }
    }
    // If the statement sets every column, no read is needed.
    let all = table.columns.iter().filter(|column| column.kind == kind).count();
    let is_insert = group.writes.len() == 1 && is_insert(first.plan);
    let blind = is_insert && delta.changes().len() == all;
    let rows = RowStore::new(tx, table);
    if first.competes {
        rows.rewrite_by_time(cell, &delta).await?;
    } else if blind {
        let mut image = RowImage::default();
        delta.apply(&mut image)?;
        rows.put(cell, image).await?;
    } else if group.writes.iter().any(|write| needs_rewrite(write.plan)) {
        rows.rewrite(cell, &delta).await?;
    } else {
        rows.change(cell, &delta).await?;
    }
    Ok(())
}

/// Returns `true` if a statement makes its row exist.
const fn is_insert(plan: &WritePlan) -> bool {
    matches!(plan.change, Change::Set { marker: true, .. })
}

/// Returns `true` if a statement writes the whole row: because it has read it, or because a delta has
/// one write time for all changes of its transaction.
fn needs_rewrite(plan: &WritePlan) -> bool {
    plan.reads_row() || plan.has_write_time() || !matches!(plan.guard, GuardPlan::Always)
}

/// Returns the row marker that the last insertion sets.
fn marker(group: &RowGroup<'_>) -> Option<Marker> {
    let last = group.writes.iter().rev().find(|write| is_insert(write.plan));
    last.map(|write| Marker::expiring(write.expiry))
}

/// Memory of a decoded row, in times of its length as it is stored.
const DECODED_LENGTHS: usize = 5;

/// A row before the change, for terms that use it; empty if none does.
#[derive(Default)]
struct CurrentRow<'t> {
    /// Columns that have not expired.
    columns: Vec<Option<Bytes>>,
    /// The row as it is stored.
    image: Option<RowImage>,
    statics: Option<RowImage>,
    /// Memory of the row if it is long.
    _memory: Option<BytePermit<'t>>,
}

impl<'t> CurrentRow<'t> {
    async fn read(
        tx: &'t Tx,
        write: &Targeted<'_>,
        written: WallTime,
        static_cell: &CellKey,
        row_cell: Option<&CellKey>,
    ) -> Result<Self, CqlError> {
        let table = &write.plan.table;
        // The elements become part of the next version.
        let begin_version = |mut image: RowImage| {
            image.begin_version(Some(written));
            image
        };
        let steps = write.environment.steps;
        let mut memory = None;
        let image = match row_cell {
            Some(cell) => read_image(tx, cell, steps, &mut memory).await?.map(begin_version),
            None => None,
        };
        let has_statics = table.statics().next().is_some();
        let statics =
            if has_statics { read_image(tx, static_cell, steps, &mut memory).await? } else { None };
        let statics = statics.map(begin_version);
        let live = |image: &Option<RowImage>| image.clone().and_then(|image| tx.live_image(image));
        let key = row_cell.unwrap_or(static_cell).clone();
        let row = StoredRow { key, image: live(&image), statics: live(&statics).map(Arc::new) };
        let columns = row::columns(table, &row)?;
        Ok(Self { columns, image, statics, _memory: memory })
    }

    /// Returns the stored elements of a collection that is not frozen.
    fn elements(&self, column: &ColumnSchema) -> Result<Option<Collection>, CqlError> {
        let image = match column.kind {
            ColumnKind::Static => self.statics.as_ref(),
            _ => self.image.as_ref(),
        };
        let kind = CollectionKind::of_type(&column.data_type).filter(|_| column.is_multi_cell);
        let (Some(image), Some(kind)) = (image, kind) else { return Ok(None) };
        Ok(image.elements(column.id, kind)?)
    }
}

/// Reads and decodes a row. Takes a permit for the memory of a long one, unless the caller has one.
async fn read_image<'t>(
    tx: &'t Tx,
    cell: &CellKey,
    steps: &Steps<'_>,
    memory: &mut Option<BytePermit<'t>>,
) -> Result<Option<RowImage>, CqlError> {
    let Some(mut entry) = tx.get_cell(cell).await? else { return Ok(None) };
    steps.take_bytes(entry.payload.len())?;
    if has_many_elements(&entry.payload)? {
        if let Some(mut slice) = tx.time_slice() {
            slice.end().await;
        }
        let bytes = entry.payload.len().saturating_mul(DECODED_LENGTHS);
        if memory.is_none() {
            *memory = tx.try_row_memory(bytes);
        }
        if memory.is_none() {
            // A row that waits for its turn takes no memory.
            drop(entry);
            *memory = Some(tx.row_memory(bytes).await?);
            let Some(again) = tx.get_cell(cell).await? else { return Ok(None) };
            entry = again;
        }
    }
    Ok(Some(RowImage::decode(&entry.payload)?))
}
