//! A channel for one value between two tasks.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use carnet_base::sync::lock;

#[derive(Debug)]
struct Slot<T> {
    value: Option<T>,
    waker: Option<Waker>,
    is_closed: bool,
}

/// The sending end.
#[derive(Debug)]
pub(crate) struct Sender<T>(Arc<Mutex<Slot<T>>>);

/// The receiving end; resolves to `None` if the sender is dropped.
#[derive(Debug)]
pub(crate) struct Receiver<T>(Arc<Mutex<Slot<T>>>);

pub(crate) fn channel<T>() -> (Sender<T>, Receiver<T>) {
    let slot = Arc::new(Mutex::new(Slot { value: None, waker: None, is_closed: false }));
    (Sender(Arc::clone(&slot)), Receiver(slot))
}

impl<T> Sender<T> {
    pub(crate) fn send(self, value: T) {
        lock(&self.0).value = Some(value);
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let mut slot = lock(&self.0);
        slot.is_closed = true;
        let waker = slot.waker.take();
        drop(slot);
        waker.into_iter().for_each(Waker::wake);
    }
}

impl<T> Future for Receiver<T> {
    type Output = Option<T>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<T>> {
        let mut slot = lock(&self.0);
        if slot.is_closed {
            return Poll::Ready(slot.value.take());
        }
        slot.waker = Some(context.waker().clone());
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use carnet_base::block_on;

    use super::*;

    #[test]
    fn receiver_gets_the_value_or_the_drop() {
        let (sender, receiver) = channel();
        std::thread::scope(|scope| {
            scope.spawn(move || sender.send(7));
            assert_eq!(block_on(receiver), Some(7));
        });
        let (sender, receiver) = channel::<u32>();
        drop(sender);
        assert_eq!(block_on(receiver), None);
    }
}
