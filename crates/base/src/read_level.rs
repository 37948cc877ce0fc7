//! Service level of the reads that a thread begins.
//!
//! A read reaches the disk through layers that know nothing of service levels. The driver of a
//! statement therefore sets the level of its thread during each poll, and the disk's queue of reads
//! takes it from there.

use std::cell::Cell;

/// Service level of a read, as the disk needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadLevel {
    /// Id of the level in this process.
    pub id: u64,
    /// Weight beside reads of other levels, from 1 to 1000.
    pub shares: u32,
}

impl Default for ReadLevel {
    /// Returns the level of reads that belong to no statement.
    fn default() -> Self {
        Self { id: 0, shares: 1000 }
    }
}

thread_local! {
    static LEVEL: Cell<ReadLevel> = const { Cell::new(ReadLevel { id: 0, shares: 1000 }) };
}

/// Returns the level of reads that this thread begins.
#[must_use]
pub fn read_level() -> ReadLevel {
    LEVEL.get()
}

/// Calls a function whose reads belong to a level.
pub fn with_read_level<T>(level: ReadLevel, call: impl FnOnce() -> T) -> T {
    struct Restore(ReadLevel);
    impl Drop for Restore {
        fn drop(&mut self) {
            LEVEL.set(self.0);
        }
    }
    let _restore = Restore(LEVEL.replace(level));
    call()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_level_lasts_for_the_call() {
        let [outer, inner] = [1, 2].map(|id| ReadLevel { id, shares: 10 });
        with_read_level(outer, || {
            assert_eq!(with_read_level(inner, read_level), inner);
            assert_eq!(read_level(), outer);
            let panicked = std::panic::catch_unwind(|| with_read_level(inner, || panic!("a read")));
            assert!(panicked.is_err());
            assert_eq!(read_level(), outer, "also after a panic");
        });
        assert_eq!(read_level(), ReadLevel::default());
    }
}
