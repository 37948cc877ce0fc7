//! Reads and writes of each table of the layer above, counted.
//!
//! A *table* here is a [`TableId`](carnet_base::TableId), whose cells lie in many files. The counters tell
//! operators how often a table is read and written, how long that takes, how many rows
//! and tombstones a read meets, and how many reads have to wait for the disk.
//!
//! ```text
//!  get, page, append ──► slot of the table ──► shard of the thread     counted always
//!                          │
//!                          └── one of SAMPLE ──► histograms            latencies, rows, tombstones
//! ```
//!
//! # Cost
//!
//! A point read that is found in memory costs one search of a slot (a hash and a comparison) and the
//! one addition that counted it before this module existed. Clocks are read for one of [`SAMPLE`]
//! reads of a shard.
//!
//! # Limits
//!
//! At most [`TABLES_MAX`] tables since the opening have separate counters; all later ones share
//! one set, which is returned without a table. Latencies are a sample, so the greatest one of all
//! reads may be missing from them. Nothing is stored: the counters begin at zero with each opening.

mod histogram;
mod limits;
mod registry;
mod table_use;

pub use histogram::Distribution;
pub use limits::{SAMPLE, TABLES_MAX};
pub use table_use::TableUse;

pub(crate) use registry::{Reading, Sums, Usage, Waiting};
