//! The log: what was decided, in the order in which it was decided.
//!
//! ```text
//!   wal-00000007.log                               wal-00000008.log
//!   ┌────────┬──────────────┬────────┬────────┐    ┌────────┬────────
//!   │segment │header  body  │ h  b   │ h  b   │    │segment │ h  b …
//!   └────────┴──────────────┴────────┴────────┘    └────────┴────────
//!   ↑ base LSN               ↑ LSN = base + place in the file
//! ```
//!
//! A record's *LSN* is its place in the whole log, so that a header found anywhere else, from
//! whatever former life of the bytes, is not a record. Places are reserved by [`Tail`] inside the
//! critical section that also decides the commit: **the order of places is the order of commits**.
//! [`Writer`] writes whatever is pending when it comes round, in one write for a segment.
//!
//! **The torn tail and corruption.** Pages that were not synced persist in any order, so that
//! after a loss of power a valid record may follow a bad one. [`recovery`] cuts the log at the
//! first bad record: nothing from there on was acknowledged as durable. But each header also
//! says through which LSN the log was durable when it was written. If any header that is found
//! behind the bad record says that the bad record was durable, then the bytes went bad *after*
//! they were acknowledged. That is corruption: it is reported with its file and place, and never
//! skipped. A segment without the header of its place is corruption, too: a file gets a segment's
//! name only once its header is durable (see [`recovery`] for the cases). A cut is carried out, and synced, before anything new is written, and what is new
//! goes to a fresh segment whose header vouches for all before it.
//!
//! **Recycled segments.** A segment that the manifest does not need any more becomes the next new
//! one by a new header and then a change of its name: its space is allocated and its blocks are written, so that a sync
//! has no metadata to write. What its former life left in it lies behind the new records, whole
//! and with right checksums. It is told by its LSNs: the new base is greater than the old one, so
//! that no old header stands in its own place. That holds after a loss of power, too, with which LSNs
//! that were not synced are given out again, for three reasons: only segments before the durable
//! manifest's first become spare, a cut removes what was lost before anything new is written, and
//! a segment's name is durable before a record goes into it. Each write ends with zeros, room for a
//! header at the least and the rest of the page, for two reasons: a write that covers pages as a whole needs
//! none of them read first, and zeros say that the log ends here, where leftovers would look like
//! a torn record.
//!
//! Absent on purpose, for now: parallel copies into the log's buffer.

pub(crate) mod record;
pub(crate) mod recovery;
pub(crate) mod segment;
mod spares;
mod tail;
mod writer;

use std::fmt;

pub(crate) use record::{HEADER_BYTES as RECORD_HEADER_BYTES, Header, Record};
pub(crate) use spares::{Spare, Spares};
pub(crate) use tail::{Rotation, Rotations, Tail};
pub(crate) use writer::{Segment, Writer, ZEROS_BYTES};

/// A place in the whole log, in bytes from its beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Lsn(pub(crate) u64);

impl Lsn {
    pub(crate) const fn after(self, bytes: u64) -> Self {
        // 2^64 bytes of log are 500 years at a gigabyte a second.
        Self(self.0.saturating_add(bytes))
    }
}

impl fmt::Display for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
