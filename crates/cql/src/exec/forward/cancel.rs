//! Calls in progress, each of which can be cancelled by its name.

use std::collections::HashMap;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use carnet::base::lock;

/// Calls in progress.
#[derive(Default)]
pub(super) struct Calls(Mutex<HashMap<u64, Arc<Mutex<Call>>>>);

#[derive(Default)]
struct Call {
    is_cancelled: bool,
    waker: Option<Waker>,
}

impl Calls {
    /// Runs a call; returns `None` if it is cancelled, which drops the future.
    pub(super) async fn run<F: Future>(&self, name: u64, future: F) -> Option<F::Output> {
        let call = Arc::new(Mutex::new(Call::default()));
        lock(&self.0).insert(name, Arc::clone(&call));
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

    /// Cancels a call; has no effect if it is not in progress.
    pub(super) fn cancel(&self, name: u64) {
        let call = lock(&self.0).get(&name).cloned();
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
        lock(&self.0).len()
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
        lock(&self.calls.0).remove(&self.name);
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
}
