//! Yields of tasks.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

/// Lets other tasks run first.
#[must_use]
pub fn yield_once() -> Pin<Box<dyn Future<Output = ()> + Send>> {
    let mut has_yielded = false;
    Box::pin(poll_fn(move |context| {
        if std::mem::replace(&mut has_yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }))
}
