//! Long statements run on threads of their own.
//!
//! # The problem
//!
//! A statement whose rows are in memory never waits, so it keeps its thread. It yields after each
//! time slice, but a point read that arrives meanwhile waits for one slice of each long statement
//! on its thread, and longer for work that cannot yield: parsing a long text, or encoding a long
//! page.
//!
//! # Two kinds of threads
//!
//! ```text
//!   threads of the connections            long threads, one for each processor, nice 10
//!   ──────────────────────────            ─────────────────────────────────────────────
//!   first slice ──▶ done: nearly all
//!       │ used up                     ┌──▶ RunQueue ──▶ a slice ──▶ … ──▶ done
//!       └─────────────────────────────┤       ▲────────────┘
//!   batch beside short ones, long texts┘
//! ```
//!
//! A statement that yields at the end of its first slice moves to the *long threads*; a statement
//! that waits for a disk, a log or a cluster does not yield, and stays. The kernel preempts the
//! long threads as soon as a connection's thread has work. While both kinds have more work than
//! processors, the long threads get about a tenth (the weights of nice 10 and nice 0 are 110 and
//! 1,024): long statements are slow but do not starve. Among themselves they run in turns
//! ([`carnet_admission::RunQueue`]), by the shares of their levels.
//!
//! A batch statement begins on a long thread while short statements arrive, which its first slice would delay. Without
//! them the change of threads would be its only effect.
//!
//! # Invariants
//!
//! * A future is polled by one thread at a time and is dropped with the statement's task.
//! * A turn lasts for one poll, or goes on into the next one; it ends when the future is dropped.

mod meter;
mod turns;

use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use carnet_admission::Permit;
use carnet_base::Clock;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;
use tracing::warn;

use crate::metrics::{Metrics, Threads};
use meter::Meter;
pub(crate) use meter::{Work, yield_now};
use turns::{InTurns, Turns};

/// Nice value of the long threads.
const NICE: i32 = 10;
/// Request length in bytes above which a statement starts on a long thread, because parsing does
/// not yield.
const TEXT_BYTES_MAX: usize = 64 << 10;

/// The threads of long statements.
pub(crate) struct LongThreads {
    /// The runtime; `None` during the drop.
    runtime: Option<Runtime>,
    turns: Arc<Turns>,
    meter: Meter,
}

impl LongThreads {
    pub(crate) fn start(clock: Arc<dyn Clock>, metrics: Arc<Metrics>) -> io::Result<Self> {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let runtime = Builder::new_multi_thread()
            .worker_threads(threads)
            .thread_name("carnet-long")
            .on_thread_start(lower_priority)
            .enable_all()
            .build()?;
        let (turns, meter) = (Arc::new(Turns::new(threads)), Meter { clock, metrics });
        Ok(Self { runtime: Some(runtime), turns, meter })
    }

    /// Polls the first slice of a statement once. The statement goes on in [`LongThreads::run`].
    pub(crate) fn poll_once<T>(
        &self,
        slices: &mut Slices<T>,
        context: &mut Context<'_>,
    ) -> Poll<T> {
        if slices.is_long {
            return Poll::Pending;
        }
        match slices.poll_first(&self.meter, context) {
            Poll::Ready(Some(output)) => Poll::Ready(output),
            Poll::Ready(None) | Poll::Pending => Poll::Pending,
        }
    }

    /// Runs a statement to its end. Dropping the future drops the statement.
    pub(crate) async fn run<T: Send + 'static>(&self, mut slices: Slices<T>) -> T {
        if !slices.is_long
            && let Some(output) = poll_fn(|context| slices.poll_first(&self.meter, context)).await
        {
            return output;
        }
        self.meter.metrics.statements_long.add(1);
        let Slices { work, permit, used, .. } = slices;
        let work = work.expect("it has not ended");
        let in_turns = InTurns::new(work, used, permit, &self.turns, self.meter.clone());
        let runtime = self.runtime.as_ref().expect("it runs until it is dropped");
        match AbortOnDrop(runtime.spawn(in_turns)).await {
            Ok(output) => output,
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            // The server is gone, and with it the statement's connection.
            Err(_) => std::future::pending().await,
        }
    }
}

impl Drop for LongThreads {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // A server may be dropped on a thread that must not block.
            runtime.shutdown_background();
        }
    }
}

fn lower_priority() {
    // Applies to the calling thread only.
    if let Err(error) = rustix::process::setpriority_process(None, NICE) {
        warn!(%error, "long statements run at the priority of short ones");
    }
}

/// Returns `true` for a statement of `bytes` bytes that begins on a long thread.
pub(crate) fn begins_long(permit: Option<&Permit>, bytes: usize) -> bool {
    bytes > TEXT_BYTES_MAX || permit.is_some_and(Permit::begins_long)
}

/// Statement with its permit. It runs on the connections' threads until it has used up a slice.
pub(crate) struct Slices<T> {
    /// The statement; `None` after its end or its move to the long threads.
    work: Option<Work<T>>,
    permit: Option<Arc<Permit>>,
    used: Duration,
    /// Whether it goes on on a long thread.
    is_long: bool,
}

impl<T> Slices<T> {
    /// Creates a statement of `bytes` bytes that has not begun.
    pub(crate) fn new(work: Work<T>, permit: Option<Arc<Permit>>, bytes: usize) -> Self {
        let is_long = begins_long(permit.as_deref(), bytes);
        Self { work: Some(work), permit, used: Duration::ZERO, is_long }
    }

    /// Returns the permit of a statement that has not ended.
    pub(crate) const fn permit(&self) -> Option<&Arc<Permit>> {
        self.permit.as_ref()
    }

    /// Polls the statement in its first slice. Returns `None` when the slice is used up.
    fn poll_first(&mut self, meter: &Meter, context: &mut Context<'_>) -> Poll<Option<T>> {
        let work = self.work.as_mut().expect("it has not ended");
        let polled = meter.poll(work, self.permit.as_ref(), Threads::Connections, context);
        self.used += polled.took;
        match polled.poll {
            Poll::Ready(output) => {
                // The permit that the statement holds is released before its answer is sent.
                self.work = None;
                self.permit = None;
                Poll::Ready(Some(output))
            }
            Poll::Pending if polled.has_yielded => {
                self.is_long = true;
                Poll::Ready(None)
            }
            Poll::Pending => Poll::Pending,
        }
    }
}

/// A task that is aborted when its handle is dropped.
pub(crate) struct AbortOnDrop<T>(pub(crate) JoinHandle<T>);

impl<T> Future for AbortOnDrop<T> {
    type Output = Result<T, tokio::task::JoinError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(context)
    }
}

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
