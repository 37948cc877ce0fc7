//! Combinators of futures, and a notification, without a runtime.

use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Mutex;
use std::task::{Poll, Waker};

use carnet_base::sync::lock;

/// The result of the future that completed first.
pub(crate) enum First<A, B> {
    Left(A),
    Right(B),
}

/// Waits for the first of two futures to complete, and drops the other.
pub(crate) async fn first<A, B>(
    left: impl Future<Output = A>,
    right: impl Future<Output = B>,
) -> First<A, B> {
    let (mut left, mut right) = (pin!(left), pin!(right));
    poll_fn(|context| {
        if let Poll::Ready(value) = left.as_mut().poll(context) {
            return Poll::Ready(First::Left(value));
        }
        right.as_mut().poll(context).map(First::Right)
    })
    .await
}

/// Wakes waiting tasks. A notification without waiters is remembered by the count.
#[derive(Debug, Default)]
pub(crate) struct Notify(Mutex<Notified>);

#[derive(Debug, Default)]
struct Notified {
    count: u64,
    tickets: u64,
    waiting: BTreeMap<u64, Waker>,
}

impl Notify {
    pub(crate) fn notify_all(&self) {
        let mut notified = lock(&self.0);
        notified.count += 1;
        let waiting = std::mem::take(&mut notified.waiting);
        drop(notified);
        waiting.into_values().for_each(Waker::wake);
    }

    /// Returns the number of notifications so far. Read it before checking the condition that
    /// they announce.
    pub(crate) fn count(&self) -> u64 {
        lock(&self.0).count
    }

    /// Waits until the number of notifications exceeds `count`.
    pub(crate) async fn notified_after(&self, count: u64) {
        let mut listening = Listening { notify: self, ticket: None };
        poll_fn(|context| {
            let mut notified = lock(&self.0);
            if notified.count > count {
                return Poll::Ready(());
            }
            let ticket = *listening.ticket.get_or_insert_with(|| {
                notified.tickets += 1;
                notified.tickets
            });
            let before = notified.waiting.insert(ticket, context.waker().clone());
            drop(notified);
            drop(before);
            Poll::Pending
        })
        .await;
    }
}

/// Removes its waker on drop: most callers wait for something else as well.
struct Listening<'a> {
    notify: &'a Notify,
    ticket: Option<u64>,
}

impl Drop for Listening<'_> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            let waker = lock(&self.notify.0).waiting.remove(&ticket);
            drop(waker);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::Context;

    use carnet_base::block_on;

    use super::*;

    #[test]
    fn dropped_waiter_leaves_no_waker() {
        let notify = Notify::default();
        for _ in 0..10 {
            let mut listening = pin!(notify.notified_after(0));
            let mut context = Context::from_waker(Waker::noop());
            assert!(listening.as_mut().poll(&mut context).is_pending());
            assert!(listening.as_mut().poll(&mut context).is_pending());
            assert_eq!(lock(&notify.0).waiting.len(), 1);
        }
        assert!(lock(&notify.0).waiting.is_empty());
    }

    #[test]
    fn earlier_ring_is_not_missed() {
        let notify = Notify::default();
        let before = notify.count();
        notify.notify_all();
        block_on(notify.notified_after(before));
    }
}
