//! Several futures at once, without a runtime.

use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Poll, Waker};

use std::sync::Mutex;

use crate::oneshot::lock;

/// Runs futures, at most `limit` at a time, and returns the first error, or nothing.
pub(crate) async fn all<E, F: Future<Output = Result<(), E>>>(
    futures: impl IntoIterator<Item = F>,
    limit: usize,
) -> Result<(), E> {
    let mut waiting = futures.into_iter().fuse();
    let mut running: Vec<Pin<Box<F>>> = Vec::new();
    poll_fn(|context| {
        loop {
            let room = limit.max(1) - running.len();
            running.extend(waiting.by_ref().take(room).map(Box::pin));
            if running.is_empty() {
                return Poll::Ready(Ok(()));
            }
            let before = running.len();
            let mut at = 0;
            while at < running.len() {
                match running[at].as_mut().poll(context) {
                    Poll::Pending => at += 1,
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                    Poll::Ready(Ok(())) => drop(running.swap_remove(at)),
                }
            }
            if running.len() == before {
                return Poll::Pending;
            }
        }
    })
    .await
}

/// Which of two futures was first.
pub(crate) enum First<A, B> {
    Left(A),
    Right(B),
}

/// Waits for whichever of two futures is first, and drops the other.
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

/// Rings for whoever waits; rung while nobody does, it is heard by the next one.
#[derive(Debug, Default)]
pub(crate) struct Bell(Mutex<Rung>);

#[derive(Debug, Default)]
struct Rung {
    count: u64,
    tickets: u64,
    waiting: BTreeMap<u64, Waker>,
}

impl Bell {
    pub(crate) fn ring(&self) {
        let mut rung = lock(&self.0);
        rung.count += 1;
        let waiting = std::mem::take(&mut rung.waiting);
        drop(rung);
        waiting.into_values().for_each(Waker::wake);
    }

    /// How often it has rung: to be asked before looking at what it rings for.
    pub(crate) fn count(&self) -> u64 {
        lock(&self.0).count
    }

    /// Waits until it has rung more often than that.
    pub(crate) async fn rung_after(&self, count: u64) {
        let mut listening = Listening { bell: self, ticket: None };
        poll_fn(|context| {
            let mut rung = lock(&self.0);
            if rung.count > count {
                return Poll::Ready(());
            }
            let ticket = *listening.ticket.get_or_insert_with(|| {
                rung.tickets += 1;
                rung.tickets
            });
            let before = rung.waiting.insert(ticket, context.waker().clone());
            drop(rung);
            drop(before);
            Poll::Pending
        })
        .await;
    }
}

/// Whoever listens no more leaves nothing behind: most wait for something else besides.
struct Listening<'a> {
    bell: &'a Bell,
    ticket: Option<u64>,
}

impl Drop for Listening<'_> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            let waker = lock(&self.bell.0).waiting.remove(&ticket);
            drop(waker);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::task::Context;

    use carnet_base::block_on;

    use super::*;

    #[test]
    fn no_more_run_than_may_and_the_first_error_ends_all() {
        let (running, most) = (Cell::new(0), Cell::new(0));
        let future = |n: u32| {
            let (running, most) = (&running, &most);
            let mut polls = n % 3 + 2;
            poll_fn(move |context| {
                if polls == n % 3 + 2 {
                    running.set(running.get() + 1);
                    most.set(most.get().max(running.get()));
                }
                polls -= 1;
                context.waker().wake_by_ref();
                if polls > 0 {
                    return Poll::Pending;
                }
                running.set(running.get() - 1);
                Poll::Ready(if n == 99 { Err(n) } else { Ok(()) })
            })
        };
        assert_eq!(block_on(all((0..20).map(future), 4)), Ok(()));
        assert_eq!((most.get(), running.get()), (4, 0));
        assert_eq!(block_on(all([1, 99].map(future), 4)), Err(99));
    }

    #[test]
    fn whoever_listens_no_more_leaves_nothing_behind() {
        let bell = Bell::default();
        for _ in 0..10 {
            let mut listening = pin!(bell.rung_after(0));
            let mut context = Context::from_waker(Waker::noop());
            assert!(listening.as_mut().poll(&mut context).is_pending());
            assert!(listening.as_mut().poll(&mut context).is_pending());
            assert_eq!(lock(&bell.0).waiting.len(), 1);
        }
        assert!(lock(&bell.0).waiting.is_empty());
    }

    #[test]
    fn a_bell_that_rang_before_is_heard() {
        let bell = Bell::default();
        let before = bell.count();
        bell.ring();
        block_on(bell.rung_after(before));
    }
}
