//! Write-ahead log: committed records in commit order.
//!
//! ```text
//!   wal-00000007.log                               wal-00000008.log
//!   ┌────────┬──────────────┬────────┬────────┐    ┌────────┬────────
//!   │segment │header  body  │ h  b   │ h  b   │    │segment │ h  b …
//!   └────────┴──────────────┴────────┴────────┘    └────────┴────────
//!   ↑ base LSN               ↑ LSN = base + offset in the file
//! ```
//!
//! A record's *LSN* is its offset in the whole log, so a header found at any other offset is not a
//! record, but a leftover. [`Tail`] reserves LSNs inside the critical section that also assigns the
//! commit timestamp: **LSN order is commit order**. [`Writer`] writes all pending records at once,
//! in one write for each segment.
//!
//! **Torn tail and corruption.** Unsynced pages persist in any order, so after a power failure a
//! valid record may follow a bad one. [`recovery`] truncates the log at the first bad record,
//! because no record from there on was acknowledged as durable. To check this, each header states
//! the LSN up to which the log was durable when the header was written. If a header after the bad
//! record states that the bad record was durable, then the bytes were damaged *after* they were
//! acknowledged. That is corruption: recovery reports it with file and offset, and never skips it.
//! A segment without a valid header is corruption too: a file gets a segment's name only when its
//! header is durable (see [`recovery`] for the cases). The truncation is synced before anything new
//! is written. New records go to a new segment, whose header states that everything before it is
//! durable.
//!
//! **Recycled segments.** A segment that the manifest does not need any more becomes the next new
//! one: it gets a new header and then a new name. Its space is allocated and its blocks are
//! written, so a sync has no metadata to write. The old records remain after the new ones, with
//! valid checksums. Their LSNs identify them: the new base is greater than the old one, so no old
//! header is at the offset of its LSN. Power failures cause LSNs that were not synced to be
//! assigned again, and the rule still holds, for three reasons: only segments before the durable
//! manifest's first one are recycled, recovery truncates before anything new is written, and a
//! segment's name is durable before a record is written to it. Each write ends with zeros: at least
//! the size of a header, up to the end of the page. A write of whole pages needs no page read
//! first, and zeros mark the end of the log, where leftovers would look like a torn record.
//!
//! Not implemented on purpose: parallel copies into the log's buffer.

mod lsn;
pub(crate) mod record;
pub(crate) mod recovery;
pub(crate) mod segment;
mod spares;
mod tail;
mod writer;

pub(crate) use lsn::Lsn;
pub(crate) use record::{HEADER_BYTES as RECORD_HEADER_BYTES, Header, Record};
pub(crate) use spares::{Spare, Spares};
pub(crate) use tail::{Rotation, Rotations, Tail};
pub(crate) use writer::{Unsynced, Writer, ZEROS_BYTES};
