//! Results of conditional statements.
//!
//! The result has Cassandra's form, because object mappers of drivers read it by column name. It
//! begins with `[applied]`. If the statement was not applied:
//!
//! * A single statement adds the columns that its `IF` names; one with `IF [NOT] EXISTS` adds all
//!   columns. A batch, even of one statement, adds the primary key and the columns of all
//!   conditions, or all columns where one condition is `IF [NOT] EXISTS`.
//! * Every evaluated row that exists is a row of the result, in the order of the table. Conditions
//!   on static columns only evaluate no row: the result shows the first row of the partition.
//! * If no row exists, static columns that were read form a row of their own. Static columns are
//!   read if a condition names them or a conditional statement changes one; otherwise they are
//!   shown as null.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::LazyLock;

use carnet::catalog::{ColumnKind, TableSchema};
use carnet::{CellKey, DataType, PartitionKey, Tx, Value};
use carnet_base::Bytes;
use carnet_data::RowImage;

use super::condition_kind::Kind;
use super::row;
use super::scan::Scan;
use super::stored_row::StoredRow;
use super::targets::Targeted;
use crate::access::{Access, Clustering, Partitions};
use crate::compile::{Filter, GuardPlan, WritePlan, star_order};
use crate::cql_error::CqlError;
use crate::result::{ColumnSpec, Columns, Response, Rows};

/// Name of the column that reports whether a conditional statement was applied.
const APPLIED: &str = "[applied]";

/// Returns the result of a conditional statement that was applied.
pub(crate) fn applied() -> Response {
    let columns = applied_columns();
    Response::Rows(Rows { columns, rows: vec![vec![boolean(true)]].into(), paging_state: None })
}

/// Returns the columns of a result that reports only whether the statement was applied.
pub(super) fn applied_columns() -> Columns {
    static APPLIED_ONLY: LazyLock<Columns> = LazyLock::new(|| vec![applied_column("", "")].into());
    APPLIED_ONLY.clone()
}

pub(crate) fn applied_column(keyspace: &str, table: &str) -> ColumnSpec {
    ColumnSpec {
        keyspace: keyspace.to_owned(),
        table: table.to_owned(),
        name: APPLIED.to_owned(),
        data_type: DataType::Boolean,
    }
}

pub(crate) fn boolean(value: bool) -> Option<Bytes> {
    Some(Value::Boolean(value).serialize())
}

/// Whether a statement is single or part of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Single,
    Batch,
}

/// Columns of a table that the conditions read and that the result shows.
pub(super) struct Read {
    /// Whether every static column is read, not only the ones named by a condition.
    statics: bool,
    /// Whether every regular column is read, not only the ones named by a condition.
    regulars: bool,
    /// Positions of the columns that conditions name; those of one statement are in the order of
    /// its `IF`, regular columns first.
    named: Vec<usize>,
    /// Whether a condition is `IF EXISTS` or `IF NOT EXISTS`.
    existence: bool,
}

impl Read {
    pub(super) fn new(writes: &[Targeted<'_>]) -> Self {
        let mut read =
            Self { statics: false, regulars: false, named: Vec::new(), existence: false };
        for Targeted { plan, .. } in writes {
            // Regular columns are read if any statement changes rows, static columns only if a
            // conditional statement changes them.
            read.regulars |= !plan.is_static_only();
            match &plan.guard {
                GuardPlan::Always => continue,
                GuardPlan::Exists | GuardPlan::NotExists => read.existence = true,
                GuardPlan::Columns(filters) => read.add_named(plan, filters),
            }
            read.statics |= plan.changes_statics();
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
    pub(super) fn reads_statics(&self, table: &TableSchema) -> bool {
        let is_static = |position: &usize| table.columns[*position].kind == ColumnKind::Static;
        self.statics || self.named.iter().any(is_static)
    }

    /// Returns `true` if one of the static columns that are read has a value.
    pub(super) fn finds_statics(&self, table: &TableSchema, statics: &RowImage) -> bool {
        table.columns.iter().enumerate().any(|(position, column)| {
            column.kind == ColumnKind::Static
                && (self.statics || self.named.contains(&position))
                && statics.has(column.id)
        })
    }

    /// Returns the positions of the columns that the result shows.
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

    /// Returns a row's columns; columns that were not read are null.
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

/// Rows and static columns of a partition that conditions have read.
#[derive(Default)]
pub(super) struct Judged {
    pub(super) statics: Option<Arc<RowImage>>,
    /// Rows that conditions evaluate; `None` for a missing row. Empty if conditions evaluate static
    /// columns only.
    pub(super) rows: BTreeMap<CellKey, Option<RowImage>>,
    /// Kind of the conditions on each row; static columns have the empty clustering key.
    pub(super) kinds: BTreeMap<CellKey, Kind>,
}

/// Returns the rows of a partition that the result shows.
pub(super) async fn shown_rows(
    tx: &Tx,
    table: &TableSchema,
    partition: &PartitionKey,
    judged: Judged,
) -> Result<Vec<StoredRow>, CqlError> {
    let Judged { statics, rows, .. } = judged;
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

/// Reads the first row of a partition, or its static columns if it has no row.
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
        kept: table.kept_columns(),
    };
    let mut scan = Scan::new(tx, access, false, None).await?;
    let found = scan.next(1).await?;
    if let Some(row) = &found {
        scan.stop(row)?;
    }
    Ok(found)
}

/// Returns the result of a conditional statement that was not applied.
pub(super) fn answer(
    table: &TableSchema,
    read: &Read,
    form: Form,
    found: &[StoredRow],
) -> Result<Response, CqlError> {
    let mut columns = vec![applied_column(&table.keyspace, &table.name)];
    if found.is_empty() {
        let rows = vec![vec![boolean(false)]].into();
        return Ok(Response::Rows(Rows { columns: columns.into(), rows, paging_state: None }));
    }
    let shown = read.shown(table, form);
    columns.extend(shown.iter().map(|position| {
        let column = &table.columns[*position];
        ColumnSpec {
            keyspace: table.keyspace.clone(),
            table: table.name.clone(),
            name: column.name.clone(),
            data_type: column.data_type.clone(),
        }
    }));
    let row = |stored: &StoredRow| {
        let values = read.columns(table, stored)?;
        let shown = shown.iter().map(|position| values[*position].clone());
        Ok(std::iter::once(boolean(false)).chain(shown).collect())
    };
    let rows = found.iter().map(row).collect::<Result<_, CqlError>>()?;
    Ok(Response::Rows(Rows { columns: columns.into(), rows, paging_state: None }))
}
