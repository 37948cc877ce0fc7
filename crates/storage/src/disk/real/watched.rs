//! Reads that reach the device, and their observer.

use std::sync::Arc;

use carnet_base::Moment;

use crate::io::Watch;

/// The observer of reads.
pub(super) struct Watching(pub(super) Arc<dyn Watch>);

/// A read that reached the device.
pub(super) struct Watched {
    watching: Arc<Watching>,
    begun: Moment,
}

impl Watched {
    /// Notes the start of a read.
    pub(super) fn begin(watching: Arc<Watching>) -> Self {
        Self { begun: watching.0.begun(), watching }
    }

    pub(super) fn end(&self, bytes: usize) {
        self.watching.0.ended(bytes, self.begun);
    }
}
