//! What a conditional statement answers.
//!
//! The answer is Cassandra's, which mappers of drivers read by the names of its columns. It begins
//! with `[applied]`; where the statement was not applied:
//!
//! * A single statement adds the columns that its `IF` names; one with `IF [NOT] EXISTS` adds all
//!   columns. A batch, even of one statement, adds the primary key and the columns of all
//!   conditions, or all columns where one condition is `IF [NOT] EXISTS`.
//! * Every judged row that exists is a row of the answer, in the order of the table. Conditions on
//!   static columns alone judge no row: the answer shows the first row of the partition.
//! * Where no row exists, static columns that were read are a row of their own. A static column is
//!   read where a condition names it or a conditional statement changes any; otherwise it is shown
//!   as null.

use std::collections::BTreeMap;
use std::sync::Arc;

use carnet::base::{Bytes, RowImage};
use carnet::catalog::{ColumnKind, TableSchema};
use carnet::{CellKey, DataType, PartitionKey, Tx, Value};

use super::CqlError;
use super::condition::Kind;
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
pub(super) struct Read {
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
    pub(super) fn new(writes: &[Targeted<'_>]) -> Self {
        let mut read =
            Self { statics: false, regulars: false, named: Vec::new(), existence: false };
        for Targeted { plan, .. } in writes {
            // Regular columns are read where any statement changes rows, static columns only
            // where one with a condition changes them.
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

    /// Returns `true` if a static column that is read has a value.
    pub(super) fn finds_statics(&self, table: &TableSchema, statics: &RowImage) -> bool {
        table.columns.iter().enumerate().any(|(position, column)| {
            column.kind == ColumnKind::Static
                && (self.statics || self.named.contains(&position))
                && statics.value(column.id).is_some()
        })
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
pub(super) struct Judged {
    pub(super) statics: Option<Arc<RowImage>>,
    /// The rows that conditions judge; `None` for one that does not exist. Empty where conditions
    /// judge static columns alone.
    pub(super) rows: BTreeMap<CellKey, Option<RowImage>>,
    /// What was asked of each row; the static columns are that of the empty clustering key.
    pub(super) kinds: BTreeMap<CellKey, Kind>,
}

/// Returns the rows of a partition that an answer shows.
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

/// Answers that a conditional statement was not applied.
pub(super) fn answer(
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
