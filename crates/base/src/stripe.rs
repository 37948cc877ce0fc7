//! Thread shards: numbers for threads, so that each writes to its own memory if the values are only
//! added up later.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Returns the number of the calling thread, below `stripes`. It is always the same, and no other
/// thread has it as long as there are enough numbers.
///
/// # Panics
///
/// If `stripes` is 0.
#[must_use]
pub fn stripe(stripes: usize) -> usize {
    thread_local! {
        static NUMBER: Cell<usize> = const { Cell::new(usize::MAX) };
    }
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    NUMBER.with(|number| {
        if number.get() == usize::MAX {
            number.set(THREADS.fetch_add(1, Ordering::Relaxed));
        }
        number.get() % stripes
    })
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the test needs threads")]
    fn a_thread_keeps_its_number_and_has_it_alone() {
        let threads: Vec<_> = (0..8)
            .map(|_| std::thread::spawn(|| (stripe(usize::MAX), stripe(usize::MAX))))
            .collect();
        let numbers: HashSet<_> = threads
            .into_iter()
            .map(|thread| {
                let (first, again) = thread.join().unwrap();
                assert_eq!(first, again);
                first
            })
            .collect();
        assert_eq!(numbers.len(), 8);
        assert!(stripe(1) == 0);
    }
}
