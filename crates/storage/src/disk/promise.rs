//! Promise: passes a read's result from the serving thread to the waiting task.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};

use carnet_base::Bytes;

use crate::lock::lock;

/// The serving end. Dropping it unfulfilled is an error at the waiting end.
pub(super) struct Promise(Arc<Slot>);

/// The waiting end, a future. Dropping it cancels the read.
pub(super) struct Awaited(Arc<Slot>);

struct Slot {
    is_cancelled: AtomicBool,
    state: Mutex<PromiseState>,
}

enum PromiseState {
    Waiting(Option<Waker>),
    Ready(io::Result<Bytes>),
    Taken,
}

/// Makes both ends.
pub(super) fn promise() -> (Promise, Awaited) {
    let slot = Arc::new(Slot {
        is_cancelled: AtomicBool::new(false),
        state: Mutex::new(PromiseState::Waiting(None)),
    });
    (Promise(Arc::clone(&slot)), Awaited(slot))
}

impl Promise {
    /// Returns `true` if the future was dropped: a read that was not started can be skipped.
    pub(super) fn is_cancelled(&self) -> bool {
        self.0.is_cancelled.load(Ordering::Relaxed)
    }

    /// Sets the result and wakes the waiting task.
    pub(super) fn fulfil(self, result: io::Result<Bytes>) {
        self.settle(result);
    }

    /// Like [`Promise::fulfil`], for a promise that is still owned.
    pub(super) fn settle(&self, result: io::Result<Bytes>) {
        let mut state = lock(&self.0.state);
        let PromiseState::Waiting(waker) = &mut *state else { return };
        let waker = waker.take();
        *state = PromiseState::Ready(result);
        // Without the lock, because a waker may poll at once.
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        self.settle(Err(io::Error::other("the read was abandoned: the disk is being closed")));
    }
}

impl Future for Awaited {
    type Output = io::Result<Bytes>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = lock(&self.0.state);
        match &mut *state {
            PromiseState::Waiting(Some(waker)) => {
                waker.clone_from(context.waker());
                Poll::Pending
            }
            PromiseState::Waiting(waker) => {
                *waker = Some(context.waker().clone());
                Poll::Pending
            }
            ready => match std::mem::replace(ready, PromiseState::Taken) {
                PromiseState::Ready(result) => Poll::Ready(result),
                _ => Poll::Ready(Err(io::Error::other("a read was polled after its end"))),
            },
        }
    }
}

impl Drop for Awaited {
    fn drop(&mut self) {
        self.0.is_cancelled.store(true, Ordering::Relaxed);
        // A read without a waiter must not keep the task of its waker alive.
        let waker = match &mut *lock(&self.0.state) {
            PromiseState::Waiting(waker) => waker.take(),
            _ => None,
        };
        drop(waker);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use carnet_base::block_on;

    #[test]
    fn dropped_promise_is_an_error() {
        let (promise, awaited) = promise();
        drop(promise);
        let error = block_on(awaited).unwrap_err().to_string();
        assert!(error.contains("abandoned"), "{error}");
    }

    #[test]
    fn dropped_future_cancels_the_read() {
        let (promise, awaited) = promise();
        assert!(!promise.is_cancelled());
        drop(awaited);
        assert!(promise.is_cancelled());
        promise.fulfil(Ok(Bytes::new()));
    }

    #[test]
    fn last_waker_is_woken() {
        struct Count(std::sync::atomic::AtomicU32);
        impl std::task::Wake for Count {
            fn wake(self: Arc<Self>) {
                self.0.fetch_add(1, Ordering::SeqCst);
            }
        }
        let wakers = [(); 2].map(|()| Arc::new(Count(0.into())));
        let (promise, mut awaited) = promise();
        for waker in &wakers {
            let waker = Waker::from(Arc::clone(waker));
            let polled = Pin::new(&mut awaited).poll(&mut Context::from_waker(&waker));
            assert!(polled.is_pending());
        }
        promise.fulfil(Ok(Bytes::from_static(b"x")));
        assert_eq!(wakers.map(|count| count.0.load(Ordering::SeqCst)), [0, 1]);
        assert_eq!(block_on(awaited).unwrap(), "x");
    }
}
