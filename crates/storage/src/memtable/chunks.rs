//! Memory that memtables have given back, for those to come.
//!
//! Memory that is fresh from the operating system has to be found and cleared, page by page, at
//! its first use: 3 to 9 µs for 4 KiB were seen on a virtual machine, as much as the insertion of
//! a dozen cells. What a flushed memtable leaves is warm.

use std::sync::{Arc, Mutex};

use super::arena::Line;
use crate::lock::lock;

/// Chunks of one size; nothing is in them. Clones share them.
///
/// At most as much is kept as one memtable takes, so that memtables and chunks together never
/// take more than memtables alone did at one time.
#[derive(Clone, Debug)]
pub(crate) struct Chunks(Arc<Kept>);

struct Kept {
    chunks: Mutex<Vec<Vec<Line>>>,
    most: usize,
}

impl std::fmt::Debug for Kept {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kept").field("most", &self.most).finish_non_exhaustive()
    }
}

impl Chunks {
    /// Keeps at most so many bytes.
    pub(crate) fn new(bytes_max: usize) -> Self {
        let most = bytes_max / super::arena::SPAN_BYTES;
        Self(Arc::new(Kept { chunks: Mutex::default(), most }))
    }

    pub(super) fn take(&self) -> Option<Vec<Line>> {
        lock(&self.0.chunks).pop()
    }

    pub(super) fn give(&self, given: impl Iterator<Item = Vec<Line>>) {
        let mut chunks = lock(&self.0.chunks);
        let room = self.0.most.saturating_sub(chunks.len());
        chunks.extend(given.take(room));
    }

    /// Bytes that are kept.
    pub(crate) fn bytes(&self) -> usize {
        lock(&self.0.chunks).len() * super::arena::SPAN_BYTES
    }
}
