//! Memory that memtables have given back, for those to come.
//!
//! Memory that is fresh from the operating system has to be found and cleared, page by page, at
//! its first use: 3 to 9 µs for 4 KiB were seen on a virtual machine, as much as the insertion of
//! a dozen cells. What a flushed memtable leaves is warm.

use std::fmt;
use std::sync::{Arc, Mutex};

use super::arena::Line;
use crate::lock::lock;

/// Smaller chunks are cheap to get, and not kept.
const KEPT_LINES_MIN: usize = (256 << 10) / size_of::<Line>();

/// Empty chunks. Clones share them.
///
/// At most as much is kept as one memtable takes, and a memtable that grows has what is kept become
/// less: by the chunk that it takes, or, where none is of its size, by as much that is given up. So
/// memtables and chunks together never take more than memtables alone did at one time.
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
    /// Takes out chunks that are as long together, if there are.
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
    /// Keeps at most so many bytes.
    pub(crate) fn new(bytes_max: usize) -> Self {
        let lines_max = bytes_max / size_of::<Line>();
        Self(Arc::new(Shared { kept: Mutex::default(), lines_max }))
    }

    /// Takes a chunk of exactly this capacity, if there is one; otherwise gives up others for it.
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
        // Nobody waits while the allocator takes them back.
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

    /// Bytes that are kept.
    pub(crate) fn bytes(&self) -> usize {
        lock(&self.0.kept).lines * size_of::<Line>()
    }
}
