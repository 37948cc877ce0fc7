//! Memory budget: divides one number among the parts of an engine.
//!
//! ```text
//!  memory_bytes ─┬─ 5/8  memtables: flush_bytes × (memtables_waiting_max + 2)
//!                ├─ 1/8  cache of blocks, index pages and filters
//!                ├─ 1/8  reads that wait for the disk (permits)
//!                └─ 1/8  the rest: buffers of compaction and flush, records in flight
//! ```
//!
//! The parts are fixed and do not borrow from each other, so that a load cannot take memory that
//! another load relies on. A memtable is flushed when it reaches its share. The memtables' part
//! covers the active memtable, memtables that wait for their flush, and the growth of the active one
//! meanwhile (at least 4 MiB, by which a tiny budget is exceeded). The first three parts are
//! enforced. The fourth is a reserve and not a limit: compaction's memory depends on the size of
//! blocks and the number of merged tables, not on the load.
//!
//! Not included: memory of open tables besides the cache (`table_memory_bytes` in the metrics),
//! which grows with the data.

use carnet_base::{Error, Result};

use crate::memtable::MEMTABLE_BYTES_MAX;
use crate::options::Options;

/// Minimum budget; a smaller one leaves parts too small to be useful.
const BYTES_MIN: usize = 1 << 20;

/// Size of each part in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Budget {
    /// Size of one memtable.
    pub(crate) flush: usize,
    pub(crate) cache: usize,
    pub(crate) reads: usize,
}

impl Budget {
    /// Divides `memory_bytes`; explicit options of a part take precedence.
    ///
    /// # Errors
    ///
    /// `Invalid` if it is too little, or more than a memtable can hold.
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
    fn parts_do_not_exceed_the_budget() {
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
