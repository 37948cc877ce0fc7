//! Execution of `GROUP BY`: one row for each run of rows with the same values.
//!
//! Groups are of leading columns of the primary key, so the rows of a group follow each other. A
//! group is concluded when the next one begins: pages and limits count groups, and a page ends
//! between two of them.

use carnet::{CellKey, Tx};
use carnet_base::Bytes;

use super::aggregates::Aggregates;
use super::answer_memory::of_table;
use super::paging::PagingState;
use super::select_reader::{PageBounds, Position, SelectReader, too_large};
use crate::compile::{self, Environment, SelectPlan};
use crate::cql_error::CqlError;
use crate::result::{RowSet, Rows};

/// A group of rows.
struct Group {
    /// Values of the grouped columns.
    values: Vec<Option<Bytes>>,
    aggregates: Aggregates,
    /// Position of the last row. The row that ends the group is read before the group is returned.
    last: Position,
}

/// Limits of the groups that are returned.
struct Limits {
    remaining: Option<u32>,
    per_partition: Option<u32>,
    in_partition: u32,
    /// Last row of the last group that was returned.
    last: Option<CellKey>,
}

impl Limits {
    /// Returns `true` if the partition of the last group has returned its maximum number of groups.
    fn is_partition_full(&self) -> bool {
        self.per_partition.is_some_and(|limit| self.in_partition >= limit)
    }

    /// Counts a group, which ends with a row.
    fn count(&mut self, last: &CellKey) {
        let is_same = self.last.as_ref().is_some_and(|before| before.same_partition(last));
        self.in_partition = if is_same { self.in_partition.saturating_add(1) } else { 1 };
        self.last = Some(last.clone());
        self.remaining = self.remaining.map(|remaining| remaining.saturating_sub(1));
    }
}

/// Runs a `SELECT` with `GROUP BY`, from the group after `state` on.
pub(super) async fn run(
    tx: &Tx,
    plan: &SelectPlan,
    environment: &Environment<'_>,
    mut reader: SelectReader<'_>,
    bounds: PageBounds,
    state: Option<&PagingState>,
) -> Result<Rows, CqlError> {
    let limit = compile::limit_value(plan.limit.as_ref(), environment)?;
    let mut limits = Limits {
        remaining: state.map_or(limit, |state| state.remaining),
        per_partition: compile::limit_value(plan.per_partition_limit.as_ref(), environment)?,
        in_partition: state.map_or(0, |state| state.in_partition),
        last: state.map(|state| CellKey::new(plan.table.id, &state.partition, &state.clustering)),
    };
    if limits.is_partition_full() {
        reader.skip_partition();
    }
    let (mut rows, mut paging_state) = (RowSet::default(), None);
    let mut group: Option<Group> = None;
    loop {
        let next = reader.next(usize::MAX).await?;
        let values = next.as_ref().map(|(_, columns)| grouped(plan, columns));
        let is_over = group.as_ref().is_some_and(|group| values.as_ref() != Some(&group.values));
        if let Some(done) = group.take_if(|_| is_over) {
            let last = done.conclude(plan, environment, &reader, &mut rows)?;
            limits.count(&last.row);
            let has_memory = match reader.charge(rows.encoded().len()) {
                Err(error) if !bounds.is_paged => return Err(of_table(&plan.table, &error)),
                grown => grown.is_ok(),
            };
            if limits.remaining == Some(0) {
                if let Some((stored, _)) = &next {
                    reader.stop(stored)?;
                }
                break;
            }
            let is_skipped = limits.is_partition_full()
                && next.as_ref().is_some_and(|(stored, _)| stored.key.same_partition(&last.row));
            if is_skipped {
                reader.skip_partition();
            }
            if rows.len() >= bounds.rows || rows.encoded().len() >= bounds.bytes || !has_memory {
                if !bounds.is_paged {
                    return Err(too_large());
                }
                let has_more = match is_skipped {
                    true => reader.next(1).await?.is_some(),
                    false => next.is_some(),
                };
                if has_more {
                    paging_state = Some(limits.state(&reader, &last, tx).encode());
                }
                break;
            }
            if is_skipped {
                continue;
            }
        }
        let (Some((stored, columns)), Some(values)) = (next, values) else { break };
        let last = reader.position(stored.key.clone());
        let before = rows.encoded().len();
        let group = group.get_or_insert_with(|| Group {
            values,
            aggregates: Aggregates::new(plan),
            last: last.clone(),
        });
        group.last = last;
        let (row, given) = ((&stored, columns.as_slice()), (&mut reader, before));
        group.aggregates.add((tx, plan), row, environment, given).await?;
    }
    Ok(Rows { columns: plan.columns.clone(), rows, paging_state })
}

/// Returns the values of the grouped columns of a row.
fn grouped(plan: &SelectPlan, columns: &[Option<Bytes>]) -> Vec<Option<Bytes>> {
    let positions = plan.group.as_deref().unwrap_or_default();
    positions.iter().map(|position| columns[*position].clone()).collect()
}

impl Group {
    /// Appends the group's row to the result, and returns the position of its last row.
    fn conclude(
        self,
        plan: &SelectPlan,
        environment: &Environment<'_>,
        reader: &SelectReader<'_>,
        rows: &mut RowSet,
    ) -> Result<Position, CqlError> {
        reader.charge_row(rows.encoded().len(), self.aggregates.bytes())?;
        self.aggregates.conclude(plan, environment, rows)?;
        Ok(self.last)
    }
}

impl Limits {
    /// Returns the state of a page that ends with a group: its numbers count groups.
    fn state(&self, reader: &SelectReader<'_>, last: &Position, tx: &Tx) -> PagingState {
        PagingState {
            remaining: self.remaining,
            in_partition: self.in_partition,
            ..reader.state(last, tx)
        }
    }
}
