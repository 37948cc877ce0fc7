//! Bytes of answers that a client has not taken yet.
//!
//! A client may request several large answers at once and then read slowly. Each statement checks
//! this count before it runs, and waits while too much is unsent: then the short request waits in
//! memory, and not its long answer. It waits without a permit, because the client determines the
//! duration.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

/// Unsent bytes of one connection.
#[derive(Debug)]
pub(super) struct Unsent {
    bytes_max: usize,
    /// Bytes of answers that are encoded and not yet taken by the connection's task.
    encoded: AtomicUsize,
    /// Bytes of answers that wait for the socket.
    queued: AtomicUsize,
    room: Notify,
}

impl Unsent {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self {
            bytes_max,
            encoded: AtomicUsize::new(0),
            queued: AtomicUsize::new(0),
            room: Notify::new(),
        }
    }

    /// Returns `true` if another statement may run.
    pub(super) fn has_room(&self) -> bool {
        // Relaxed: the counters guard no other memory.
        let bytes = self.encoded.load(Ordering::Relaxed) + self.queued.load(Ordering::Relaxed);
        bytes < self.bytes_max
    }

    /// Waits until another statement may run.
    pub(super) async fn wait_for_room(&self) {
        loop {
            let notified = self.room.notified();
            if self.has_room() {
                return;
            }
            notified.await;
        }
    }

    /// Counts an encoded answer.
    pub(super) fn encode(&self, bytes: usize) {
        self.encoded.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Removes an encoded answer from the count: it is queued now.
    pub(super) fn take(&self, bytes: usize) {
        self.encoded.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Sets the number of bytes that wait for the socket.
    pub(super) fn set_queued(&self, bytes: usize) {
        self.queued.store(bytes, Ordering::Relaxed);
        if self.has_room() {
            self.room.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

    #[test]
    fn statements_wait_until_answers_are_sent() {
        let unsent = Unsent::new(100);
        unsent.encode(60);
        assert!(unsent.has_room());
        unsent.encode(40);
        let mut waits = pin!(unsent.wait_for_room());
        let mut context = Context::from_waker(Waker::noop());
        assert!(waits.as_mut().poll(&mut context).is_pending());
        unsent.take(60);
        unsent.set_queued(60);
        assert!(waits.as_mut().poll(&mut context).is_pending(), "it is queued, not sent");
        unsent.set_queued(0);
        assert!(waits.as_mut().poll(&mut context).is_ready());
    }
}
