//! Encodings of the commit table: the place and the value of a transaction's outcome.
//!
//! A commit table maps a transaction's start timestamp to its [`CommitEntry`]. Its place is a
//! [`CommitCell`], a row and a column of a table that may be hashed by row. Two of the three
//! encodings come from AtlasDB, byte for byte:
//!
//! * [`v1`]: one row per transaction.
//! * [`v2`], *tickets*: 16 rows per 25 million timestamps, spread over the ring; a column of one
//!   to three bytes; the value is the commit timestamp less the start.
//! * [`v3`]: the same cells, tagged values. The default.
//!
//! `testdata/commit_table_vectors.json` and `commit_table_v3_vectors.json` hold golden vectors. An
//! entry is written once and never changed; a cell without a value is a transaction in progress.
//!
//! An [`EncodingMap`] gives the encoding for each range of starts.
//!
//! The decoders reject a commit timestamp that is not above its start: the encoders never write
//! one.

mod encoding;
mod entry;
mod map;
pub mod v1;
pub mod v2;
pub mod v3;

pub use encoding::Encoding;
pub use entry::{CommitCell, CommitEntry};
pub use map::EncodingMap;

#[cfg(test)]
mod tests;
