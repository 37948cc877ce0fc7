//! Device of a simulated disk, with its clock and its observer.

use std::sync::Arc;

use carnet_base::{Clock, Moment, Timer, Wait};

use super::device::Device;
use crate::io::Watch;

/// Device of a disk.
pub(super) struct Timed {
    pub(super) device: Device,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) timer: Arc<dyn Timer>,
    pub(super) watch: Option<Arc<dyn Watch>>,
}

/// A read in the device.
pub(super) struct InDevice {
    pub(super) wait: Wait,
    pub(super) begun: Moment,
    pub(super) bytes: usize,
    pub(super) watch: Option<Arc<dyn Watch>>,
}

impl InDevice {
    /// Notifies the observer that the read has ended.
    pub(super) fn end(self) {
        if let Some(watch) = self.watch {
            watch.ended(self.bytes, self.begun);
        }
    }
}
