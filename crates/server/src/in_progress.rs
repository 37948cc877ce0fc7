//! Statements in progress, for which a drain waits.

use std::sync::{Arc, Mutex};

use carnet_base::lock;
use tokio::sync::mpsc;

/// Waits for statements in progress.
pub(crate) struct InProgress {
    working: Working,
    ended: mpsc::Receiver<()>,
}

/// Counts statements in progress. Clones share the count.
#[derive(Clone)]
pub(crate) struct Working(Arc<Mutex<Option<mpsc::Sender<()>>>>);

/// A statement in progress, until it is dropped.
pub(crate) struct InProgressGuard(
    #[expect(dead_code, reason = "its drop counts")] mpsc::Sender<()>,
);

impl InProgress {
    /// Creates an empty count.
    pub(crate) fn new() -> (Self, Working) {
        let (sender, ended) = mpsc::channel(1);
        let working = Working(Arc::new(Mutex::new(Some(sender))));
        (Self { working: working.clone(), ended }, working)
    }

    /// Accepts no more statements, and waits for the ones in progress.
    pub(crate) async fn drain(&mut self) {
        drop(lock(&self.working.0).take());
        // No value is ever sent: this completes when the last statement drops its sender.
        let _ = self.ended.recv().await;
    }
}

impl Working {
    /// Counts a statement; `None` during a drain.
    pub(crate) fn begin(&self) -> Option<InProgressGuard> {
        lock(&self.0).clone().map(InProgressGuard)
    }
}
