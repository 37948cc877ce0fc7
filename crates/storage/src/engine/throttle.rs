//! Write throttle: slows writers to the pace of flush or compaction.
//!
//! While the throttle is active, writers share an allowance of bytes. The background work refills
//! it with a fraction of the bytes that it processes. So the pace of the disk limits writers,
//! without a clock. While the work progresses, a writer waits at most for one refill per writer
//! before it. A write may exceed the allowance; later writers pay for it, up to [`DEBT_BYTES_MAX`].

use std::task::{Context, Poll, Waker};

use crate::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use crate::sync::{Mutex, lock};

/// Maximum debt that a large record leaves to later writers.
const DEBT_BYTES_MAX: i64 = 1 << 20;

/// Value of `permille` while the throttle is not active.
const INACTIVE: u64 = u64::MAX;

/// A write throttle.
pub(super) struct Throttle {
    /// Thousandths of the processed bytes that writers may write.
    permille: AtomicU64,
    /// Allowance in bytes.
    allowance: AtomicI64,
    /// Set when the background work has ended.
    released: AtomicBool,
    waiting: Mutex<Vec<Waker>>,
}

impl Throttle {
    pub(super) fn new() -> Self {
        Self {
            permille: AtomicU64::new(INACTIVE),
            allowance: AtomicI64::new(0),
            released: AtomicBool::new(false),
            waiting: Mutex::default(),
        }
    }

    /// Activates the throttle: writers may write `permille` thousandths of the bytes processed from
    /// now on.
    pub(super) fn activate(&self, permille: u64) {
        self.permille.store(permille.min(INACTIVE - 1), Ordering::SeqCst);
    }

    /// Deactivates the throttle.
    pub(super) fn deactivate(&self) {
        if self.permille.swap(INACTIVE, Ordering::SeqCst) != INACTIVE {
            self.allowance.store(0, Ordering::Release);
            self.wake();
        }
    }

    /// Refills the allowance with a fraction of the bytes just processed. The unused allowance does
    /// not accumulate, otherwise writers would use it in a burst.
    pub(super) fn refill(&self, moved_bytes: u64) {
        let permille = self.permille.load(Ordering::Acquire);
        if permille == INACTIVE {
            return;
        }
        let part = i64::try_from(moved_bytes.saturating_mul(permille) / 1000).unwrap_or(i64::MAX);
        let fill = |left: i64| Some(left.saturating_add(part).min(part.max(left)));
        // Always succeeds: the closure never returns `None`.
        let _ = self.allowance.fetch_update(Ordering::AcqRel, Ordering::Acquire, fill);
        self.wake();
    }

    /// Deactivates the throttle for good, because the background work has ended.
    pub(super) fn release(&self) {
        self.released.store(true, Ordering::SeqCst);
        self.wake();
    }

    fn is_inactive(&self) -> bool {
        self.permille.load(Ordering::SeqCst) == INACTIVE || self.released.load(Ordering::SeqCst)
    }

    /// Wakes all waiting writers to check again.
    pub(super) fn wake(&self) {
        std::mem::take(&mut *lock(&self.waiting)).into_iter().for_each(Waker::wake);
    }

    /// Waits until `bytes` bytes may be written.
    pub(super) fn poll(&self, bytes: usize, context: &Context<'_>) -> Poll<()> {
        if self.is_inactive() {
            return Poll::Ready(());
        }
        let mut waiting = lock(&self.waiting);
        if self.allowance.load(Ordering::Acquire) > 0 {
            let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
            let take = |left: i64| Some(left.saturating_sub(bytes).max(-DEBT_BYTES_MAX));
            // Always succeeds: the closure never returns `None`.
            let _ = self.allowance.fetch_update(Ordering::AcqRel, Ordering::Acquire, take);
            return Poll::Ready(());
        }
        // Checked again under the lock with which writers are woken.
        if self.is_inactive() {
            return Poll::Ready(());
        }
        if !waiting.iter().any(|waker| waker.will_wake(context.waker())) {
            waiting.push(context.waker().clone());
        }
        Poll::Pending
    }
}
