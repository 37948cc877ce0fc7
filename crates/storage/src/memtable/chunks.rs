//! Pool of the chunks that dropped memtables have returned, for later memtables.
//!
//! The operating system finds and clears fresh memory page by page at its first use, which costs as
//! much as inserting a dozen cells per page. The chunks of a flushed memtable are populated
//! already.

use std::fmt;
use std::sync::{Arc, Mutex};

use super::line::Line;
use crate::lock::lock;

/// Minimum size of a pooled chunk; smaller ones are cheap to allocate.
const KEPT_LINES_MIN: usize = (256 << 10) / size_of::<Line>();

/// Empty chunks. Clones share them.
///
/// The pool holds at most as much as one memtable takes. A memtable that grows shrinks the pool: by
/// the chunk that it takes or, if none has its size, by as many bytes that are freed. So memtables
/// and pool together never take more than the memtables alone at their peak.
#[derive(Clone, Debug)]
pub(crate) struct Chunks(Arc<Shared>);

struct Shared {
    kept: Mutex<Kept>,
    lines_max: usize,
}

#[derive(Default)]
struct Kept {
    chunks: Vec<Vec<Line>>,
    lines: usize,
}

impl Kept {
    /// Removes chunks of at least `lines` lines in total, if the pool has them.
    fn give_up(&mut self, lines: usize) -> Vec<Vec<Line>> {
        let (mut chunks, mut found) = (Vec::new(), 0);
        while found < lines
            && let Some(chunk) = self.chunks.pop()
        {
            found += chunk.capacity();
            chunks.push(chunk);
        }
        self.lines -= found;
        chunks
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("lines_max", &self.lines_max).finish_non_exhaustive()
    }
}

impl Chunks {
    /// Makes an empty pool of at most `bytes_max` bytes.
    pub(crate) fn new(bytes_max: usize) -> Self {
        let lines_max = bytes_max / size_of::<Line>();
        Self(Arc::new(Shared { kept: Mutex::default(), lines_max }))
    }

    /// Takes a chunk of exactly this capacity, if there is one; otherwise frees others for it.
    pub(super) fn take(&self, lines: usize) -> Option<Vec<Line>> {
        if lines < KEPT_LINES_MIN {
            return None;
        }
        let mut kept = lock(&self.0.kept);
        if let Some(at) = kept.chunks.iter().rposition(|chunk| chunk.capacity() == lines) {
            kept.lines -= lines;
            return Some(kept.chunks.swap_remove(at));
        }
        let given_up = kept.give_up(lines);
        // Freed without the lock, so that no other thread waits for the allocator.
        drop(kept);
        drop(given_up);
        None
    }

    pub(super) fn give(&self, chunks: impl Iterator<Item = Vec<Line>>) {
        let mut kept = lock(&self.0.kept);
        for chunk in chunks {
            let lines = chunk.capacity();
            if lines >= KEPT_LINES_MIN && kept.lines + lines <= self.0.lines_max {
                kept.lines += lines;
                kept.chunks.push(chunk);
            }
        }
    }

    /// Returns the size of the pooled chunks.
    pub(crate) fn bytes(&self) -> usize {
        lock(&self.0.kept).lines * size_of::<Line>()
    }
}
