//! The `IF` of single statements and batches, and what a client learns where it does not hold.
//!
//! The answer is Cassandra's, which drivers' mappers read by the names of its columns:
//!
//! * It begins with `[applied]`. A single statement adds the columns that its `IF` names; one with
//!   `IF [NOT] EXISTS` adds all columns. A batch, even of one statement, adds the primary key and
//!   the columns of all conditions, or all columns where one condition is `IF [NOT] EXISTS`.
//! * Every judged row that exists is a row of the answer, in the order of the table. Conditions on
//!   static columns alone judge no row: the answer shows the first row of the partition.
//! * Where no row exists, static columns that were read are a row of their own. A static column is
//!   read where a condition names it or a statement changes any; otherwise it is shown as null.

use std::collections::BTreeMap;
use std::sync::Arc;

use carnet::base::{Bytes, RowImage};
use carnet::catalog::{ColumnKind, TableSchema};
use carnet::{CellKey, DataType, PartitionKey, Tx, Value};

use super::CqlError;
use super::row;
use super::scan::{Access, Clustering, Partitions, Scan, StoredRow};
use super::write::Targeted;
use crate::compile::{Filter, GuardPlan, WritePlan, star_order};
use crate::result::{ColumnSpec, Response, Rows};

/// The name of the column that says whether a conditional statement was applied.
const APPLIED: &str = "[applied]";

/// Answers that a conditional statement was applied.
pub(crate) fn applied() -> Response {
    let columns = vec![applied_column("", "")];
    Response::Rows(Rows { columns, rows: vec![vec![boolean(true)]], paging_state: None })
}

pub(crate) fn applied_column(keyspace: &str, table: &str) -> ColumnSpec {
    ColumnSpec {
        keyspace: keyspace.to_owned(),
        table: table.to_owned(),
        name: APPLIED.to_owned(),
        result_type: DataType::Boolean.into(),
    }
}

pub(crate) fn boolean(value: bool) -> Option<Bytes> {
    Some(Value::Boolean(value).serialize())
}

/// Whether a statement came alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Single,
    Batch,
}

/// Which columns of a table the conditions read, and which an answer shows.
struct Read {
    /// Every static column, not only those that a condition names.
    statics: bool,
    /// Every regular column, not only those that a condition names.
    regulars: bool,
    /// The columns that conditions name, by their places, those of a statement in the order of its
    /// `IF` with regular columns first.
    named: Vec<usize>,
    /// Whether a condition is `IF EXISTS` or `IF NOT EXISTS`.
    existence: bool,
}

impl Read {
    fn new(writes: &[Targeted<'_>]) -> Self {
        let mut read =
            Self { statics: false, regulars: false, named: Vec::new(), existence: false };
        for Targeted { plan, .. } in writes {
            read.regulars |= !plan.is_static_only();
            read.statics |= plan.changes_statics();
            match &plan.guard {
                GuardPlan::Always => {}
                GuardPlan::Exists | GuardPlan::NotExists => read.existence = true,
                GuardPlan::Columns(filters) => read.add_named(plan, filters),
            }
        }
        read
    }

    fn add_named(&mut self, plan: &WritePlan, filters: &[Filter]) {
        let mut named: Vec<usize> = filters.iter().flat_map(Filter::positions).copied().collect();
        named.sort_by_key(|position| plan.is_static(*position));
        for position in named {
            if !self.named.contains(&position) {
                self.named.push(position);
            }
        }
    }

    /// Returns `true` if any static column is read.
    fn reads_statics(&self, table: &TableSchema) -> bool {
        let is_static = |position: &usize| table.columns[*position].kind == ColumnKind::Static;
        self.statics || self.named.iter().any(is_static)
    }

    /// Returns the places of the columns that an answer shows.
    fn shown(&self, table: &TableSchema, form: Form) -> Vec<usize> {
        if self.existence {
            return star_order(table);
        }
        let is_key = |position: &usize| {
            let kind = table.columns[*position].kind;
            matches!(kind, ColumnKind::Partition | ColumnKind::Clustering(_))
        };
        let key = star_order(table).into_iter().filter(is_key);
        let key: Vec<usize> = if form == Form::Batch { key.collect() } else { Vec::new() };
        [key, self.named.clone()].concat()
    }

    /// Returns a row's columns; those that were not read are null.
    fn columns(
        &self,
        table: &TableSchema,
        row: &StoredRow,
    ) -> Result<Vec<Option<Bytes>>, CqlError> {
        let mut columns = row::columns(table, row)?;
        for (position, column) in table.columns.iter().enumerate() {
            let is_read = match column.kind {
                ColumnKind::Static => self.statics || self.named.contains(&position),
                ColumnKind::Regular => self.regulars || self.named.contains(&position),
                ColumnKind::Partition | ColumnKind::Clustering(_) => true,
            };
            if !is_read {
                columns[position] = None;
            }
        }
        Ok(columns)
    }
}

/// What conditions have read of a partition.
#[derive(Default)]
struct Judged {
    statics: Option<Arc<RowImage>>,
    /// The rows that conditions judge; `None` for one that does not exist. Empty where conditions
    /// judge static columns alone.
    rows: BTreeMap<CellKey, Option<RowImage>>,
}

/// Judges every `IF`; returns the answer where one does not hold.
pub(super) async fn refuse(
    tx: &Tx,
    writes: &[Targeted<'_>],
    form: Form,
) -> Result<Option<Response>, CqlError> {
    let Some(table) = writes.first().map(|write| &write.plan.table) else { return Ok(None) };
    if writes.iter().any(|write| write.plan.table.id != table.id) {
        return Err(CqlError::invalid("a batch with conditions changes one table only"));
    }
    let read = Read::new(writes);
    let mut partitions: BTreeMap<PartitionKey, Judged> = BTreeMap::new();
    let mut refused = false;
    for write in writes {
        if matches!(write.plan.guard, GuardPlan::Always) {
            continue;
        }
        let (partition, clustering) = judged_key(write)?;
        if !partitions.contains_key(partition) {
            let statics = if read.reads_statics(table) {
                read_statics(tx, table, partition).await?
            } else {
                None
            };
            let judged = Judged { statics, ..Judged::default() };
            partitions.insert(partition.clone(), judged);
        }
        let Some(judged) = partitions.get_mut(partition) else { continue };
        refused |= !judge(tx, write, partition, clustering, judged).await?;
    }
    if !refused {
        return Ok(None);
    }
    let mut found = Vec::new();
    for (partition, judged) in partitions {
        found.extend(shown_rows(tx, table, &partition, judged).await?);
    }
    answer(table, &read, form, &found).map(Some)
}

/// Returns the key of the one row that a conditional statement names; without a clustering key, it
/// changes static columns only.
fn judged_key<'w>(
    write: &'w Targeted<'_>,
) -> Result<(&'w PartitionKey, Option<&'w Bytes>), CqlError> {
    let cells = match &write.targets.clustering {
        Clustering::Cells(cells) => cells.as_slice(),
        Clustering::All | Clustering::Spans(_) => &[],
    };
    match (write.targets.partitions.as_slice(), cells) {
        ([partition], []) => Ok((partition, None)),
        ([partition], [clustering]) => Ok((partition, Some(clustering))),
        _ => Err(CqlError::invalid("IN has no place in a statement with IF")),
    }
}

/// Tells whether the `IF` of a statement holds, and remembers the row that it judges.
async fn judge(
    tx: &Tx,
    write: &Targeted<'_>,
    partition: &PartitionKey,
    clustering: Option<&Bytes>,
    judged: &mut Judged,
) -> Result<bool, CqlError> {
    let Targeted { plan, environment, .. } = write;
    let table = &plan.table;
    let key = CellKey::new(table.id, partition, clustering.cloned().unwrap_or_default());
    let image = match clustering {
        Some(_) if judges_row(plan) => {
            if !judged.rows.contains_key(&key) {
                let image = read(tx, &key).await?;
                judged.rows.insert(key.clone(), image);
            }
            judged.rows.get(&key).cloned().flatten()
        }
        _ => None,
    };
    let exists = if plan.is_static_only() { judged.statics.is_some() } else { image.is_some() };
    match &plan.guard {
        GuardPlan::Always => Ok(true),
        GuardPlan::Exists => Ok(exists),
        GuardPlan::NotExists => Ok(!exists),
        GuardPlan::Columns(filters) => {
            let statics = judged.statics.clone();
            let columns = row::columns(table, &StoredRow { key, image, statics })?;
            for filter in filters {
                if !filter.condition_holds(table, &columns, environment)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
    }
}

/// Returns `true` if the `IF` of a statement depends on a row, not on static columns alone.
fn judges_row(plan: &WritePlan) -> bool {
    match &plan.guard {
        GuardPlan::Always => false,
        GuardPlan::Exists | GuardPlan::NotExists => !plan.is_static_only(),
        GuardPlan::Columns(filters) => {
            let mut named = filters.iter().flat_map(Filter::positions);
            named.any(|position| !plan.is_static(*position))
        }
    }
}

/// Returns the rows of a partition that an answer shows.
async fn shown_rows(
    tx: &Tx,
    table: &TableSchema,
    partition: &PartitionKey,
    judged: Judged,
) -> Result<Vec<StoredRow>, CqlError> {
    let Judged { statics, rows } = judged;
    if rows.is_empty() {
        return Ok(first_row(tx, table, partition, statics).await?.into_iter().collect());
    }
    let existing = rows.into_iter().filter_map(|(key, image)| Some((key, image?)));
    let mut found: Vec<StoredRow> = existing
        .map(|(key, image)| StoredRow { key, image: Some(image), statics: statics.clone() })
        .collect();
    if found.is_empty() && statics.is_some() {
        found.push(StoredRow { key: CellKey::new(table.id, partition, ""), image: None, statics });
    }
    Ok(found)
}

/// Reads the first row of a partition, or its static columns where it has none.
async fn first_row(
    tx: &Tx,
    table: &TableSchema,
    partition: &PartitionKey,
    statics: Option<Arc<RowImage>>,
) -> Result<Option<StoredRow>, CqlError> {
    let access = Access {
        table: table.id,
        partitions: Partitions::Keys(vec![partition.clone()]),
        clustering: Clustering::All,
        reverse: false,
        has_clustering: table.clustering_key().next().is_some(),
        has_statics: statics.is_some(),
    };
    let mut scan = Scan::new(tx, access, false, None).await?;
    let found = scan.next(1).await?;
    if let Some(row) = &found {
        scan.stop(row)?;
    }
    Ok(found)
}

/// Reads the static columns of a partition, and depends on them.
async fn read_statics(
    tx: &Tx,
    table: &TableSchema,
    partition: &PartitionKey,
) -> Result<Option<Arc<RowImage>>, CqlError> {
    Ok(read(tx, &CellKey::new(table.id, partition, "")).await?.map(Arc::new))
}

async fn read(tx: &Tx, cell: &CellKey) -> Result<Option<RowImage>, CqlError> {
    tx.guard_cell(cell)?;
    let Some(entry) = tx.get_cell(cell).await? else { return Ok(None) };
    let image = RowImage::decode(&entry.payload)?;
    Ok(image.is_live().then_some(image))
}

fn answer(
    table: &TableSchema,
    read: &Read,
    form: Form,
    found: &[StoredRow],
) -> Result<Response, CqlError> {
    let mut columns = vec![applied_column(&table.keyspace, &table.name)];
    if found.is_empty() {
        let rows = vec![vec![boolean(false)]];
        return Ok(Response::Rows(Rows { columns, rows, paging_state: None }));
    }
    let shown = read.shown(table, form);
    columns.extend(shown.iter().map(|position| {
        let column = &table.columns[*position];
        ColumnSpec {
            keyspace: table.keyspace.clone(),
            table: table.name.clone(),
            name: column.name.clone(),
            result_type: column.data_type.into(),
        }
    }));
    let row = |stored: &StoredRow| {
        let values = read.columns(table, stored)?;
        let shown = shown.iter().map(|position| values[*position].clone());
        Ok(std::iter::once(boolean(false)).chain(shown).collect())
    };
    let rows = found.iter().map(row).collect::<Result<_, CqlError>>()?;
    Ok(Response::Rows(Rows { columns, rows, paging_state: None }))
}
