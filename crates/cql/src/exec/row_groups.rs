//! Statements of a batch that change one row, made together: the row is read and written once.
//!
//! A thousand statements that each remove an element of a list would otherwise copy the list a
//! thousand times. Statements are grouped whose values do not depend on the row: made in their order,
//! they have the same effect as one by one. The others, and deletions, are made alone, after the groups
//! of the rows that they read or change. The order of changes of different rows has no effect.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;

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
    /// `None` for a group that was made.
    groups: Vec<Option<RowGroup<'w>>>,
    /// Places of the groups that are not made, by their row.
    places: HashMap<(TableId, &'w PartitionKey), Places<'w>>,
}

/// Places of the groups of a partition, by clustering key; the static columns have none.
type Places<'w> = BTreeMap<Option<&'w Bytes>, usize>;

/// Row of a group; without a clustering key, the static columns of the partition.
type GroupRow<'w> = (TableId, &'w PartitionKey, Option<&'w Bytes>);

impl<'w> RowGroups<'w> {
    /// Creates the groups of a number of statements.
    pub(super) fn new(writes: usize) -> Self {
        Self { is_alone: writes == 1, groups: Vec::new(), places: HashMap::new() }
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
        let row = (plan.table.id, group.partition, group.clustering);
        // A change that leaves later values is made on the changes before it.
        if group.writes[0].competes || !is_grouped(plan) {
            let statics = (row.0, row.1, None);
            self.make_row(tx, &statics).await?;
            self.make_row(tx, &row).await?;
            return change_row(tx, &group).await;
        }
        group.columns = columns(plan);
        let known = self.places.get(&(row.0, row.1)).and_then(|places| places.get(&row.2));
        let Some(known) = known.and_then(|place| self.groups[*place].as_mut()) else {
            self.push(row, group);
            return Ok(());
        };
        if let Some(later) = known.add(group) {
            self.make_row(tx, &row).await?;
            self.push(row, later);
        }
        Ok(())
    }

    fn push(&mut self, (table, partition, clustering): GroupRow<'w>, group: RowGroup<'w>) {
        self.places.entry((table, partition)).or_default().insert(clustering, self.groups.len());
        self.groups.push(Some(group));
    }

    /// Makes the changes of the rows that a statement deletes, before it deletes them.
    pub(super) async fn make_deleted(
        &mut self,
        tx: &Tx,
        write: &'w Targeted<'w>,
    ) -> Result<(), CqlError> {
        let table = write.plan.table.id;
        for partition in &write.targets.partitions {
            if let Clustering::Cells(cells) = &write.targets.clustering {
                for clustering in cells {
                    self.make_row(tx, &(table, partition, Some(clustering))).await?;
                }
                continue;
            }
            let Some(places) = self.places.get_mut(&(table, partition)) else { continue };
            for place in take_deleted(places, &write.targets.clustering) {
                self.make_at(tx, place).await?;
            }
        }
        Ok(())
    }

    async fn make_row(
        &mut self,
        tx: &Tx,
        (table, partition, clustering): &GroupRow<'w>,
    ) -> Result<(), CqlError> {
        let places = self.places.get_mut(&(*table, *partition));
        match places.and_then(|places| places.remove(clustering)) {
            Some(place) => self.make_at(tx, place).await,
            None => Ok(()),
        }
    }

    async fn make_at(&mut self, tx: &Tx, place: usize) -> Result<(), CqlError> {
        match self.groups[place].take() {
            Some(group) => change_row(tx, &group).await,
            None => Ok(()),
        }
    }

    /// Makes the changes of all groups that are left.
    pub(super) async fn make(mut self, tx: &Tx) -> Result<(), CqlError> {
        let mut slice = tx.time_slice();
        for place in 0..self.groups.len() {
            if let Some(slice) = &mut slice {
                slice.check().await;
            }
            self.make_at(tx, place).await?;
        }
        Ok(())
    }
}

/// Takes the places of the groups whose rows a deletion of ranges has.
fn take_deleted<'w>(places: &mut Places<'w>, deleted: &'w Clustering) -> Vec<usize> {
    let Clustering::Spans(spans) = deleted else {
        return std::mem::take(places).into_values().collect();
    };
    let mut taken = Vec::new();
    for (lower, upper) in spans {
        // The static columns come before all rows, and are no part of a range.
        let lower = match lower {
            Bound::Unbounded => Bound::Excluded(None),
            lower => lower.as_ref().map(Some),
        };
        let is_empty = matches!((lower, upper), (Bound::Included(Some(from)) | Bound::Excluded(Some(from)), Bound::Included(to) | Bound::Excluded(to)) if from >= to);
        if is_empty {
            continue;
        }
        let range = (lower, upper.as_ref().map(Some));
        let rows: Vec<_> = places.range(range).map(|(row, _)| *row).collect();
        taken.extend(rows.into_iter().filter_map(|row| places.remove(&row)));
    }
    taken
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
