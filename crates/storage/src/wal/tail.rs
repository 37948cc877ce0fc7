//! The growing end of the log, as a pure structure: it gives places and keeps what is pending.

use bytes::Bytes;
use carnet_base::Timestamp;

use super::segment::HEADER_BYTES;
use super::{Lsn, Record};

/// What the writer has yet to do, in order.
#[derive(Debug)]
pub(crate) enum Item {
    /// Write a record.
    Record(Record),
    /// Go on in a new segment.
    Rotate {
        /// The new segment's number.
        segment: u64,
        /// The LSN of its first byte.
        base: Lsn,
    },
}

/// Where the log goes on.
#[derive(Debug)]
pub(crate) struct Tail {
    next: Lsn,
    segment: u64,
    pending: Vec<Item>,
}

impl Tail {
    /// Goes on at an LSN of a segment that the writer has open.
    pub(crate) const fn new(segment: u64, next: Lsn) -> Self {
        Self { next, segment, pending: Vec::new() }
    }

    /// Reserves the next place for a record; returns the LSN at which it ends.
    pub(crate) fn reserve(
        &mut self,
        start: Timestamp,
        commit: Timestamp,
        body: Bytes,
        body_crc: u32,
    ) -> Lsn {
        let lsn = self.next;
        self.next = lsn.after(Record::len_with(body.len()));
        self.pending.push(Item::Record(Record { lsn, start, commit, body, body_crc }));
        self.next
    }

    /// Reserves the beginning of a new segment; returns its number and base.
    pub(crate) fn rotate(&mut self) -> (u64, Lsn) {
        let base = self.next;
        self.segment += 1;
        self.next = base.after(HEADER_BYTES as u64);
        self.pending.push(Item::Rotate { segment: self.segment, base });
        (self.segment, base)
    }

    /// Takes everything that is pending, leaving an empty buffer in its place.
    pub(crate) fn take(&mut self, into: &mut Vec<Item>) {
        debug_assert!(into.is_empty());
        std::mem::swap(&mut self.pending, into);
    }

    /// Tells whether nothing is pending.
    pub(crate) const fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }
}
