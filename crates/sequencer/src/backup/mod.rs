//! Backups of a database over a cluster: Carnet's part of them.
//!
//! # The problem
//!
//! The cluster's own tools copy its tables while transactions go on, each replica and each table at
//! a different moment. Such a copy may hold a transaction's cells without its entry, its entry
//! without its cells, or parts of either. Three facts, recorded in the [`Label`], turn it into a
//! prefix of the order of commits: a timestamp **B** such that a majority had every cell and entry
//! of the prefix before the copy began, a **bound** above every timestamp in the copy, and a sweep
//! that deleted nothing during the copy.
//!
//! ```text
//!   take      1  hold     in the register of the sweep's marks: none of them is raised
//!             2  B = P    a strict snapshot: the entries of all commits ≤ B are final, and a majority
//!                         has their cells
//!             3  copy     by other tools, of any duration; the hold is renewed
//!             4  check    the hold is there, the map of encodings is as it was
//!             5  bound    of the lease, read after the copy
//!
//!   restore   1  check    the lease in the tables is from between steps 2 and 5, no process renews
//!                         it, and map and tables are the label's
//!             2  lease    "restoring", with an epoch and a bound far above the old ones: no process
//!                         leads before it is released
//!             3  marks    nothing below the new bound is served; the hold is removed
//!             4  fence    the rows that a start below the old bound may use
//!             5  abort    every entry with C > B, of all rows from the sweep's mark to the bound
//!             6  release  the next process leads, from the new bound on
//! ```
//!
//! # Why it is a prefix
//!
//! * *Every commit ≤ B is whole.* Its cells and its entry were on a majority before the copy began.
//!   A round of the sweep that was under way may still delete entries, but only of commits up to
//!   its earlier mark; a majority has their stamps, and the round cannot raise the mark any more.
//!   The versions it deletes are hidden by a version whose commit is below that mark, and hence
//!   below B.
//! * *A commit that was not settled may have either outcome.* An entry that a leader of an earlier
//!   term left on one replica is undecided, and no snapshot has seen it yet. The copy decides by
//!   having it or not. The original database may decide otherwise later. Both are right, because no
//!   client was told an outcome.
//! * *No commit above B is seen.* The restore aborts its entry if it was copied. If it is absent, a
//!   reader that needs it aborts it, as for any start of an older epoch. A stamp would show the
//!   commit without an entry. But a round stamps only transactions that had committed when it
//!   began, and every round that found no hold began before B was drawn.
//! * *Nothing of the original database comes back.* Timestamps go on above the bound, so no start
//!   is used again for cells that were copied. Rows are of a later epoch, so a process that slept
//!   through the restore writes no entry. The bound and the epoch are *far* above the old ones,
//!   since the original database may have gone on after the backup.
//!
//! # Invariants of the restore
//!
//! * A restore may be cut short anywhere and run again: the lease says that a restore is under way,
//!   of which backup, and with which bound.
//! * If its first check fails, nothing was changed.
//! * Values on a single replica count: the restore reads entries from all replicas and overwrites
//!   them by conditional writes, which it reads back.
//!
//! # Deliberately absent
//!
//! Copying. Restoring as of a timestamp below B. Protection from blind writes (stamps and
//! confirmations) of processes of the original database, if a copy is put back in its place: they
//! must have ended. Clocks: they order the cluster's writes. If the clocks of the restored cluster
//! are behind those of the original one, overwrites have no effect, and the restore reports it.

mod admit;
mod label;
mod registers;
mod restore;
mod take;

pub use label::{Label, LeasePoint};
pub use restore::{RestoreProgress, Restored, restore};
pub(crate) use take::Held;
pub use take::{Backup, RENEW_EVERY};
