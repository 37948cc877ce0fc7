//! Runs futures on one thread, without a runtime.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use crate::node::Work;

/// Is notified when a task is ready, and then calls [`Tasks::poll`] from the thread of the tasks.
pub trait Notify: Send + Sync + 'static {
    /// Notifies of a ready task, given its number.
    fn notify(&self, task: u64);
}

/// Unfinished futures, by number.
pub struct Tasks {
    notify: Arc<dyn Notify>,
    running: HashMap<u64, (Work, Arc<Flag>)>,
    started: u64,
}

struct Flag {
    task: u64,
    notify: Arc<dyn Notify>,
    /// Whether it was notified since the last poll: once is enough.
    is_woken: AtomicBool,
}

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.is_woken.swap(true, Ordering::AcqRel) {
            self.notify.notify(self.task);
        }
    }
}

impl Tasks {
    /// Creates an empty set of tasks.
    #[must_use]
    pub fn new(notify: Arc<dyn Notify>) -> Self {
        Self { notify, running: HashMap::new(), started: 0 }
    }

    /// Starts a task, and polls it once.
    pub fn start(&mut self, work: Work) {
        self.started += 1;
        let (task, notify) = (self.started, Arc::clone(&self.notify));
        let flag = Flag { task, notify, is_woken: AtomicBool::new(true) };
        self.running.insert(task, (work, Arc::new(flag)));
        self.poll(task);
    }

    /// Polls a task. A task that has ended is removed, and polling it does nothing.
    pub fn poll(&mut self, task: u64) {
        let Some((work, flag)) = self.running.get_mut(&task) else { return };
        // Before the poll, so that a wake during the poll counts.
        flag.is_woken.store(false, Ordering::Release);
        let waker = Waker::from(Arc::clone(flag));
        if let Poll::Ready(()) = work.as_mut().poll(&mut Context::from_waker(&waker)) {
            self.running.remove(&task);
        }
    }
}
