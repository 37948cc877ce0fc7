//! Calls that are usually complete at once.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::error::Result;

/// A call of an object-safe trait: its result, or a boxed future of it.
///
/// A future of its own type cannot be returned through a `dyn` trait, and boxing each one would cost
/// an allocation even where the result is in memory.
///
/// ```
/// use carnet_base::{Call, block_on};
///
/// let cached = Call::ready(Ok(1));
/// let read = Call::boxed(async { Ok(2) });
/// assert_eq!((block_on(cached)?, block_on(read)?), (1, 2));
/// # Ok::<(), carnet_base::Error>(())
/// ```
#[must_use = "a call that waits does nothing until it is polled"]
pub struct Call<'a, T>(State<'a, T>);

enum State<'a, T> {
    Ready(Result<T>),
    Waiting(Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>),
    Ended,
}

impl<'a, T> Call<'a, T> {
    /// Makes a completed call.
    #[inline]
    pub const fn ready(result: Result<T>) -> Self {
        Self(State::Ready(result))
    }

    /// Makes a call that waits.
    pub fn boxed(call: impl Future<Output = Result<T>> + Send + 'a) -> Self {
        Self(State::Waiting(Box::pin(call)))
    }
}

impl<T: Unpin> Future for Call<'_, T> {
    type Output = Result<T>;

    #[inline]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<T>> {
        let state = &mut self.get_mut().0;
        if let State::Waiting(call) = state {
            return call.as_mut().poll(context);
        }
        match std::mem::replace(state, State::Ended) {
            State::Ready(result) => Poll::Ready(result),
            State::Waiting(_) | State::Ended => panic!("a call was polled after its result"),
        }
    }
}
