//! Encoding of claims and their ranges.
//!
//! The slot of a claim is not sent: it has a meaning only in the process that assigned it. Nor are
//! the hashes of written cells: the leader computes them, so that keys and hashes agree.

use std::ops::Bound;

use bytes::{BufMut, Bytes, BytesMut};
use carnet_base::{CellHash, CellKey, Error, KeyRange, Result, TableId};
use carnet_store::{Cells, Claim, ReadSet, Slot};

use super::fields::Fields;
use super::malformed::Malformed;

const UNBOUNDED: u8 = 0;
const INCLUDED: u8 = 1;
const EXCLUDED: u8 = 2;

const POINT_BYTES: usize = 8;
/// A table and two tags.
const RANGE_BYTES_MIN: usize = 6;
/// A length, and a cell key without a partition key.
const CELL_BYTES_MIN: usize = LENGTH_BYTES + 14;
const LENGTH_BYTES: usize = 4;
const TABLE_BYTES: usize = 4;

/// Rejects a claim that decoders would reject.
pub(super) fn check(claim: &Claim) -> Result<()> {
    if claim.cells.keys().is_sorted_by(|before, key| before < key) {
        return Ok(());
    }
    Err(Error::invalid("a commit must write its cells in key order, each once"))
}

pub(super) fn put(claim: &Claim, out: &mut BytesMut) {
    // Spilled cells do not exist on a cluster, and the leader checks the writes of every claim, so
    // neither is sent.
    let Claim { read, start, slot: _, reads, cells, checks_writes: _, drops, .. } = claim;
    out.reserve(
        32 + reads.points.len() * POINT_BYTES + cells.len() * LENGTH_BYTES + cells.key_bytes(),
    );
    out.put_u64(read.get());
    out.put_u64(start.get());
    put_count(reads.points.len(), out);
    for point in &reads.points {
        out.put_u64(point.0);
    }
    put_count(reads.ranges.len(), out);
    for range in &reads.ranges {
        out.put_u32(range.table.0);
        put_bound(&range.lower, out);
        put_bound(&range.upper, out);
    }
    put_count(cells.len(), out);
    for key in cells.keys() {
        put_key(key, out);
    }
    put_count(drops.len(), out);
    for table in drops {
        out.put_u32(table.0);
    }
    out.put_u8(claim.has_deltas.into());
}

/// A list or a key of 2³² never fits a frame: the limit on the frame's length refuses it, whatever
/// count is written here.
fn put_count(count: usize, out: &mut BytesMut) {
    out.put_u32(u32::try_from(count).unwrap_or(u32::MAX));
}

fn put_key(key: &[u8], out: &mut BytesMut) {
    put_count(key.len(), out);
    out.put_slice(key);
}

fn put_bound(bound: &Bound<CellKey>, out: &mut BytesMut) {
    let (tag, key) = match bound {
        Bound::Unbounded => return out.put_u8(UNBOUNDED),
        Bound::Included(key) => (INCLUDED, key),
        Bound::Excluded(key) => (EXCLUDED, key),
    };
    out.put_u8(tag);
    put_key(key.as_bytes(), out);
}

pub(super) fn take(fields: &mut Fields) -> Result<Claim, Malformed> {
    let (read, start) = (fields.timestamp()?, fields.timestamp()?);
    let mut reads = ReadSet::default();
    let points = fields.count(POINT_BYTES)?;
    reads.points.reserve_exact(points);
    for _ in 0..points {
        reads.points.push(CellHash(fields.u64()?));
    }
    for _ in 0..fields.count(RANGE_BYTES_MIN)? {
        reads.ranges.push(take_range(fields)?);
    }
    let mut cells: Vec<CellKey> = Vec::new();
    for _ in 0..fields.count(CELL_BYTES_MIN)? {
        let key = cell_key(fields.bytes()?)?;
        if cells.last().is_some_and(|before| *before >= key) {
            return Err(Malformed("cells of a claim that are not in key order"));
        }
        cells.push(key);
    }
    let cells = Cells::from_sorted(cells.iter());
    let mut drops = Vec::new();
    for _ in 0..fields.count(TABLE_BYTES)? {
        drops.push(TableId(fields.u32()?));
    }
    let has_deltas = fields.truth()?;
    let (slot, checks_writes, beyond) = (Slot::default(), true, Vec::new());
    Ok(Claim { read, start, slot, reads, cells, checks_writes, drops, beyond, has_deltas })
}

fn take_range(fields: &mut Fields) -> Result<KeyRange, Malformed> {
    let table = TableId(fields.u32()?);
    let (lower, upper) = (take_bound(fields, table)?, take_bound(fields, table)?);
    Ok(KeyRange { table, lower, upper })
}

fn take_bound(fields: &mut Fields, table: TableId) -> Result<Bound<CellKey>, Malformed> {
    let tag = fields.u8()?;
    if tag == UNBOUNDED {
        return Ok(Bound::Unbounded);
    }
    // Copied, because a range may be kept for long and would keep the whole frame in memory.
    let key = cell_key(Bytes::copy_from_slice(&fields.bytes()?))?;
    if key.table() != table {
        return Err(Malformed("a range that ends in another table"));
    }
    match tag {
        INCLUDED => Ok(Bound::Included(key)),
        EXCLUDED => Ok(Bound::Excluded(key)),
        _ => Err(Malformed("a bound of an unknown kind")),
    }
}

fn cell_key(bytes: Bytes) -> Result<CellKey, Malformed> {
    CellKey::from_bytes(bytes).map_err(|_| Malformed("bytes that are not a cell key"))
}
