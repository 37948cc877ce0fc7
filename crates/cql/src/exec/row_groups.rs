//! Statements of a batch that change one row, made together: the row is read and written once.
//!
//! A thousand statements that each remove an element of a list would otherwise copy the list a
//! thousand times. Statements are grouped whose values do not depend on the row: made in their order,
//! they have the same effect as one by one. The others are made alone, after the groups before them.

use std::collections::HashMap;

use carnet::{PartitionKey, Tx};
use carnet_base::{Bytes, TableId};

use super::row_change::{RowGroup, change_row};
use super::targets::Targeted;
use crate::access::Clustering;
use crate::compile::{Assigned, Change, WritePlan};
use crate::cql_error::CqlError;

/// Groups that are not made yet.
pub(super) struct RowGroups<'w> {
    /// Whether there is one statement only, which is made at once.
    is_alone: bool,
    groups: Vec<RowGroup<'w>>,
    /// Groups by their row.
    by_row: HashMap<(TableId, &'w PartitionKey, Option<&'w Bytes>), usize>,
}

impl<'w> RowGroups<'w> {
    /// Creates the groups of a number of statements.
    pub(super) fn new(writes: usize) -> Self {
        Self { is_alone: writes == 1, groups: Vec::new(), by_row: HashMap::new() }
    }

    /// Adds a statement.
    pub(super) async fn add(&mut self, tx: &Tx, write: &'w Targeted<'w>) -> Result<(), CqlError> {
        let targets = &write.targets;
        for partition in &targets.partitions {
            if write.plan.is_static_only() {
                self.add_row(tx, RowGroup::new(write, partition, None)).await?;
                continue;
            }
            let Clustering::Cells(rows) = &targets.clustering else {
                return Err(CqlError::invalid("the statement names no rows"));
            };
            for clustering in rows {
                let group = RowGroup::new(write, partition, Some(clustering));
                self.add_row(tx, group).await?;
            }
        }
        Ok(())
    }

    async fn add_row(&mut self, tx: &Tx, mut group: RowGroup<'w>) -> Result<(), CqlError> {
        let plan = group.writes[0].plan;
        if self.is_alone {
            return change_row(tx, &group).await;
        }
        // A change that leaves later values is made on the changes before it.
        if group.writes[0].competes || !is_grouped(plan) {
            self.make(tx).await?;
            return change_row(tx, &group).await;
        }
        group.columns = columns(plan);
        let row = (plan.table.id, group.partition, group.clustering);
        let Some(known) = self.by_row.get(&row) else {
            self.by_row.insert(row, self.groups.len());
            self.groups.push(group);
            return Ok(());
        };
        if let Some(later) = self.groups[*known].add(group) {
            self.make(tx).await?;
            self.by_row.insert(row, 0);
            self.groups.push(later);
        }
        Ok(())
    }

    /// Makes the changes of all groups.
    pub(super) async fn make(&mut self, tx: &Tx) -> Result<(), CqlError> {
        self.by_row.clear();
        let mut slice = tx.time_slice();
        for group in self.groups.drain(..) {
            if let Some(slice) = &mut slice {
                slice.check().await;
            }
            change_row(tx, &group).await?;
        }
        Ok(())
    }
}

/// Returns `true` if a statement may be made together with others: its values depend neither on the
/// row nor on the order of changes of different rows.
fn is_grouped(plan: &WritePlan) -> bool {
    let reads_columns = match &plan.change {
        Change::Set { columns, .. } => columns.iter().any(|(_, it)| it.reads_columns()),
        Change::Add(_) | Change::Clear(_) => false,
        Change::Delete => true,
    };
    !reads_columns && (plan.is_static_only() || !plan.changes_statics())
}

/// Returns the columns that a statement changes, by position, and whether elements of them are.
fn columns(plan: &WritePlan) -> HashMap<usize, bool> {
    match &plan.change {
        Change::Set { columns, .. } => columns
            .iter()
            .map(|(position, it)| (*position, matches!(it, Assigned::Elements(..))))
            .collect(),
        Change::Add(columns) => columns.iter().map(|(position, _)| (*position, false)).collect(),
        Change::Clear(columns) => columns.iter().map(|position| (*position, false)).collect(),
        Change::Delete => HashMap::new(),
    }
}
