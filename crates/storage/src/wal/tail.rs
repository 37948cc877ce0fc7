//! End of the log: reserves LSNs and decides rotations, without I/O.

use std::collections::VecDeque;

use super::lsn::Lsn;
use super::segment::HEADER_BYTES;

/// Position at which the log continues.
#[derive(Debug)]
pub(crate) struct Tail {
    next: Lsn,
    /// Number of the newest segment; `base` is the LSN of its first byte.
    segment: u64,
    base: Lsn,
    segment_bytes: u64,
}

/// Switch of the log to a new segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rotation {
    /// All records with smaller numbers precede the switch.
    pub(crate) before: u64,
    /// Number of the new segment.
    pub(crate) segment: u64,
    /// LSN of the new segment's first byte.
    pub(crate) base: Lsn,
}

/// Rotations that the writer has not carried out yet, oldest first.
pub(crate) type Rotations = VecDeque<Rotation>;

impl Tail {
    /// Continues at the beginning of a segment that the writer has open. A segment is full when the
    /// next record would make it longer than `segment_bytes`.
    pub(crate) const fn new(segment: u64, base: Lsn, segment_bytes: u64) -> Self {
        Self { next: base.after(HEADER_BYTES as u64), segment, base, segment_bytes }
    }

    /// Returns `true` if a record of this length has to go to a new segment.
    pub(crate) const fn is_full(&self, len: u64) -> bool {
        let used = self.next.0 - self.base.0;
        used > HEADER_BYTES as u64 && used.saturating_add(len) > self.segment_bytes
    }

    /// Reserves the LSN of a record of this length.
    pub(crate) fn reserve(&mut self, len: u64) -> Lsn {
        let lsn = self.next;
        self.next = lsn.after(len);
        lsn
    }

    /// Starts a new segment after all records below the number `before`.
    pub(crate) fn rotate(&mut self, before: u64) -> Rotation {
        self.base = self.next;
        self.segment += 1;
        self.next = self.base.after(HEADER_BYTES as u64);
        Rotation { before, segment: self.segment, base: self.base }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segment_rotates_when_full_but_not_empty() {
        let header = HEADER_BYTES as u64;
        let mut tail = Tail::new(3, Lsn(1000), 100);
        assert!(!tail.is_full(500), "a long record has its own segment");
        assert_eq!(tail.reserve(50), Lsn(1000 + header));
        assert!(!tail.is_full(10) && tail.is_full(11));
        let rotation = tail.rotate(7);
        let base = Lsn(1050 + header);
        assert_eq!(rotation, Rotation { before: 7, segment: 4, base });
        assert_eq!(tail.reserve(1), base.after(header));
    }
}
