//! Global allocator of the program. It returns free memory to the system after 10 ms.
//!
//! The memory budgets of a server bound the bytes that it holds; memory that the allocator keeps for later
//! comes on top. The delay is a compromise: with a longer one a server keeps more memory after a
//! burst of long answers, and without a delay it answers fewer of them. See
//! docs/performance.md#long-answers. mimalloc's default is one second.
#![expect(unsafe_code, reason = "options of the allocator are set by a function of C")]

use libmimalloc_sys::{mi_option_set_default, mi_option_t};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The option `mi_option_purge_delay` of mimalloc: milliseconds until free memory goes back to the system.
/// `libmimalloc_sys` has no name for it.
const PURGE_DELAY: mi_option_t = 15;

/// Time until free memory goes back to the system, in milliseconds.
const PURGE_DELAY_MILLIS: std::ffi::c_long = 10;

/// Sets the allocator's delay; `MIMALLOC_PURGE_DELAY` in the environment overrides it.
pub(crate) fn set_up() {
    // SAFETY: the function writes a number into a table of mimalloc's. `main` calls this before it
    // starts other threads, so no other thread reads the table meanwhile.
    unsafe { mi_option_set_default(PURGE_DELAY, PURGE_DELAY_MILLIS) }
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
    #[expect(clippy::disallowed_methods, reason = "the allocator has a clock of its own")]
    fn free_memory_goes_back_to_the_system() {
        const ALONE: &str = "CARNET_TEST_ALONE";
        if std::env::var_os(ALONE).is_none() {
            // In a process of its own, since other tests allocate as well.
            let mut alone = std::process::Command::new(std::env::current_exe().unwrap());
            alone.args(["--exact", "allocator::tests::free_memory_goes_back_to_the_system"]);
            assert!(alone.env(ALONE, "1").status().unwrap().success());
            return;
        }
        const PIECES: usize = 256;
        set_up();
        let before = resident_pages();
        let pieces: Vec<Vec<u8>> = (0..PIECES).map(|_| vec![1; 1 << 20]).collect();
        let pages = PIECES * (1 << 20) / rustix::param::page_size();
        assert!(resident_pages() >= before + pages / 2);
        drop(pieces);
        // Memory goes back when a thread allocates after the delay.
        let goes_back = (0..40).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(10));
            drop(vec![1_u8; 1 << 20]);
            resident_pages() < before + pages / 2
        });
        assert!(goes_back, "{before} pages before, {} now", resident_pages());
    }
}
