//! The program's allocator. It returns memory to the system as soon as it is free.
//!
//! The server's budgets bound the memory that the server holds; memory that the allocator retains
//! comes on top. With glibc's allocator the process took twice its budgets after a burst of long
//! answers and did not shrink afterwards (docs/performance.md, "Memory of answers").
#![expect(unsafe_code, reason = "options of the allocator are set by a function of C")]

use libmimalloc_sys::{mi_option_set_default, mi_option_t};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The option `mi_option_purge_delay` of mimalloc: milliseconds until free memory goes back to the system.
/// `libmimalloc_sys` has no name for it.
const PURGE_DELAY: mi_option_t = 15;

/// Makes the allocator return memory at once. `MIMALLOC_PURGE_DELAY` in the environment overrides
/// this.
///
/// By default mimalloc returns memory only when a thread allocates again after the delay. An idle
/// server would never return any.
pub(crate) fn set_up() {
    // SAFETY: the function writes a number into a table of mimalloc's. `main` calls this before it
    // starts other threads, so no other thread reads the table meanwhile.
    unsafe { mi_option_set_default(PURGE_DELAY, 0) }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn resident_pages() -> usize {
        let statm = fs::read_to_string("/proc/self/statm").unwrap();
        statm.split(' ').nth(1).unwrap().parse().unwrap()
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn free_memory_goes_back_to_the_system() {
        const PIECES: usize = 64;
        set_up();
        let before = resident_pages();
        let pieces: Vec<Vec<u8>> = (0..PIECES).map(|_| vec![1; 1 << 20]).collect();
        let page_bytes = rustix::param::page_size();
        let pages = PIECES * (1 << 20) / page_bytes;
        assert!(resident_pages() >= before + pages / 2);
        drop(pieces);
        assert!(resident_pages() < before + pages / 2, "{before} pages before");
    }
}
