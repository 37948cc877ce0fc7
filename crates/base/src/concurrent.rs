//! Runs futures concurrently, without a runtime.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

/// Runs futures, at most `limit` at a time, and returns their results in order. On the first error,
/// drops the others and returns it.
///
/// # Errors
///
/// The first error of a future.
pub async fn join<T, E, F>(futures: impl IntoIterator<Item = F>, limit: usize) -> Result<Vec<T>, E>
where
    F: Future<Output = Result<T, E>>,
{
    let mut waiting = futures.into_iter().enumerate();
    let mut running: Vec<(usize, Pin<Box<F>>)> = Vec::new();
    let mut done: Vec<(usize, T)> = Vec::new();
    poll_fn(|context| {
        loop {
            let mut at = 0;
            while at < running.len() {
                let (place, future) = &mut running[at];
                match future.as_mut().poll(context) {
                    Poll::Pending => at += 1,
                    Poll::Ready(result) => {
                        done.push((*place, result?));
                        drop(running.swap_remove(at));
                    }
                }
            }
            let room = limit.max(1) - running.len();
            let before = running.len();
            running.extend(
                waiting.by_ref().take(room).map(|(place, future)| (place, Box::pin(future))),
            );
            match running.len() {
                0 => return Poll::Ready(Ok(())),
                len if len == before => return Poll::Pending,
                _ => {}
            }
        }
    })
    .await?;
    done.sort_unstable_by_key(|(place, _)| *place);
    Ok(done.into_iter().map(|(_, result)| result).collect())
}

/// Like [`join`], for futures without results.
///
/// # Errors
///
/// The first error of a future.
pub async fn all<E, F: Future<Output = Result<(), E>>>(
    futures: impl IntoIterator<Item = F>,
    limit: usize,
) -> Result<(), E> {
    join(futures, limit).await.map(drop)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::block_on;

    #[test]
    fn concurrency_is_limited_and_first_error_ends_all() {
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
    fn results_are_ordered_and_concurrency_is_limited() {
        let (running, most) = (Cell::new(0), Cell::new(0));
        let future = |n: u32| {
            let (running, most) = (&running, &most);
            let mut polls = 7 - n % 7;
            let mut is_begun = false;
            poll_fn(move |context| {
                if !is_begun {
                    is_begun = true;
                    running.set(running.get() + 1);
                    most.set(most.get().max(running.get()));
                }
                polls -= 1;
                context.waker().wake_by_ref();
                if polls > 0 {
                    return Poll::Pending;
                }
                running.set(running.get() - 1);
                Poll::Ready(if n == 99 { Err(n) } else { Ok(n) })
            })
        };
        assert_eq!(block_on(join((0..20).map(future), 4)), Ok((0..20).collect()));
        assert_eq!(most.get(), 4);
        assert_eq!(block_on(join([1, 99, 2].map(future), 0)), Err(99));
        assert_eq!(block_on(join((0..0).map(future), 4)), Ok(vec![]));
    }
}
