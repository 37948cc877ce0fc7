//! The interface between transactions and the storage of cells.
//!
//! A store is two traits. [`CellStore`] keeps versions of cells and finds the right one for a
//! snapshot. [`CommitLog`] keeps the order: it hands out snapshots, decides commits and remembers
//! them. They are separate because the order lives in one small place, while cells may lie
//! anywhere: on a cluster the log is a table of its own behind a leader.
//!
//! The meaning of a commit is unknown here. The rules are a pure structure behind [`CommitOrder`],
//! created by the crate above and handed to the log's owner, which runs it inside its critical
//! section:
//!
//! ```text
//!   txn       Transaction ── CommitRequest ──┐        CommitChecker: CommitOrder
//!   ─────────────────────────────────────────┼───────────────┼──────────────
//!   store                        CommitLog::commit ── decide(claim) → C
//!   ─────────────────────────────────────────┼──────────────────────────────
//!   a store                      cells + entry S → C, durable, then published
//! ```
//!
//! On a cluster the two are built over [`cluster`], the few operations of a stock cluster;
//! [`loader`] groups reads of many cells into requests.
//!
//! [`MemoryStore`] is the smallest store that keeps every promise; `conformance` (a feature) is the
//! suite for all stores.

mod begun;
mod candidates;
mod cell_store;
mod cells;
pub mod cluster;
mod commit_listing;
mod commit_log;
mod commit_request;
#[cfg(feature = "conformance")]
pub mod conformance;
mod context;
mod delta_chain;
mod handle;
pub mod loader;
mod memory;
#[cfg(feature = "pem")]
pub mod pem;
mod row_tables;
mod spill;
mod steady_wall;
mod wall_times;
mod write;
mod writes;

pub use begun::{BeginKind, Begun, Slot};
pub use candidates::{CandidatePage, CandidatesBuilder, Unsettled};
pub use carnet_base::PageLimit;
pub use cell_store::{At, CellStore, RangeRequest};
pub use cells::Cells;
pub use commit_listing::CommitListing;
pub use commit_log::{CommitLog, CommitOrder, LogStart, Outcome, check_handed_out};
pub use commit_request::{Claim, CommitRequest, ReadSet};
pub use context::Context;
pub use delta_chain::DeltaChain;
pub use handle::{Store, StoreHandle};
pub use memory::MemoryStore;
pub use row_tables::{LoadRawTables, Loading, RowTables, looks_like_delta};
pub use spill::{Spill, SpilledPage, Spilling};
pub use steady_wall::SteadyWall;
pub use wall_times::{WallPoint, WallTimes};
pub use write::Write;
pub use writes::Writes;
