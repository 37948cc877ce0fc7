//! The sweep (garbage collection): deletes versions that no snapshot sees, then the commit entries
//! of stamped versions.
//!
//! # The problem
//!
//! On a cluster nothing is ever overwritten: each version has a row of its own, and its outcome is
//! in the commit table. The sweep copies the outcome to the version (a *stamp*) and deletes
//! versions and entries that are no longer needed. It runs beside transactions that are not aware
//! of it, on replicas that may be down meanwhile.
//!
//! # A round
//!
//! The module `sweeper` runs rounds for the leader; this one has their decisions and their state.
//!
//! ```text
//!   1  mark      min(P when the retention began, the oldest snapshot of this term)
//!   2  persist   versions = mark                       before the first delete
//!   3  scan      every version of every table: settle, stamp, delete              (`plan`)
//!   4  persist   entries = mark                        after a whole scan
//!   5  entries   of commits ≤ mark are deleted, never a row: its epoch stays
//! ```
//!
//! # Invariants
//!
//! * A reader checks the mark after it has read, so a read that missed deleted data fails with
//!   `TooOld`. This protects snapshots of earlier terms, which this leader does not know.
//! * An entry is deleted only after a scan that began when P had passed the entry. By I2 that scan
//!   has seen every version that the entry decides; a majority has the stamps, or has deleted the
//!   versions below a base.
//! * An absent entry does not mean that its transaction aborted. The abort marker is written first,
//!   and then the version is read again: a stamp wins. Two processes may therefore sweep at once,
//!   one of which leads no more.
//! * A tombstone is deleted once every replica has acknowledged the deletion of all older versions,
//!   visible or not. If a replica is away, the tombstone stays until a later round, and a majority
//!   deletes the older versions meanwhile. Any other version that comes back with such a replica is hidden by the newer version that stays,
//!   or is aborted.
//! * While a backup holds the sweep no mark is raised. No round begins, none in flight deletes
//!   entries, and a round stamps only transactions that had committed when it began. So a copy made
//!   meanwhile lacks no entry that it needs, and has no stamp above the backup's timestamp
//!   ([`backup`](crate::backup)).
//!
//! # Deliberately absent
//!
//! Dropping the tables of cells themselves; deleting markers that were written below `entries_from`
//! later. All versions of one cell are held in memory together.

mod history;
mod holder;
mod marks;
mod options;
mod plan;
mod report;
mod term;

pub(crate) use history::Sample;
pub use holder::Holder;
pub use marks::{Hold, Marks};
pub use options::SweepOptions;
pub(crate) use plan::{Base, BaseRow, Extent, Plan, VersionOutcome, newest_row, plan, trim};
pub use report::{SweepReport, SweepStatus};
pub(crate) use term::{HOLD_TIMEOUT, Sweep};
