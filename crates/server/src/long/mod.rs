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
//!   batch statements, long texts ─────┘
//! ```
//!
//! A statement that yields at the end of its first slice moves to the *long threads*; a statement
//! that waits for a disk, a log or a cluster does not yield, and stays. The kernel preempts the
//! long threads as soon as a connection's thread has work. While both kinds have more work than
//! processors, the long threads get about a tenth (the weights of nice 10 and nice 0 are 110 and
//! 1,024): long statements are slow but do not starve. Among themselves they run in turns
//! ([`carnet::admission::RunQueue`]), by the shares of their levels.
//!
//! # Invariants
//!
//! * A future is polled by one thread at a time and is dropped with the statement's task.
//! * A turn lasts for one poll, or goes on into the next one; it ends when the future is dropped.

mod meter;
mod turns;

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use carnet::admission::{Permit, Workload};
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

    /// Runs a statement of `bytes` bytes by its permit. Dropping the future drops the statement.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: Work<T>,
        permit: Option<Arc<Permit>>,
        bytes: usize,
    ) -> T {
        let is_batch = permit.as_ref().is_some_and(|permit| permit.workload() == Workload::Batch);
        let (work, used) = if is_batch || bytes > TEXT_BYTES_MAX {
            (work, Duration::ZERO)
        } else {
            let work = Some(work);
            let permit = permit.clone();
            let first = FirstSlice { work, used: Duration::ZERO, permit, meter: &self.meter };
            match first.await {
                Ok(output) => return output,
                Err(rest) => rest,
            }
        };
        self.meter.metrics.statements_long.add(1);
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

/// Part of a statement that runs on the connections' threads: all of it, or the part before it has
/// used up a slice.
struct FirstSlice<'m, T> {
    /// The statement; `None` after its end.
    work: Option<Work<T>>,
    used: Duration,
    permit: Option<Arc<Permit>>,
    meter: &'m Meter,
}

impl<T> Future for FirstSlice<'_, T> {
    type Output = Result<T, (Work<T>, Duration)>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let work = this.work.as_mut().expect("it is not polled after its end");
        let permit = this.permit.as_ref();
        let polled = this.meter.poll(work, permit, Threads::Connections, context);
        this.used += polled.took;
        match polled.poll {
            Poll::Ready(output) => Poll::Ready(Ok(output)),
            Poll::Pending if !polled.has_yielded => Poll::Pending,
            Poll::Pending => {
                let work = this.work.take().expect("it was polled");
                Poll::Ready(Err((work, this.used)))
            }
        }
    }
}

/// A task that is aborted when its handle is dropped.
struct AbortOnDrop<T>(JoinHandle<T>);

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
