//! The commit table over a cluster: the place of entries, and how they are settled and read.
//!
//! ```text
//!   start ──(coordination map)──▶ encoding ──▶ table, row, column
//!
//!   a read finds     which means                                    and does
//!   ─────────────────────────────────────────────────────────────────────────────────────
//!   c                final                                          nothing more
//!   s alone          a round that was answered, or that timed out   touches it, writes c;
//!                    and lives on one replica                       not where C > R: then it is
//!                                                                   invisible either way
//!   nothing, S of    the epoch that released R had resolved every   nothing: invisible
//!   R's own epoch    commit ≤ R, and S is none of them
//!   nothing, S of    its leader may have left a round on one        puts the abort marker; the
//!   an older epoch   replica that a later read will see             value stored then decides
//! ```
//!
//! Final entries are cached: an entry never changes except by a restore. A process that slept
//! through a restore detects it by the gap in the coordination map, and starts a new cache.
//! Snapshots of the restored database lie beyond the map that the process knew, so it reads the map
//! before it serves them. Snapshots of the original database are refused by the sweep's mark.

mod fencing;
mod listing;
mod map;
mod place;
mod reading;
mod scan;
mod settling;
mod table;
mod tries;
pub(crate) mod unresolved;

pub(crate) use fencing::FenceError;
pub(crate) use place::Place;
pub use scan::{ScanFrom, ScanPage};
pub(crate) use settling::action_leaves_unconfirmed;
pub use table::CommitTable;
