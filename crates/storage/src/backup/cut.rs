//! Rewrites a table without versions after a timestamp.

use std::sync::Arc;

use bytes::Bytes;
use carnet_base::{Result, Timestamp};

use crate::disk::Disk;
use crate::manifest::{TableMeta, Tally, VersionKind};
use crate::options::TableOptionsOf;
use crate::sstable::cache::Cache;
use crate::sstable::{Builder, RangeTombstone, RawCursor};

/// Rewrites the table on another disk, with the same number and level, without versions and range
/// tombstones that committed after `as_of`. `None` if nothing remains.
pub(super) fn cut(
    from: &Arc<dyn Disk>,
    table: &TableMeta,
    as_of: Timestamp,
    to: &Arc<dyn Disk>,
    TableOptionsOf(of): TableOptionsOf,
) -> Result<Option<TableMeta>> {
    // Each block is read once, so a small cache suffices.
    let source = Arc::new(table.open(Arc::clone(from), Cache::new(1 << 20))?);
    let mut builder = Builder::begin(Arc::clone(to), table.number, move |table| of(table))?;
    let mut tally = Tally::default();
    let mut cursor = RawCursor::new(Arc::clone(&source), Bytes::new(), None);
    cursor.advance_blocking()?;
    while let Some(entry) = cursor.entry() {
        if entry.commit <= as_of {
            // Deltas count like values: the next compaction of the table corrects it.
            let kind = VersionKind::whole(entry.payload);
            tally.cell(entry.key, entry.commit, entry.expiry, kind);
            builder.push(&entry)?;
        }
        cursor.advance_blocking()?;
    }
    for tombstone in source.range_tombstones().iter().filter(|range| range.commit <= as_of) {
        let RangeTombstone { lower, upper, commit, .. } = &tombstone;
        tally.range_tombstone(lower, upper, *commit);
        builder.push_range_tombstone(&tombstone)?;
    }
    let Some(built) = builder.finish()? else { return Ok(None) };
    Ok(tally.finish(built.number, table.level, built.bytes))
}
