//! Execution of `ORDER BY … ANN OF`: one pass over the permitted rows, with a heap of the keys of the
//! most similar ones so far, and a read of these rows by their keys.
//!
//! The heap has no rows: a row is part of a page, and 1,000 of them would keep as many pages in memory.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use carnet::{CellKey, Tx};
use carnet_base::Bytes;
use carnet_data::RowImage;
use carnet_data::vector::floats;

use super::answer_memory::of_table;
use super::project::project;
use super::row;
use super::scan::fetch_statics;
use super::select_reader::SelectReader;
use super::stored_row::{CellImage, StoredRow};
use crate::access::Access;
use crate::compile::{self, Environment, NearPlan, SelectPlan};
use crate::cql_error::CqlError;
use crate::result::{RowSet, Rows};

/// Maximum number of rows in one read by their keys, and their target size in bytes.
const FETCH_ROWS: usize = 32;
const FETCH_BYTES: usize = 1 << 20;

/// Key of a row with its similarity. The least similar row, and of equal ones the last read, is the
/// greatest.
struct Candidate {
    similarity: f32,
    place: u64,
    key: CellKey,
    /// Whether the row has columns beside the static ones of its partition.
    has_image: bool,
}

impl Candidate {
    fn bytes(&self) -> usize {
        size_of::<Self>() + self.key.as_bytes().len()
    }
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
        let is_less = |worst: &Candidate| similarity.total_cmp(&worst.similarity).is_le();
        if nearest.len() == rows_max && nearest.peek().is_some_and(is_less) {
            continue;
        }
        // A copy: the key is a part of its page.
        let key = CellKey::from_bytes(Bytes::copy_from_slice(stored.key.as_bytes()))?;
        let found = Candidate { similarity, place, key, has_image: stored.image.is_some() };
        bytes += found.bytes();
        nearest.push(found);
        if nearest.len() > rows_max
            && let Some(dropped) = nearest.pop()
        {
            bytes -= dropped.bytes();
        }
        reader.charge(bytes).map_err(|error| of_table(&plan.table, &error))?;
    }
    let nearest = nearest.into_sorted_vec();
    let rows = Box::pin(read(tx, plan, &nearest, environment, (&mut reader, bytes))).await?;
    Ok(Rows { columns: plan.columns.clone(), rows, paging_state: None })
}

/// Reads rows by their keys, and returns the values of the outputs.
async fn read(
    tx: &Tx,
    plan: &SelectPlan,
    mut rest: &[Candidate],
    environment: &Environment<'_>,
    (reader, before): (&mut SelectReader<'_>, usize),
) -> Result<RowSet, CqlError> {
    let access = plan.filter.access(&plan.table, false, environment)?;
    let mut rows = RowSet::default();
    while !rest.is_empty() {
        let next = &rest[..rest.len().min(FETCH_ROWS)];
        let keys: Vec<CellKey> = next.iter().map(|found| found.key.clone()).collect();
        let cells = tx.get_first_cells(&keys, FETCH_BYTES).await?;
        rest = &rest[cells.len()..];
        for (found, cell) in next.iter().zip(cells) {
            let payload = cell.map(|cell| cell.payload);
            let stored = stored_row(tx, &access, found, payload).await?;
            let columns = row::columns(&plan.table, &stored)?;
            let of_row = (&stored, columns.as_slice());
            project(tx, plan, of_row, environment, (&mut *reader, before), &mut rows).await?;
            reader
                .charge(before + rows.encoded().len())
                .map_err(|error| of_table(&plan.table, &error))?;
        }
    }
    Ok(rows)
}

/// Returns the row of a cell, with the static columns of its partition.
async fn stored_row(
    tx: &Tx,
    access: &Access,
    found: &Candidate,
    payload: Option<Bytes>,
) -> Result<StoredRow, CqlError> {
    let image = match payload.filter(|_| found.has_image) {
        Some(payload) => RowImage::of(tx, &access.kept, payload)?,
        None => None,
    };
    let statics = fetch_statics(tx, access, &found.key.partition()).await?;
    Ok(StoredRow { key: found.key.clone(), image, statics })
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
