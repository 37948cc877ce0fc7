//! Statements of a connection that wait for their admission, and the backpressure on its client.
//!
//! A client may send thousands of requests before it reads an answer. They are not refused: the connection is not read
//! from while its part of the gate's queue is used up. The rest stays in the kernel's buffers, and finally with the
//! client. So a queue holds a few statements of each connection, and a client with little in flight does not wait
//! behind all requests of another one.
//!
//! Statements that are refused under overload ([`Workload::is_refused`]) are not counted: the gate has to see all of
//! them to decide.
//!
//! [`Workload::is_refused`]: carnet_admission::Workload::is_refused

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use carnet_admission::Arrived;
use tokio::sync::Notify;

/// Maximum part of a connection in the queue, however few connections wait. It covers the time until the
/// connection's task reads on.
const SHARE_MAX: usize = 32;

/// Connections with waiting statements, and the part of the queue that each of them may use.
#[derive(Debug)]
pub(crate) struct Backlogs {
    queue_max: usize,
    connections: AtomicUsize,
}

impl Backlogs {
    /// Creates the backlogs of a server whose queues hold `queue_max` statements.
    pub(crate) const fn new(queue_max: usize) -> Self {
        Self { queue_max, connections: AtomicUsize::new(0) }
    }

    /// Returns the number of waiting statements from which a connection is not read from.
    fn share(&self) -> usize {
        // Relaxed, here and below: the counters guard no other memory.
        let connections = self.connections.load(Ordering::Relaxed).max(1);
        (self.queue_max / connections).clamp(1, SHARE_MAX)
    }
}

/// Waiting statements of one connection.
#[derive(Debug)]
pub(super) struct Backlog {
    all: Arc<Backlogs>,
    waiting: AtomicUsize,
    throttled: AtomicUsize,
    /// Notified when the connection may be read from again.
    room: Notify,
}

impl Backlog {
    pub(super) fn new(all: Arc<Backlogs>) -> Self {
        Self {
            all,
            waiting: AtomicUsize::new(0),
            throttled: AtomicUsize::new(0),
            room: Notify::new(),
        }
    }

    /// Returns `true` if the connection may be read from.
    pub(super) fn has_room(&self) -> bool {
        self.throttled.load(Ordering::Relaxed) == 0
            && self.waiting.load(Ordering::Relaxed) < self.all.share()
    }

    /// Waits until statements have left the queue of a connection without room.
    pub(super) async fn changed(&self) {
        self.room.notified().await;
    }

    /// Counts a statement that waits for its admission until the returned value is dropped.
    pub(super) fn count(self: &Arc<Self>, arrived: Option<&Arrived>) -> Option<InQueue> {
        let Some(Arrived::Waits(place)) = arrived else { return None };
        let (is_counted, is_throttled) = (!place.workload().is_refused(), place.is_throttled());
        if is_counted && self.waiting.fetch_add(1, Ordering::Relaxed) == 0 {
            self.all.connections.fetch_add(1, Ordering::Relaxed);
        }
        self.throttled.fetch_add(usize::from(is_throttled), Ordering::Relaxed);
        Some(InQueue { backlog: Arc::clone(self), is_counted, is_throttled })
    }
}

/// A statement that waits for its admission.
#[derive(Debug)]
pub(super) struct InQueue {
    backlog: Arc<Backlog>,
    is_counted: bool,
    is_throttled: bool,
}

impl Drop for InQueue {
    fn drop(&mut self) {
        let Backlog { all, waiting, throttled, room } = &*self.backlog;
        if self.is_counted && waiting.fetch_sub(1, Ordering::Relaxed) == 1 {
            all.connections.fetch_sub(1, Ordering::Relaxed);
        }
        throttled.fetch_sub(usize::from(self.is_throttled), Ordering::Relaxed);
        if self.backlog.has_room() {
            room.notify_one();
        }
    }
}
