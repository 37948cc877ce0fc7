//! Calls in progress, each of which can be cancelled by its name.

use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use carnet_base::lock;

/// Maximum number of cancelled calls that are known before they begin.
const EARLY_MAX: usize = 256;

/// Calls in progress.
#[derive(Default)]
pub(in crate::exec) struct Calls(Mutex<Known>);

#[derive(Default)]
struct Known {
    running: HashMap<u64, Arc<Mutex<Call>>>,
    /// Names that were cancelled while no such call was in progress, the oldest first. A long
    /// request is decoded aside, and its cancellation may overtake it.
    early: VecDeque<u64>,
}

#[derive(Default)]
struct Call {
    is_cancelled: bool,
    waker: Option<Waker>,
}

impl Calls {
    /// Runs a call; returns `None` if it is cancelled, which drops the future.
    pub(in crate::exec) async fn run<F: Future>(&self, name: u64, future: F) -> Option<F::Output> {
        let call = Arc::new(Mutex::new(Call::default()));
        {
            let mut known = lock(&self.0);
            if known.early.contains(&name) {
                return None;
            }
            known.running.insert(name, Arc::clone(&call));
        }
        let _entry = Entry { calls: self, name };
        let mut future = pin!(future);
        poll_fn(|context| {
            if is_cancelled(&call, context) {
                return Poll::Ready(None);
            }
            future.as_mut().poll(context).map(Some)
        })
        .await
    }

    /// Cancels a call, also one that has not begun yet.
    pub(in crate::exec) fn cancel(&self, name: u64) {
        let call = lock(&self.0).find_or_note(name);
        let Some(call) = call else { return };
        let waker = {
            let mut call = lock(&call);
            call.is_cancelled = true;
            call.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        lock(&self.0).running.len()
    }
}

impl Known {
    /// Returns a call in progress, or notes that it is cancelled.
    fn find_or_note(&mut self, name: u64) -> Option<Arc<Mutex<Call>>> {
        let call = self.running.get(&name).cloned();
        if call.is_none() {
            if self.early.len() == EARLY_MAX {
                self.early.pop_front();
            }
            self.early.push_back(name);
        }
        call
    }
}

fn is_cancelled(call: &Mutex<Call>, context: &Context<'_>) -> bool {
    let mut call = lock(call);
    call.waker = Some(context.waker().clone());
    call.is_cancelled
}

/// Entry of a call, removed on drop.
struct Entry<'c> {
    calls: &'c Calls,
    name: u64,
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        lock(&self.calls.0).running.remove(&self.name);
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use carnet::block_on;

    use super::*;

    #[test]
    fn cancelled_call_ends_and_leaves_no_entry() {
        let calls = Calls::default();
        let mut running = pin!(calls.run(7, pending::<()>()));
        let mut context = Context::from_waker(Waker::noop());
        assert!(running.as_mut().poll(&mut context).is_pending());
        calls.cancel(8);
        assert!(running.as_mut().poll(&mut context).is_pending());
        calls.cancel(7);
        assert_eq!(running.as_mut().poll(&mut context), Poll::Ready(None));
        assert_eq!(block_on(calls.run(9, ready(1))), Some(1));
        assert_eq!(calls.len(), 0);
    }

    #[test]
    fn cancellation_may_come_before_its_call() {
        let calls = Calls::default();
        calls.cancel(7);
        assert_eq!(block_on(calls.run(7, ready(1))), None);
        assert_eq!(block_on(calls.run(8, ready(1))), Some(1));
        for name in 100..100 + EARLY_MAX as u64 {
            calls.cancel(name);
        }
        assert_eq!(lock(&calls.0).early.len(), EARLY_MAX);
        assert_eq!(block_on(calls.run(100, ready(1))), None);
    }
}
