//! Runs futures on one thread, without a runtime.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use crate::node::Work;

/// Is told that a task can go on; calls [`Tasks::poll`] then, from the thread of the tasks.
pub trait Notify: Send + Sync + 'static {
    /// Tells the number of the task.
    fn notify(&self, task: u64);
}

/// Futures under way, by number.
pub struct Tasks {
    notify: Arc<dyn Notify>,
    running: HashMap<u64, (Work, Arc<Flag>)>,
    started: u64,
}

struct Flag {
    task: u64,
    notify: Arc<dyn Notify>,
    /// It was notified, and not polled since: once is enough.
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
    /// Makes an empty set of tasks.
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

    /// Polls a task; one that has ended is no more, and polling it does nothing.
    pub fn poll(&mut self, task: u64) {
        let Some((work, flag)) = self.running.get_mut(&task) else { return };
        // Before the poll, so that what happens during it counts.
        flag.is_woken.store(false, Ordering::Release);
        let waker = Waker::from(Arc::clone(flag));
        if let Poll::Ready(()) = work.as_mut().poll(&mut Context::from_waker(&waker)) {
            self.running.remove(&task);
        }
    }
}
