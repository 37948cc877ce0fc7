//! Backups: copies of the database at one position in commit order, in a *vault*.
//!
//! ```text
//!  vault/
//!    00000000000000012345/     named by B: has every commit up to B and none after
//!      sst-….sst               hard links to the database's tables, or copies
//!      MANIFEST                list of tables; bound and notes at that time
//!      BACKUP                  the label: checksum of each file; written last
//!    00000000000000067890/     hard links to the tables that did not change
//! ```
//!
//! Tables never change, and flushed commits are a prefix of commit order, whose end is in the
//! manifest. So a backup consists of the tables of one manifest, and *B* is its last flushed
//! commit. Writers, flushes and compactions continue meanwhile; only the removal of tables is
//! deferred.
//!
//! # Invariants
//!
//! 1. A directory without a label is no backup: the label is written last, when all its files are
//!    durable. The first file is a `marker`, which is removed after the label was written. The next
//!    backup removes a directory that has a marker and no label; no other directory is changed.
//! 2. Checksums in a label were computed from the files in the backup, not from their sources, and
//!    every block of each table was verified there before the label was written. A file that an
//!    earlier backup verified keeps its checksum; [`verify`] and [`restore()`] detect later damage.
//! 3. A backup is never opened, because that would change it. [`restore()`] makes a database of it.
//! 4. A restored database has its own identity and timestamps: it begins above all timestamps that
//!    the original may have assigned, so no timestamp of one is valid in the other.
//! 5. An unfinished restore cannot be opened; it can be restarted.
//!
//! # Restoring to a commit before B
//!
//! A restore *as of* T ≤ B omits every version and every commit-table entry with C > T. Tables
//! whose greatest commit is at most T are used unchanged; others are rewritten without later
//! versions, so readers need no changes (`docs/design/0008-restore.md`). Below the GC watermark of
//! the backup, versions that T saw may be dropped; then the restore fails with `TooOld`.

mod begin;
mod clear;
mod cut;
mod earlier;
mod inventory;
mod label;
mod marker;
mod name;
mod peek;
mod progress;
mod restore;
pub mod sim;
mod take;
mod vault;
mod verify;

pub use inventory::{keep_newest, list};
pub use label::{Label, LabelledFile};
pub use name::{commit_in, name_of};
pub use peek::for_each_key;
pub use progress::Progress;
pub use restore::{Restore, Restored, prepare, restore};
pub use take::{About, Backup, BackupJob};
pub use vault::{RealVault, Vault};
pub use verify::verify;
