//! Populates the pages of fresh memory before they are written to.
//!
//! Fresh memory of the allocator has no pages: the first write to each page is a fault. `madvise`
//! populates many pages in one call, which costs less than the faults. The call is made outside the
//! arena's lock, because under the lock other writers would wait for it.

#![cfg_attr(
    all(target_os = "linux", not(miri)),
    expect(unsafe_code, reason = "madvise takes an address")
)]

/// Bytes per call: the call holds the process's memory-map lock.
pub(super) const STEP_BYTES: usize = 64 << 10;

/// Populates all pages of a part of an allocation. Errors are ignored: without effect the pages
/// fault later.
#[cfg(all(target_os = "linux", not(miri)))]
pub(super) fn populate(memory: *mut u8, bytes: usize) {
    use rustix::mm::{Advice, madvise};
    let before = memory.addr() % rustix::param::page_size();
    let from = memory.wrapping_sub(before);
    let bytes = bytes + before;
    for at in (0..bytes).step_by(STEP_BYTES) {
        let step = (bytes - at).min(STEP_BYTES);
        // SAFETY: the system rounds the length up to whole pages; each of them contains bytes of
        // the caller's allocation. The advice leaves their content unchanged (madvise(2),
        // MADV_POPULATE_WRITE), also while other threads write there.
        let populated =
            unsafe { madvise(from.wrapping_add(at).cast(), step, Advice::LinuxPopulateWrite) };
        if populated.is_err() {
            return;
        }
    }
}

#[cfg(not(all(target_os = "linux", not(miri))))]
pub(super) fn populate(_: *mut u8, _: usize) {}

#[cfg(all(target_os = "linux", not(miri)))]
#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the minor faults of this thread.
    fn faults() -> u64 {
        let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
        let (_, fields) = stat.rsplit_once(')').unwrap();
        fields.split_whitespace().nth(7).unwrap().parse().unwrap()
    }

    /// Returns `true` if Linux supports the advice (since 5.14).
    fn is_known() -> bool {
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
        let mut numbers = release.split(['.', '-']).map_while(|number| number.parse().ok());
        (numbers.next().unwrap_or(0_u32), numbers.next().unwrap_or(0_u32)) >= (5, 14)
    }

    /// Returns the number of faults of writing to each page of fresh memory.
    fn faults_of(memory: &mut Vec<u8>) -> u64 {
        let page_bytes = rustix::param::page_size();
        let before = faults();
        for page in memory.spare_capacity_mut().chunks_mut(page_bytes) {
            page[0].write(1);
        }
        faults() - before
    }

    #[test]
    fn populated_pages_do_not_fault() {
        const PAGES: usize = 256;
        let fresh = || Vec::<u8>::with_capacity(PAGES * rustix::param::page_size());
        let (mut populated, mut other) = (fresh(), fresh());
        populate(populated.as_mut_ptr(), populated.capacity());
        let (populated, other) = (faults_of(&mut populated), faults_of(&mut other));
        // The allocator may return memory that has pages already.
        let tells = is_known() && other > PAGES as u64 / 2;
        assert!(!tells || populated < PAGES as u64 / 8, "{populated} faults, {other} otherwise");
        // Ranges shorter than a page, or empty, are accepted.
        let mut short = Vec::<u8>::with_capacity(100);
        populate(short.as_mut_ptr(), short.capacity());
        populate(short.as_mut_ptr(), 0);
    }
}
