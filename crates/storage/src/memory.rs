//! One number for memory, and who has which part of it.
//!
//! ```text
//!  memory_bytes ─┬─ 5/8  memtables: flush_bytes × (memtables_waiting_max + 2)
//!                ├─ 1/8  cache of blocks, index pages and filters
//!                ├─ 1/8  reads that wait for the disk (permits)
//!                └─ 1/8  the rest: compaction's and flush's buffers, the log's records under way
//! ```
//!
//! The parts are fixed: none borrows from another, so that no load can take the memory that another
//! one was measured with. A memtable is flushed when it has its part of the memtables' part;
//! beside the active one, those that wait for their flush and the room into which the active one
//! may grow meanwhile are counted in (at least 4 MiB, so that a tiny budget is exceeded by that).
//! The first three parts are enforced. The fourth is room that is left, not a limit: what compaction
//! takes depends on the size of blocks and the number of tables that it merges, not on the load.
//!
//! Not in it: what open tables keep beside the cache (`table_memory_bytes` in the metrics), which
//! grows with the data.

use carnet_base::{Error, Result};

use crate::memtable::MEMTABLE_BYTES_MAX;
use crate::options::Options;

/// Less than this leaves no part of a useful size.
const BYTES_MIN: usize = 1 << 20;

/// What each part may take, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Budget {
    /// One memtable.
    pub(crate) flush: usize,
    pub(crate) cache: usize,
    pub(crate) reads: usize,
}

impl Budget {
    /// Divides `memory_bytes`; what the options say of a part counts more.
    ///
    /// # Errors
    ///
    /// `Invalid` where that is too little, or more than a memtable can hold.
    pub(crate) fn of(options: &Options) -> Result<Self> {
        let all = options.memory_bytes;
        if all < BYTES_MIN {
            return Err(Error::invalid(format!(
                "memory_bytes is {all}: a database needs at least {BYTES_MIN}"
            )));
        }
        if options.flush_bytes > MEMTABLE_BYTES_MAX {
            return Err(Error::invalid(format!(
                "flush_bytes is {}, which is more than a memtable can hold: set at most \
                 {MEMTABLE_BYTES_MAX}",
                options.flush_bytes
            )));
        }
        let memtables = options.memtables_waiting_max.max(1).saturating_add(2);
        let or = |set: usize, part: usize| if set == 0 { part.max(1) } else { set };
        Ok(Self {
            flush: or(options.flush_bytes, (all / 8 * 5 / memtables).min(MEMTABLE_BYTES_MAX)),
            cache: or(options.cache_bytes, all / 8),
            reads: all / 8,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_are_no_more_than_the_whole_unless_they_are_set() {
        for memory_bytes in [BYTES_MIN, 100 << 20, 512 << 20, 1 << 40, usize::MAX] {
            for memtables_waiting_max in [0, 3, 50, usize::MAX] {
                let options = Options { memory_bytes, memtables_waiting_max, ..Options::default() };
                let Budget { flush, cache, reads } = Budget::of(&options).unwrap();
                assert!(flush > 0 && flush <= MEMTABLE_BYTES_MAX);
                let memtables =
                    flush.saturating_mul(memtables_waiting_max.max(1).saturating_add(2));
                let fits = |parts: usize| parts <= memory_bytes / 8 * 5 || flush == 1;
                assert!(fits(memtables), "{memory_bytes} {memtables_waiting_max}");
                assert_eq!((cache, reads), (memory_bytes / 8, memory_bytes / 8));
            }
        }
        let options = Options { flush_bytes: 7, cache_bytes: 9, ..Options::default() };
        let Budget { flush, cache, .. } = Budget::of(&options).unwrap();
        assert_eq!((flush, cache), (7, 9));
        let default = Budget::of(&Options::default()).unwrap();
        assert_eq!((default.flush, default.cache), (64 << 20, 64 << 20));
        let little = Options { memory_bytes: BYTES_MIN - 1, ..Options::default() };
        assert!(Budget::of(&little).unwrap_err().to_string().contains("at least 1048576"));
    }
}
