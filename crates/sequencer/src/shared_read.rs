//! One read for many callers, each of whom needs one that *began* after it asked.
//!
//! ```text
//!   asked     a  b        c d e            a, b are answered by read 1,
//!   reads      [1────────]    [2──────]    c by read 2 although 1 is under way: that one began
//!                                          before c asked, and may have missed what c must see
//! ```
//!
//! Something else than the read may say the same, by the way: it has a number like a read's, and
//! answers whoever asked before it began.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use carnet_base::Tasks;

use crate::futures::Bell;
use crate::oneshot::lock;

type Read<T> = Box<dyn Fn() -> Pin<Box<dyn Future<Output = T> + Send>> + Send + Sync>;

/// Shares reads.
pub(crate) struct SharedRead<T> {
    read: Read<T>,
    tasks: Arc<dyn Tasks>,
    state: Mutex<State<T>>,
    finished: Bell,
}

struct State<T> {
    /// The number of the last read that began, here or elsewhere.
    begun: u64,
    is_reading: bool,
    /// The largest number that anybody waits for.
    wanted: u64,
    last: Option<(u64, T)>,
}

impl<T: Clone + Send + 'static> SharedRead<T> {
    pub(crate) fn new(
        tasks: Arc<dyn Tasks>,
        read: impl Fn() -> Pin<Box<dyn Future<Output = T> + Send>> + Send + Sync + 'static,
    ) -> Arc<Self> {
        let state = State { begun: 0, is_reading: false, wanted: 0, last: None };
        let read = Box::new(read);
        Arc::new(Self { read, tasks, state: Mutex::new(state), finished: Bell::default() })
    }

    /// Returns what a read found that began after this was called.
    pub(crate) async fn fresh(self: &Arc<Self>) -> T {
        let wanted = self.ask();
        self.answered(wanted).await
    }

    /// Returns what something else says that begins after this was called. No read is made for it.
    pub(crate) async fn fresh_from_elsewhere(&self) -> T {
        let wanted = lock(&self.state).begun + 1;
        self.answered(wanted).await
    }

    /// Gives what begins now a number.
    pub(crate) fn begins_elsewhere(&self) -> u64 {
        let mut state = lock(&self.state);
        state.begun += 1;
        state.begun
    }

    /// Takes what was found by what [began](Self::begins_elsewhere) under a number.
    pub(crate) fn found_elsewhere(&self, number: u64, value: T) {
        lock(&self.state).found(number, value);
        self.finished.ring();
    }

    async fn answered(&self, wanted: u64) -> T {
        loop {
            let rung = self.finished.count();
            if let Some((number, value)) = &lock(&self.state).last
                && *number >= wanted
            {
                return value.clone();
            }
            self.finished.rung_after(rung).await;
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
            // A task of its own: a caller that is dropped takes nobody's read with it.
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
            self.finished.ring();
            if is_last {
                return;
            }
        }
    }
}

impl<T> State<T> {
    /// Keeps what began last.
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
    fn a_caller_joins_only_a_read_that_begins_after_it_asked() {
        let stepped = Stepped::default();
        let tasks: Arc<dyn Tasks> = Arc::new(WorkerTasks::new("reads", &stepped));
        let (begun, gate) = (Arc::new(AtomicU64::new(0)), Arc::new(Bell::default()));
        let shared = {
            let (begun, gate) = (Arc::clone(&begun), Arc::clone(&gate));
            SharedRead::new(tasks, move || {
                let number = begun.fetch_add(1, Ordering::SeqCst) + 1;
                let gate = Arc::clone(&gate);
                Box::pin(async move {
                    gate.rung_after(number - 1).await;
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
        gate.ring();
        stepped.settle();
        assert_eq!(poll(&mut early), Poll::Ready(1));
        assert!(poll(&mut late).is_pending(), "read 1 had begun before");
        assert_eq!(begun.load(Ordering::SeqCst), 2);
        gate.ring();
        stepped.settle();
        assert_eq!((poll(&mut late), poll(&mut twin)), (Poll::Ready(2), Poll::Ready(2)));
        assert_eq!(begun.load(Ordering::SeqCst), 2, "two callers shared it");
    }

    #[test]
    fn what_is_found_elsewhere_answers_who_asked_before_it_began() {
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
        // What began before is no news.
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
