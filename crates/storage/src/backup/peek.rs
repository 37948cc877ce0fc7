//! Reads keys of a backup without restoring it.

use std::sync::Arc;

use carnet_base::{KeyRange, Result};

use crate::disk::Disk;
use crate::inspect;
use crate::manifest::FlatRange;
use crate::sstable::RawCursor;
use crate::sstable::cache::Cache;

/// Calls `visit` with the key of every version in a range, table by table; the order of versions is
/// not defined.
///
/// # Errors
///
/// Errors of `visit`; `Corrupted`, `Unsupported` or `Unavailable` if the backup cannot be read.
pub fn for_each_key(
    from: &Arc<dyn Disk>,
    range: &KeyRange,
    mut visit: impl FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    let Some((lower, upper)) = range.byte_bounds() else { return Ok(()) };
    let manifest = inspect::load(&**from)?;
    let within = FlatRange { lower: lower.clone(), upper: upper.clone() };
    for meta in manifest.levels.iter().filter(|table| table.range.overlaps(&within)) {
        let cache = Cache::new(1 << 20);
        let table = meta.open(Arc::clone(from), cache)?;
        let mut cursor = RawCursor::new(Arc::new(table), lower.clone(), Some(upper.clone()));
        cursor.advance_blocking()?;
        while let Some(entry) = cursor.entry() {
            visit(entry.key)?;
            cursor.advance_blocking()?;
        }
    }
    Ok(())
}
