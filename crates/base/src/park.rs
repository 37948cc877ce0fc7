//! Runs a future on the calling thread: what the synchronous façade and tests use.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

/// Rounds of spinning, each twice as long as the one before: about 2 µs in all.
const SPINS: u32 = 6;
/// Then other threads get their turn so often before this one sleeps.
const YIELDS: u32 = 4;

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits for a future, parking the thread while it pends.
///
/// It must not be called from a task of an async runtime: it would block that runtime's thread.
pub fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    // Most futures of an embedded database are ready at once: make no waker for those.
    let mut noop = Context::from_waker(Waker::noop());
    if let Poll::Ready(output) = future.as_mut().poll(&mut noop) {
        return output;
    }
    // A commit that waits for another thread's write is over in a few microseconds: less than it
    // takes to sleep and wake.
    for round in 0..SPINS {
        for _ in 0..1 << round {
            std::hint::spin_loop();
        }
        if let Poll::Ready(output) = future.as_mut().poll(&mut noop) {
            return output;
        }
    }
    for _ in 0..YIELDS {
        thread::yield_now();
        if let Poll::Ready(output) = future.as_mut().poll(&mut noop) {
            return output;
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
        thread::park();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::task::Poll;

    use super::*;

    #[test]
    fn a_future_woken_by_another_thread_ends_the_wait() {
        let slot: Arc<Mutex<(bool, Option<Waker>)>> = Arc::default();
        let theirs = Arc::clone(&slot);
        let waits = std::future::poll_fn(move |context| {
            let mut slot = slot.lock().unwrap();
            if slot.0 {
                return Poll::Ready(7);
            }
            slot.1 = Some(context.waker().clone());
            Poll::Pending
        });
        thread::scope(|scope| {
            scope.spawn(move || {
                loop {
                    let mut slot = theirs.lock().unwrap();
                    if let Some(waker) = slot.1.take_if(|waker| !waker.will_wake(Waker::noop())) {
                        slot.0 = true;
                        waker.wake();
                        return;
                    }
                    drop(slot);
                    thread::yield_now();
                }
            });
            assert_eq!(block_on(waits), 7);
        });
    }
}
