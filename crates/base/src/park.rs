//! Runs a future on the calling thread, for the synchronous API and tests.

use std::cell::Cell;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

/// Rounds of spinning, each twice as long as the previous one: about 2 µs in all.
const SPINS: u32 = 6;
/// Number of yields to other threads after the spinning, before this thread sleeps. Sleeping and
/// waking takes tens of microseconds on a virtual machine.
const YIELDS: u32 = 32;
/// Maximum time awake. It is about the cost of sleeping: among busy threads a yield may take a time
/// slice of the scheduler.
const AWAKE_MAX: Duration = Duration::from_micros(100);

/// Number of consecutive longer waits after which a thread sleeps immediately.
const MISSES_MAX: u32 = 8;
/// Every N-th wait then spins again before it sleeps.
const TRY_EVERY: u32 = 32;

thread_local! {
    /// Number of consecutive waits that outlasted this thread's time awake.
    static MISSES: Cell<u32> = const { Cell::new(0) };
    /// See [`waits_for_one`].
    static ONE: Cell<bool> = const { Cell::new(false) };
}

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
    for_many(|| wait(future))
}

fn wait<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    // Most futures of an embedded database are ready at once: they need no waker.
    let mut noop = Context::from_waker(Waker::noop());
    if let Poll::Ready(output) = future.as_mut().poll(&mut noop) {
        return output;
    }
    let misses = MISSES.get();
    let is_tried = misses < MISSES_MAX || misses.is_multiple_of(TRY_EVERY);
    if is_tried && let Some(output) = poll_awake(future.as_mut()) {
        MISSES.set(0);
        return output;
    }
    MISSES.set(misses.wrapping_add(1).max(1));
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
        thread::park();
    }
}

/// Like [`block_on`], for a future that waits for one thing at a time: a file may be read for it on
/// this thread. If there is nothing else to do, handing the read to another thread takes longer
/// than the read itself.
pub fn block_on_one<F: Future>(future: F) -> F::Output {
    let _one = Within::set(true);
    wait(future)
}

/// Returns `true` if this thread runs [`block_on_one`], that is, only waits for its future.
#[must_use]
pub fn waits_for_one() -> bool {
    ONE.get()
}

/// Calls a function that begins to wait for several things at once: none of them may block this
/// thread.
pub fn for_many<T>(call: impl FnOnce() -> T) -> T {
    let _many = Within::set(false);
    call()
}

/// Sets [`waits_for_one`] until it is dropped.
struct Within {
    before: bool,
}

impl Within {
    fn set(one: bool) -> Self {
        Self { before: ONE.replace(one) }
    }
}

impl Drop for Within {
    fn drop(&mut self) {
        ONE.set(self.before);
    }
}

/// Waits without sleeping.
///
/// A commit that waits for another thread's write is complete within microseconds, less than it
/// takes to sleep and wake. A remote answer takes longer, and many threads that stayed awake for
/// one would use a large part of the processor.
fn poll_awake<F: Future>(mut future: Pin<&mut F>) -> Option<F::Output> {
    let mut noop = Context::from_waker(Waker::noop());
    for round in 0..SPINS {
        for _ in 0..1 << round {
            std::hint::spin_loop();
        }
        if let Poll::Ready(output) = future.as_mut().poll(&mut noop) {
            return Some(output);
        }
    }
    let began = now();
    for _ in 0..YIELDS {
        thread::yield_now();
        if let Poll::Ready(output) = future.as_mut().poll(&mut noop) {
            return Some(output);
        }
        if now().duration_since(began) > AWAKE_MAX {
            break;
        }
    }
    None
}

#[expect(clippy::disallowed_methods, reason = "nothing but how a thread waits depends on it")]
fn now() -> Instant {
    Instant::now()
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

    #[test]
    fn waits_for_one_lasts_for_the_call() {
        assert!(!waits_for_one());
        let seen = block_on_one(async {
            let many = for_many(waits_for_one);
            let nested = block_on(async { waits_for_one() });
            (waits_for_one(), many, nested, waits_for_one())
        });
        assert_eq!(seen, (true, false, false, true));
        assert!(!waits_for_one());
        assert!(
            std::panic::catch_unwind(|| block_on_one(async { panic!("in the future") })).is_err()
        );
        assert!(!waits_for_one(), "also when it panics");
    }

    /// A future that is ready once its thread waits asleep; returns the number of polls.
    fn polls_of_a_long_wait() -> u32 {
        let mut polls = 0;
        block_on(std::future::poll_fn(|context| {
            polls += 1;
            // A waker that does nothing has no data; its table may have several addresses.
            let is_asleep = !context.waker().data().is_null();
            if is_asleep { Poll::Ready(()) } else { Poll::Pending }
        }));
        polls
    }

    #[test]
    fn long_waits_skip_spinning_except_every_nth() {
        let polls: Vec<u32> = (0..=TRY_EVERY).map(|_| polls_of_a_long_wait()).collect();
        // The number of yields depends on how long they take.
        let awake = 2 + SPINS + 1..=2 + SPINS + YIELDS;
        let tried = |wait: usize| wait < MISSES_MAX as usize || wait == TRY_EVERY as usize;
        let is_expected = |(wait, polls): (usize, &u32)| match tried(wait) {
            true => awake.contains(polls),
            false => *polls == 2,
        };
        assert!(polls.iter().enumerate().all(is_expected), "{polls:?}");
    }
}
