//! Memory budget: divides one number among the parts of an engine.
//!
//! ```text
//!  memory_bytes ─┬─ 6/8  memtables, at most 5/8: flush_bytes × (memtables_waiting_max + 2)
//!                │       cache of blocks, index pages and filters: the rest, at least 1/8
//!                ├─ 1/8  reads that wait for the disk (permits)
//!                └─ 1/8  the rest: buffers of compaction and flush, records in flight
//! ```
//!
//! A memtable is flushed when it reaches its share. The memtables' part covers the active memtable,
//! memtables that wait for their flush, and the growth of the active one meanwhile (at least 4 MiB,
//! by which a tiny budget is exceeded). The cache takes what the memtables do not need now
//! ([`Budget::cache_beside`]), and gives it back while a new memtable fills: its blocks can be
//! evicted at any time. The other parts are fixed and do not borrow from each other, so that a load
//! cannot take memory that another load relies on. All but the last are enforced. Of that, compactions read their inputs into at most a half: the more tables they merge, the
//! smaller are the pieces ([`Budget::piece_bytes`]). The other half is a reserve for blocks under construction.
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
    /// Minimum size of the cache.
    pub(crate) cache: usize,
    /// Size of the memtables and the cache together; zero if the cache has a fixed size.
    shared: usize,
    pub(crate) reads: usize,
    /// Buffers of compaction and flush.
    pub(crate) buffers: usize,
}

/// Bounds of a piece in which a compaction reads an input. The larger one takes half a millisecond on a device of
/// 500 MB/s; the smaller one is a few blocks.
const PIECE_BYTES_MAX: usize = 256 << 10;
const PIECE_BYTES_MIN: usize = 16 << 10;

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
            shared: if options.cache_bytes == 0 { all / 8 * 6 } else { 0 },
            reads: all / 8,
            buffers: all / 8,
        })
    }

    /// Returns the size in bytes of the cache beside an active memtable, and others that wait for their flush.
    pub(crate) const fn cache_beside(&self, sealed: usize) -> usize {
        // The active one may grow to twice its size.
        let memtables = self.flush.saturating_mul(sealed.saturating_add(2));
        let rest = self.shared.saturating_sub(memtables);
        if rest > self.cache { rest } else { self.cache }
    }

    /// Returns the size in bytes of the pieces in which a compaction reads each of `runs` sorted runs, when `threads`
    /// threads may compact at a time.
    pub(crate) fn piece_bytes(&self, runs: usize, threads: usize) -> u32 {
        let piece = self.buffers / 2 / runs.max(1).saturating_mul(threads.max(1));
        u32::try_from(piece.clamp(PIECE_BYTES_MIN, PIECE_BYTES_MAX)).unwrap_or(u32::MAX)
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
                let budget = Budget::of(&options).unwrap();
                let Budget { flush, cache, reads, buffers, .. } = budget;
                assert!(flush > 0 && flush <= MEMTABLE_BYTES_MAX);
                let memtables =
                    flush.saturating_mul(memtables_waiting_max.max(1).saturating_add(2));
                let fits = |parts: usize| parts <= memory_bytes / 8 * 5 || flush == 1;
                assert!(fits(memtables), "{memory_bytes} {memtables_waiting_max}");
                assert_eq!([cache, reads, buffers], [memory_bytes / 8; 3]);
                for sealed in [0, 1, memtables_waiting_max.max(1)] {
                    let memtables = flush.saturating_mul(sealed.saturating_add(2));
                    let both = memtables.saturating_add(budget.cache_beside(sealed));
                    assert!(both <= memory_bytes / 8 * 6 || flush == 1, "{sealed} wait");
                }
            }
        }
        let options = Options { flush_bytes: 7, cache_bytes: 9, ..Options::default() };
        let Budget { flush, cache, .. } = Budget::of(&options).unwrap();
        assert_eq!((flush, cache), (7, 9));
        let fixed = Budget::of(&options).unwrap();
        assert_eq!([fixed.cache_beside(0), fixed.cache_beside(3)], [9, 9]);
        let default = Budget::of(&Options::default()).unwrap();
        assert_eq!((default.flush, default.cache), (64 << 20, 64 << 20));
        let beside = [0, 1, 2, 3, 9].map(|sealed| default.cache_beside(sealed) >> 20);
        assert_eq!(beside, [256, 192, 128, 64, 64]);
        let little = Options { memory_bytes: BYTES_MIN - 1, ..Options::default() };
        assert!(Budget::of(&little).unwrap_err().to_string().contains("at least 1048576"));
    }

    #[test]
    fn pieces_of_all_compactions_fit_into_their_buffers() {
        let budget =
            |memory_bytes| Budget::of(&Options { memory_bytes, ..Options::default() }).unwrap();
        assert_eq!(
            budget(512 << 20).piece_bytes(12, 3),
            256 << 10,
            "the default does not shrink them"
        );
        let little = budget(64 << 20);
        for (runs, threads) in [(1, 1), (6, 3), (20, 3), (40, 4)] {
            let all = little.piece_bytes(runs, threads) as usize * runs * threads;
            assert!(all <= little.buffers / 2, "{all} of {runs} runs");
        }
        assert_eq!(
            little.piece_bytes(usize::MAX, 3),
            16 << 10,
            "small reads cost more than they save"
        );
    }
}
