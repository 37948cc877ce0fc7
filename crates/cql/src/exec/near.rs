//! Execution of `ORDER BY … ANN OF`: one pass over the permitted rows, with a heap of the most
//! similar ones so far.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use carnet::Tx;
use carnet::base::Bytes;
use carnet::base::vector::floats;

use super::project::project;
use super::row::held_bytes;
use super::select_reader::{SelectReader, of_table};
use super::stored_row::StoredRow;
use crate::compile::{self, Environment, NearPlan, SelectPlan};
use crate::cql_error::CqlError;
use crate::result::{RowSet, Rows};

/// A row with its similarity. The least similar row, and of equal ones the last read, is the greatest.
struct Candidate {
    similarity: f32,
    place: u64,
    stored: StoredRow,
    columns: Vec<Option<Bytes>>,
}

/// Runs a `SELECT` with `ANN OF`. Its result has no pages.
pub(super) async fn run(
    tx: &Tx,
    plan: &SelectPlan,
    near: &NearPlan,
    environment: &Environment<'_>,
    mut reader: SelectReader<'_>,
) -> Result<Rows, CqlError> {
    let limit = compile::limit_value(plan.limit.as_ref(), environment)?;
    let rows_max = NearPlan::check_limit(limit)?;
    let wanted = near.vector(environment)?;
    let mut nearest = BinaryHeap::new();
    let mut bytes = 0;
    let mut place = 0;
    while let Some((stored, columns)) = reader.next(usize::MAX).await? {
        let Some(vector) = &columns[near.position] else { continue };
        let similarity = near.similarity.of(&wanted, &floats(vector));
        // A vector of zeros has no direction: it is the least similar one.
        let similarity = if similarity.is_nan() { f32::NEG_INFINITY } else { similarity };
        place += 1;
        bytes += held_bytes(&columns);
        nearest.push(Candidate { similarity, place, stored, columns });
        if nearest.len() > rows_max
            && let Some(dropped) = nearest.pop()
        {
            bytes -= held_bytes(&dropped.columns);
        }
        reader.charge(bytes).map_err(|error| of_table(plan, &error))?;
    }
    let mut rows = RowSet::default();
    for row in nearest.into_sorted_vec() {
        let of_row = (&row.stored, row.columns.as_slice());
        project(tx, plan, of_row, environment, (&mut reader, bytes), &mut rows).await?;
    }
    Ok(Rows { columns: plan.columns.clone(), rows, paging_state: None })
}

impl Ord for Candidate {
    fn cmp(&self, other: &Self) -> Ordering {
        other.similarity.total_cmp(&self.similarity).then(self.place.cmp(&other.place))
    }
}

impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Candidate {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Candidate {}
