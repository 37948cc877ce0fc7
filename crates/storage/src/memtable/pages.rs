//! Asks the system for the pages of fresh memory before they are written to.
//!
//! Memory that the allocator has just got has no pages yet. The first write to each is a fault, of 1.5 µs
//! on the machine these lines were tuned on, and there is one for each twenty cells of 100 bytes. Asked
//! for many at a time a page takes 0.95 µs. Transactions of 8 puts without flushes, thousands of
//! keys a second, medians of five in turn: 928 (884 before) by one thread, 1,179 (1,228, within what runs
//! differ by) by two, 1,422 (1,329) by eight. Asking for 256 KiB at a time under the arena's lock took 6 %
//! away from eight threads.

#![cfg_attr(
    all(target_os = "linux", not(miri)),
    expect(unsafe_code, reason = "whoever advises the system names memory by its address")
)]

/// So much is asked for at a time: whoever maps memory elsewhere in the process waits meanwhile.
pub(super) const STEP_BYTES: usize = 64 << 10;

/// Asks for all pages that a stretch of an allocation touches. What the system makes of that changes
/// nothing but speed.
#[cfg(all(target_os = "linux", not(miri)))]
pub(super) fn ask(memory: *mut u8, bytes: usize) {
    use rustix::mm::{Advice, madvise};
    let before = memory.addr() % rustix::param::page_size();
    let from = memory.wrapping_sub(before);
    let bytes = bytes + before;
    for at in (0..bytes).step_by(STEP_BYTES) {
        let step = (bytes - at).min(STEP_BYTES);
        // SAFETY: the system rounds the length up to whole pages; in each of them lie bytes of the
        // caller's allocation. The advice leaves all that is in them as it is (madvise(2),
        // MADV_POPULATE_WRITE), also while others write there.
        let asked =
            unsafe { madvise(from.wrapping_add(at).cast(), step, Advice::LinuxPopulateWrite) };
        if asked.is_err() {
            return;
        }
    }
}

#[cfg(not(all(target_os = "linux", not(miri))))]
pub(super) fn ask(_: *mut u8, _: usize) {}

#[cfg(test)]
#[cfg(all(target_os = "linux", not(miri)))]
mod tests {
    use super::*;

    /// Minor faults of this thread so far.
    fn faults() -> u64 {
        let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
        let (_, fields) = stat.rsplit_once(')').unwrap();
        fields.split_whitespace().nth(7).unwrap().parse().unwrap()
    }

    /// Linux knows the advice since 5.14.
    fn is_known() -> bool {
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
        let mut numbers = release.split(['.', '-']).map_while(|number| number.parse().ok());
        (numbers.next().unwrap_or(0_u32), numbers.next().unwrap_or(0_u32)) >= (5, 14)
    }

    /// How many faults it takes to write to each page of fresh memory.
    fn faults_of(memory: &mut Vec<u8>) -> u64 {
        let page_bytes = rustix::param::page_size();
        let before = faults();
        for page in memory.spare_capacity_mut().chunks_mut(page_bytes) {
            page[0].write(1);
        }
        faults() - before
    }

    #[test]
    fn pages_that_were_asked_for_are_there() {
        const PAGES: usize = 256;
        let fresh = || Vec::<u8>::with_capacity(PAGES * rustix::param::page_size());
        let (mut asked, mut other) = (fresh(), fresh());
        ask(asked.as_mut_ptr(), asked.capacity());
        let (asked, other) = (faults_of(&mut asked), faults_of(&mut other));
        // An allocator may have had the pages already.
        let tells = is_known() && other > PAGES as u64 / 2;
        assert!(!tells || asked < PAGES as u64 / 8, "{asked} faults, {other} otherwise");
        // What is shorter than a page, or empty, may be asked for as well.
        let mut short = Vec::<u8>::with_capacity(100);
        ask(short.as_mut_ptr(), short.capacity());
        ask(short.as_mut_ptr(), 0);
    }
}
