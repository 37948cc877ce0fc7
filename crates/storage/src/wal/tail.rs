//! The growing end of the log, as a pure structure: it gives places.

use std::collections::VecDeque;

use super::Lsn;
use super::segment::HEADER_BYTES;

/// Where the log goes on.
#[derive(Debug)]
pub(crate) struct Tail {
    next: Lsn,
    /// The newest segment and the LSN of its first byte.
    segment: u64,
    base: Lsn,
    segment_bytes: u64,
}

/// The log goes on in a new segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rotation {
    /// All records with smaller numbers come before it.
    pub(crate) before: u64,
    /// The new segment.
    pub(crate) segment: u64,
    /// The LSN of its first byte.
    pub(crate) base: Lsn,
}

/// Rotations that the writer has yet to carry out, oldest first.
pub(crate) type Rotations = VecDeque<Rotation>;

impl Tail {
    /// Goes on at an LSN of a segment that the writer has open; a segment is left when the next
    /// record would make it longer than `segment_bytes`.
    pub(crate) const fn new(segment: u64, base: Lsn, segment_bytes: u64) -> Self {
        Self { next: base.after(HEADER_BYTES as u64), segment, base, segment_bytes }
    }

    /// Tells whether a record of that length is to go to a new segment.
    pub(crate) const fn is_full(&self, len: u64) -> bool {
        let used = self.next.0 - self.base.0;
        used > HEADER_BYTES as u64 && used.saturating_add(len) > self.segment_bytes
    }

    /// Reserves the next place for a record of that length.
    pub(crate) fn reserve(&mut self, len: u64) -> Lsn {
        let lsn = self.next;
        self.next = lsn.after(len);
        lsn
    }

    /// Reserves the beginning of a new segment, behind all records below a number.
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
    fn a_segment_is_left_before_it_grows_too_long_but_never_empty() {
        let header = HEADER_BYTES as u64;
        let mut tail = Tail::new(3, Lsn(1000), 100);
        assert!(!tail.is_full(500), "a long record has a segment to itself");
        assert_eq!(tail.reserve(50), Lsn(1000 + header));
        assert!(!tail.is_full(10) && tail.is_full(11));
        let rotation = tail.rotate(7);
        let base = Lsn(1050 + header);
        assert_eq!(rotation, Rotation { before: 7, segment: 4, base });
        assert_eq!(tail.reserve(1), base.after(header));
    }
}
