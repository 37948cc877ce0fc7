//! Prefetches memory into the processor caches.
//!
//! A lookup that misses the processor caches waits for one load after another, because each address
//! depends on the load before. Prefetching addresses that are known earlier overlaps these waits.

#![cfg_attr(
    all(target_arch = "x86_64", not(miri)),
    expect(unsafe_code, reason = "the prefetch instruction is an unsafe intrinsic")
)]

/// Prefetches the cache line of an address. This is a hint: addresses of freed memory are allowed,
/// and other architectures do nothing.
pub(super) fn line(address: usize) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch changes no state that a program can observe and never faults, whatever
        // the address (Intel SDM, volume 2, PREFETCHh).
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::without_provenance(address)) };
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = address;
}

/// Size of a cache line.
pub(super) const LINE_BYTES: usize = 64;

/// Prefetches each cache line of a memory range.
pub(super) fn range(address: usize, bytes: usize) {
    for at in (address..address + bytes).step_by(LINE_BYTES) {
        line(at);
    }
}

/// A memory range that is prefetched in parts, while other work is done: only about ten lines can
/// be in flight, so prefetching all of it at once would stall.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Region {
    at: usize,
    end: usize,
}

impl Region {
    pub(super) const fn new(at: usize, bytes: usize) -> Self {
        Self { at, end: at + bytes }
    }

    /// Prefetches about `bytes` more bytes.
    pub(super) fn advance(&mut self, bytes: usize) {
        let to = self.end.min(self.at.saturating_add(bytes));
        while self.at < to {
            line(self.at);
            self.at += LINE_BYTES;
        }
    }

    /// Returns `true` for an empty range.
    pub(super) const fn is_empty(&self) -> bool {
        self.end == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn region_is_prefetched_to_its_end() {
        let prefetched = |mut region: Region| {
            let mut lines = Vec::new();
            while region.at < region.end {
                lines.push(region.at);
                region.advance(1);
            }
            lines
        };
        assert_eq!(prefetched(Region::new(1000, 200)), [1000, 1064, 1128, 1192]);
        assert_eq!(prefetched(Region::default()), [0; 0]);
        let mut all = Region::new(1000, 200);
        all.advance(usize::MAX);
        assert!(all.at >= all.end && !all.is_empty());
    }
}
