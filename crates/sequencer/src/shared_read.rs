//! Single-flight reads: one read serves many callers, each of which needs a read that *began* after
//! its request.
//!
//! ```text
//!   requests  a  b        c d e            a, b are answered by read 1,
//!   reads      [1────────]    [2──────]    c by read 2 although 1 is in flight: read 1 began
//!                                          before c's request and may miss data that c must see
//! ```
//!
//! Another operation may yield the same information. It gets a number like a read, and answers the
//! callers that waited before it began.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use carnet_base::Tasks;
use carnet_base::sync::lock;

use crate::futures::Notify;

type Read<T> = Box<dyn Fn() -> Pin<Box<dyn Future<Output = T> + Send>> + Send + Sync>;

/// A read that callers share.
pub(crate) struct SharedRead<T> {
    read: Read<T>,
    tasks: Arc<dyn Tasks>,
    state: Mutex<SharedReadState<T>>,
    finished: Notify,
}

struct SharedReadState<T> {
    /// Number of the last read that began, here or elsewhere.
    begun: u64,
    is_reading: bool,
    /// Largest number that a caller waits for.
    wanted: u64,
    last: Option<(u64, T)>,
}

impl<T: Clone + Send + 'static> SharedRead<T> {
    pub(crate) fn new(
        tasks: Arc<dyn Tasks>,
        read: impl Fn() -> Pin<Box<dyn Future<Output = T> + Send>> + Send + Sync + 'static,
    ) -> Arc<Self> {
        let state = SharedReadState { begun: 0, is_reading: false, wanted: 0, last: None };
        let read = Box::new(read);
        Arc::new(Self { read, tasks, state: Mutex::new(state), finished: Notify::default() })
    }

    /// Returns the result of a read that began after this call.
    pub(crate) async fn fresh(self: &Arc<Self>) -> T {
        let wanted = self.ask();
        self.answered(wanted).await
    }

    /// Returns the result of another operation that begins after this call. Starts no read.
    pub(crate) async fn fresh_from_elsewhere(&self) -> T {
        let wanted = lock(&self.state).begun + 1;
        self.answered(wanted).await
    }

    /// Draws a number for another operation that begins now.
    pub(crate) fn begins_elsewhere(&self) -> u64 {
        let mut state = lock(&self.state);
        state.begun += 1;
        state.begun
    }

    /// Stores the result of the operation that [began](Self::begins_elsewhere) under a number.
    pub(crate) fn found_elsewhere(&self, number: u64, value: T) {
        lock(&self.state).found(number, value);
        self.finished.notify_all();
    }

    async fn answered(&self, wanted: u64) -> T {
        loop {
            let notified = self.finished.count();
            if let Some((number, value)) = &lock(&self.state).last
                && *number >= wanted
            {
                return value.clone();
            }
            self.finished.notified_after(notified).await;
        }
    }

    fn ask(self: &Arc<Self>) -> u64 {
        let mut state = lock(&self.state);
        let wanted = state.begun + 1;
        state.wanted = wanted;
        if !state.is_reading {
            state.is_reading = true;
            state.begun = wanted;
            drop(state);
            let this = Arc::clone(self);
            // A task of its own: dropping one caller must not cancel the read of others.
            self.tasks.spawn(Box::pin(async move { this.read_on(wanted).await }));
        }
        wanted
    }

    async fn read_on(self: Arc<Self>, mut number: u64) {
        loop {
            let value = (self.read)().await;
            let mut state = lock(&self.state);
            state.found(number, value);
            let is_last = state.last.as_ref().is_some_and(|(last, _)| state.wanted <= *last);
            if is_last {
                state.is_reading = false;
            } else {
                state.begun += 1;
                number = state.begun;
            }
            drop(state);
            self.finished.notify_all();
            if is_last {
                return;
            }
        }
    }
}

impl<T> SharedReadState<T> {
    /// Keeps the result of the read that began last.
    fn found(&mut self, number: u64, value: T) {
        if self.last.as_ref().is_none_or(|(last, _)| *last < number) {
            self.last = Some((number, value));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::task::{Context, Poll, Waker};

    use carnet_base::{Stepped, WorkerTasks};

    use super::*;

    #[test]
    fn caller_joins_only_reads_that_begin_later() {
        let stepped = Stepped::default();
        let tasks: Arc<dyn Tasks> = Arc::new(WorkerTasks::new("reads", &stepped));
        let (begun, gate) = (Arc::new(AtomicU64::new(0)), Arc::new(Notify::default()));
        let shared = {
            let (begun, gate) = (Arc::clone(&begun), Arc::clone(&gate));
            SharedRead::new(tasks, move || {
                let number = begun.fetch_add(1, Ordering::SeqCst) + 1;
                let gate = Arc::clone(&gate);
                Box::pin(async move {
                    gate.notified_after(number - 1).await;
                    number
                })
            })
        };
        let mut context = Context::from_waker(Waker::noop());
        let mut poll = |future: &mut Pin<Box<_>>| -> Poll<u64> {
            Future::poll(Pin::as_mut(future), &mut context)
        };
        let ask = || {
            Box::pin({
                let shared = Arc::clone(&shared);
                async move { shared.fresh().await }
            })
        };
        let (mut early, mut twin, mut late) = (ask(), ask(), ask());
        assert!(poll(&mut early).is_pending());
        stepped.settle();
        assert_eq!(begun.load(Ordering::SeqCst), 1);
        assert!(poll(&mut late).is_pending() && poll(&mut twin).is_pending());
        gate.notify_all();
        stepped.settle();
        assert_eq!(poll(&mut early), Poll::Ready(1));
        assert!(poll(&mut late).is_pending(), "read 1 had begun before");
        assert_eq!(begun.load(Ordering::SeqCst), 2);
        gate.notify_all();
        stepped.settle();
        assert_eq!((poll(&mut late), poll(&mut twin)), (Poll::Ready(2), Poll::Ready(2)));
        assert_eq!(begun.load(Ordering::SeqCst), 2, "two callers shared it");
    }

    #[test]
    fn result_from_elsewhere_answers_only_earlier_callers() {
        let stepped = Stepped::default();
        let tasks: Arc<dyn Tasks> = Arc::new(WorkerTasks::new("reads", &stepped));
        let shared = SharedRead::new(tasks, || Box::pin(std::future::ready("read")));
        let mut context = Context::from_waker(Waker::noop());
        let mut poll = |future: &mut Pin<Box<dyn Future<Output = &'static str>>>| {
            Future::poll(future.as_mut(), &mut context)
        };
        let ask = || -> Pin<Box<dyn Future<Output = &'static str>>> {
            let shared = Arc::clone(&shared);
            Box::pin(async move { shared.fresh_from_elsewhere().await })
        };
        let mut early = ask();
        assert!(poll(&mut early).is_pending());
        let (first, second) = (shared.begins_elsewhere(), shared.begins_elsewhere());
        let mut late = ask();
        assert!(poll(&mut late).is_pending());
        shared.found_elsewhere(second, "second");
        // A result that began earlier is ignored.
        shared.found_elsewhere(first, "first");
        assert_eq!(poll(&mut early), Poll::Ready("second"));
        assert!(poll(&mut late).is_pending(), "both had begun before");
        assert!(poll(&mut ask()).is_pending());
        let mut reader = {
            let shared = Arc::clone(&shared);
            let read: Pin<Box<dyn Future<Output = _>>> =
                Box::pin(async move { shared.fresh().await });
            read
        };
        assert!(poll(&mut reader).is_pending());
        stepped.settle();
        assert_eq!(
            (poll(&mut reader), poll(&mut late)),
            (Poll::Ready("read"), Poll::Ready("read"))
        );
    }
}
