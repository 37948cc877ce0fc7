//! Slows writers to the pace of work that has fallen behind.
//!
//! While it is *tight*, writers share an allowance of bytes that the work fills up by a part of
//! what it moves. So they are slowed by the pace of the disk itself, without a clock; and as long
//! as the work moves at all, nobody waits longer than it takes to move a piece for each of those
//! that wait before. What a writer takes may exceed what is there: the next ones pay for it, up to
//! [`DEBT_BYTES_MAX`].

use std::task::{Context, Poll, Waker};

use crate::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use crate::sync::{Mutex, lock};

/// Whoever comes after a very large record pays for no more of it than this.
const DEBT_BYTES_MAX: i64 = 1 << 20;

/// Not slowed at all.
const LOOSE: u64 = u64::MAX;

/// What writers may do while something is behind.
pub(super) struct Brake {
    /// How many parts in a thousand of what is moved writers may write.
    permille: AtomicU64,
    /// Bytes.
    allowance: AtomicI64,
    /// Nobody works any more.
    released: AtomicBool,
    waiting: Mutex<Vec<Waker>>,
}

impl Brake {
    pub(super) fn new() -> Self {
        Self {
            permille: AtomicU64::new(LOOSE),
            allowance: AtomicI64::new(0),
            released: AtomicBool::new(false),
            waiting: Mutex::default(),
        }
    }

    /// Lets writers write so many parts in a thousand of what is moved from now on.
    pub(super) fn tighten(&self, permille: u64) {
        self.permille.store(permille.min(LOOSE - 1), Ordering::SeqCst);
    }

    /// Lets writers write as they like.
    pub(super) fn loosen(&self) {
        if self.permille.swap(LOOSE, Ordering::SeqCst) != LOOSE {
            self.allowance.store(0, Ordering::Release);
            self.wake();
        }
    }

    /// Lets writers write a part of what has just been moved. What they did not use of earlier
    /// parts is lost, or they would come all at once when it is least welcome.
    pub(super) fn fill_up(&self, moved_bytes: u64) {
        let permille = self.permille.load(Ordering::Acquire);
        if permille == LOOSE {
            return;
        }
        let part = i64::try_from(moved_bytes.saturating_mul(permille) / 1000).unwrap_or(i64::MAX);
        let fill = |left: i64| Some(left.saturating_add(part).min(part.max(left)));
        // It always succeeds: the closure never declines.
        let _ = self.allowance.fetch_update(Ordering::AcqRel, Ordering::Acquire, fill);
        self.wake();
    }

    /// Lets everybody go, now and later: the work has ended for good.
    pub(super) fn release(&self) {
        self.released.store(true, Ordering::SeqCst);
        self.wake();
    }

    fn is_loose(&self) -> bool {
        self.permille.load(Ordering::SeqCst) == LOOSE || self.released.load(Ordering::SeqCst)
    }

    /// Has all waiting writers look again.
    pub(super) fn wake(&self) {
        std::mem::take(&mut *lock(&self.waiting)).into_iter().for_each(Waker::wake);
    }

    /// Waits until so many bytes may be written.
    pub(super) fn poll(&self, bytes: usize, context: &Context<'_>) -> Poll<()> {
        if self.is_loose() {
            return Poll::Ready(());
        }
        let mut waiting = lock(&self.waiting);
        if self.allowance.load(Ordering::Acquire) > 0 {
            let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
            let take = |left: i64| Some(left.saturating_sub(bytes).max(-DEBT_BYTES_MAX));
            // It always succeeds: the closure never declines.
            let _ = self.allowance.fetch_update(Ordering::AcqRel, Ordering::Acquire, take);
            return Poll::Ready(());
        }
        // Asked again under the lock under which it is woken.
        if self.is_loose() {
            return Poll::Ready(());
        }
        if !waiting.iter().any(|waker| waker.will_wake(context.waker())) {
            waiting.push(context.waker().clone());
        }
        Poll::Pending
    }
}
