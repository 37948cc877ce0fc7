//! Polls of statements: whether a time slice ended, and how long a poll took.

use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use carnet_admission::Permit;
use carnet_base::{Clock, ReadLevel, with_read_level};

use crate::metrics::{Metrics, Threads};

thread_local! {
    /// Whether the polled statement has yielded at the end of a slice.
    static HAS_YIELDED: Cell<bool> = const { Cell::new(false) };
}

/// Yields at the end of a time slice to other tasks, including those whose sockets have become
/// ready.
pub(crate) fn yield_now() -> Pin<Box<dyn Future<Output = ()> + Send>> {
    HAS_YIELDED.set(true);
    Box::pin(tokio::task::yield_now())
}

/// Future of a statement.
pub(crate) type Work<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Measurement of polls.
#[derive(Clone)]
pub(super) struct Meter {
    pub(super) clock: Arc<dyn Clock>,
    pub(super) metrics: Arc<Metrics>,
}

impl Meter {
    /// Polls a statement and measures the poll.
    pub(super) fn poll<T>(
        &self,
        work: &mut Work<T>,
        permit: Option<&Arc<Permit>>,
        threads: Threads,
        context: &mut Context<'_>,
    ) -> Polled<T> {
        let begun = self.clock.now();
        HAS_YIELDED.set(false);
        let level = permit.map_or_else(ReadLevel::default, |permit| {
            let (id, shares) = permit.level();
            ReadLevel { id: id.0, shares }
        });
        let poll = with_read_level(level, || work.as_mut().poll(context));
        let has_yielded = HAS_YIELDED.take() && poll.is_pending();
        let took = self.clock.now().since(begun);
        self.metrics.poll_duration.get(threads).record(took);
        if let Some(permit) = permit {
            permit.count_processor(took);
        }
        Polled { poll, has_yielded, took }
    }
}

/// Result of a poll.
pub(super) struct Polled<T> {
    pub(super) poll: Poll<T>,
    /// Whether its time slice ended before the statement did.
    pub(super) has_yielded: bool,
    pub(super) took: Duration,
}
