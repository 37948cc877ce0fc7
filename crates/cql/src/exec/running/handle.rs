//! Handle by which a server runs a registered statement.

use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;

use carnet_admission::{Class, Permit};

use super::entry::Entry;
use super::registry::Running;

/// Handle of a registered statement, which is registered until the handle is dropped.
pub struct RunningStatement {
    running: Arc<Running>,
    shard: usize,
    entry: Arc<Entry>,
}

impl RunningStatement {
    pub(in crate::exec) fn new(running: &Arc<Running>, make: impl FnOnce(u64) -> Entry) -> Self {
        let (shard, entry) = running.enter(make);
        Self { running: Arc::clone(running), shard, entry }
    }

    /// Records that the statement begins, with its permit.
    pub fn begin(&self, permit: Option<&Arc<Permit>>) {
        self.entry.begin(permit);
    }

    /// Returns `true` if the statement has begun: it may have had an effect.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        self.entry.has_begun()
    }

    /// Returns `true` if the statement alone has no effect: a read, or a change within an open
    /// transaction of this server. Call it before the future of the statement is dropped, which holds
    /// the permit.
    #[must_use]
    pub fn is_without_effect(&self) -> bool {
        self.entry.is_part() || matches!(self.entry.admission, Some((Class::Read, _)))
    }

    /// Waits until the statement is killed.
    pub async fn killed(&self) {
        poll_fn(|context| self.entry.poll_killed(context.waker())).await;
    }
}

impl Drop for RunningStatement {
    fn drop(&mut self) {
        self.running.leave(self.shard, self.entry.id);
    }
}

impl fmt::Debug for RunningStatement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RunningStatement").field(&self.entry.id).finish()
    }
}
