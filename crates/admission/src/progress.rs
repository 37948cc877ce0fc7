//! Progress of a running statement, and the request to end it.
//!
//! One thread at a time runs a statement and counts; others look on. A statement notices a request to
//! end at its next read, its next turn and before its commit, and fails there without effect. A commit
//! that has begun is not ended: it may be decided already.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};
use std::task::{Poll, Waker};

use carnet_base::{Error, Result, lock};

/// Maximum bytes of a lost key that is kept.
const LOST_KEY_LEN_MAX: usize = 4 << 10;

/// Progress of a statement.
#[derive(Debug, Default)]
pub struct Progress {
    rows_read: AtomicU64,
    bytes_read: AtomicU64,
    /// State that most statements never need: each of them has a permit.
    rare: OnceLock<Box<Rare>>,
}

#[derive(Debug, Default)]
struct Rare {
    /// Whether the statement is part of an open transaction, whose commit alone has an effect.
    is_part: AtomicBool,
    conflicts: AtomicU64,
    /// Number of its transaction in the queues of rows, or 0.
    ticket: AtomicU64,
    /// Key of the cell that the last lost attempt lost.
    lost_key: Mutex<Option<Box<[u8]>>>,
    is_killed: AtomicBool,
    /// Waker of the statement while it waits.
    waker: Mutex<Option<Waker>>,
}

impl Progress {
    /// Counts rows that were read from the store, with the bytes of their keys and values.
    pub fn read(&self, rows: usize, bytes: usize) {
        add(&self.rows_read, rows as u64);
        add(&self.bytes_read, bytes as u64);
    }

    /// Counts an attempt that was lost to another transaction, at a cell if it is known.
    pub fn lost(&self, key: Option<&[u8]>) {
        let rare = self.rare();
        add(&rare.conflicts, 1);
        let key = key.filter(|key| key.len() <= LOST_KEY_LEN_MAX);
        *lock(&rare.lost_key) = key.map(Box::from);
    }

    /// Records the number of the statement's transaction in the queues of rows that many change.
    pub fn queue_as(&self, ticket: u64) {
        self.rare().ticket.store(ticket, Ordering::Relaxed);
    }

    /// Returns the number of the statement's transaction in the queues of rows; `None` if it never joined one.
    #[must_use]
    pub fn ticket(&self) -> Option<u64> {
        let ticket = self.rare.get()?.ticket.load(Ordering::Relaxed);
        (ticket != 0).then_some(ticket)
    }

    /// Returns the number of rows that were read from the store so far.
    #[must_use]
    pub fn rows_read(&self) -> u64 {
        self.rows_read.load(Ordering::Relaxed)
    }

    /// Returns the bytes of the keys and values of these rows.
    #[must_use]
    pub fn bytes_read(&self) -> u64 {
        self.bytes_read.load(Ordering::Relaxed)
    }

    /// Records that the statement runs within an open transaction, so that it has no effect alone.
    pub fn join(&self) {
        self.rare().is_part.store(true, Ordering::Relaxed);
    }

    /// Returns `true` if the statement has no effect alone.
    #[must_use]
    pub fn is_part(&self) -> bool {
        self.rare.get().is_some_and(|rare| rare.is_part.load(Ordering::Relaxed))
    }

    /// Returns the number of attempts that were lost to other transactions.
    #[must_use]
    pub fn conflicts(&self) -> u64 {
        self.rare.get().map_or(0, |rare| rare.conflicts.load(Ordering::Relaxed))
    }

    /// Returns the bytes of the key of the cell that was lost last, if it is known.
    #[must_use]
    pub fn lost_key(&self) -> Option<Box<[u8]>> {
        lock(&self.rare.get()?.lost_key).clone()
    }

    /// Requests the end of the statement.
    pub fn kill(&self) {
        let rare = self.rare();
        rare.is_killed.store(true, Ordering::Release);
        let waker = lock(&rare.waker).take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Returns `true` if the end of the statement was requested.
    #[must_use]
    pub fn is_killed(&self) -> bool {
        self.rare.get().is_some_and(|rare| rare.is_killed.load(Ordering::Acquire))
    }

    /// Fails if the end of the statement was requested.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Aborted`](carnet_base::ErrorKind::Aborted).
    pub fn check(&self) -> Result<()> {
        if self.is_killed() { Err(killed()) } else { Ok(()) }
    }

    /// Wakes a waiting statement when its end is requested.
    fn wake_on_kill(&self, waker: &Waker) {
        let mut kept = lock(&self.rare().waker);
        let is_kept = kept.as_ref().is_some_and(|kept| kept.will_wake(waker));
        let before = if is_kept { None } else { kept.replace(waker.clone()) };
        drop(kept);
        drop(before);
        // The request may have come before the waker was kept.
        if self.is_killed() {
            waker.wake_by_ref();
        }
    }

    /// Returns the output of a future, or `None` once the statement is killed.
    pub async fn unless_killed<F: Future + ?Sized>(
        &self,
        mut future: Pin<&mut F>,
    ) -> Option<F::Output> {
        poll_fn(|context| {
            if self.is_killed() {
                return Poll::Ready(None);
            }
            let polled = future.as_mut().poll(context).map(Some);
            if polled.is_pending() {
                self.wake_on_kill(context.waker());
            }
            polled
        })
        .await
    }

    fn rare(&self) -> &Rare {
        self.rare.get_or_init(Box::default)
    }
}

/// Returns the error of a statement that was ended before its commit.
pub(crate) fn killed() -> Error {
    Error::aborted("the statement was killed; nothing was written")
}

/// Adds to a counter that one thread at a time writes: it needs no atomic addition.
fn add(counter: &AtomicU64, amount: u64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(amount), Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::task::Wake;

    use carnet_base::ErrorKind;

    use super::*;

    #[derive(Default)]
    struct Woken(AtomicU64);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn waiting_statement_is_woken_once_it_is_killed() {
        let (progress, woken) = (Progress::default(), Arc::new(Woken::default()));
        let waker = Waker::from(Arc::clone(&woken));
        let wakes = || woken.0.load(Ordering::Relaxed);
        progress.wake_on_kill(&waker);
        assert!(progress.check().is_ok());
        assert_eq!(wakes(), 0);
        progress.kill();
        assert_eq!(progress.check().unwrap_err().kind(), ErrorKind::Aborted);
        assert_eq!(wakes(), 1);
        progress.wake_on_kill(&waker);
        assert_eq!(wakes(), 2, "the request came before the wait");
    }
}
