//! Notes of the reason for which a pending future waits.
//!
//! Time that a call to the store waits is measured where the call is made, which knows whether it
//! reads or commits. Below it a call may wait for something else first: for memory, or until
//! writers are let on. The layer that makes it wait leaves a note on the polling thread, so that
//! neither clocks nor statements have to be handed down to it.

use std::cell::Cell;

/// Reason for which a future waits, other than a device or the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitNote {
    /// Memory for a read from the device.
    Memory,
    /// The write throttle or a write stall.
    Throttle,
}

thread_local! {
    static NOTE: Cell<Option<WaitNote>> = const { Cell::new(None) };
}

/// Notes the reason for which the future that is polled on this thread waits. The future must note
/// it again in each poll that ends pending; the last note of a poll counts.
pub fn note_wait(note: WaitNote) {
    NOTE.set(Some(note));
}

/// Takes the note of this thread. The caller takes it before a poll, because another future may have
/// left one, and after it.
#[must_use]
pub fn take_wait_note() -> Option<WaitNote> {
    NOTE.take()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_note_is_taken_once() {
        assert_eq!(take_wait_note(), None);
        note_wait(WaitNote::Memory);
        note_wait(WaitNote::Throttle);
        assert_eq!(take_wait_note(), Some(WaitNote::Throttle));
        assert_eq!(take_wait_note(), None);
    }
}
