//! Backups of a database over a cluster: the part that is Carnet's.
//!
//! # The problem
//!
//! The cluster's own tools copy its tables, each replica and each table at a moment of its own, while
//! transactions go on. Such a copy has a transaction's cells and not its entry, its entry and not its
//! cells, or half of either. It becomes a prefix of the order of commits by three things that a few
//! numbers, the [`Label`], remember: a timestamp **B** that everything of the prefix was on a majority at
//! before the copy began, a **bound** that nothing in the copy reaches, and a sweep that took nothing
//! away meanwhile.
//!
//! ```text
//!   take      1  hold     in the register of the sweep's marks: none of them is raised
//!             2  B = P    a strict snapshot: the entries of all commits ≤ B are final, and a majority
//!                         has their cells
//!             3  copy     by others, for as long as it takes; the hold is renewed
//!             4  check    the hold is there, the map of encodings is as it was
//!             5  bound    of the lease, read after the copy
//!
//!   restore   1  check    the lease in the tables is one of those between 2 and 5, nobody renews it,
//!                         and map and tables are the label's
//!             2  lease    "restoring", of an epoch and with a bound far above the old ones: nobody
//!                         leads before it is released
//!             3  marks    nothing below the new bound is served; the hold goes
//!             4  fence    the rows that a start below the old bound may use
//!             5  abort    every entry with C > B, of all rows from the sweep's mark to the bound
//!             6  release  the next process leads, from the new bound on
//! ```
//!
//! # Why it is a prefix
//!
//! * *Every commit ≤ B is whole.* Its cells and its entry were on a majority before the copy began.
//!   What took entries away meanwhile? A round of the sweep that was under way deletes entries of
//!   commits up to the mark that it has raised before, whose stamps a majority had by then; it cannot
//!   raise the mark any more. Versions that it deletes are hidden by one of a commit below that mark,
//!   which is below B.
//! * *What nobody had settled may end either way.* An entry that a leader of an earlier term left on one
//!   replica is in doubt, and no snapshot has seen it yet: the copy has it or not, and so decides. The
//!   database that was copied may decide otherwise later, and both are right: nobody had been told.
//! * *No commit above B is seen.* Its entry is aborted where it was copied, and absent otherwise, and
//!   an absent entry of an older epoch's start is aborted by whoever needs it. A stamp would speak
//!   without an entry; but a round stamps only what had committed when it began, and of the rounds
//!   that found no hold all had begun before B was drawn.
//! * *Nothing of it comes back.* Timestamps go on above the bound, so no start of the old life is used
//!   again for cells that were copied; rows are of a later epoch, so that a process which slept
//!   through it all puts nothing; the bound and the epoch are *far* above, since the old life may have
//!   gone on after the backup.
//!
//! # Invariants of the restore
//!
//! * It may be cut short anywhere and run again: the lease says that a restore is under way, of which
//!   backup, and with which bound.
//! * Where its first check fails, nothing was changed.
//! * What one replica alone has counts: entries are read from all of them, and written over by
//!   conditional writes, which it reads back.
//!
//! # Deliberately absent
//!
//! Copying. Restoring as of a timestamp below B. Protection from the blind writes of processes of the
//! old life, stamps and confirmations, where a copy is put back in its place: they have to have ended.
//! Clocks: they order the cluster's writes, and where
//! those of the restored cluster are behind the old one's, what is written over does not take, which
//! is said.

mod admit;
mod label;
mod registers;
mod restore;
mod take;

pub use label::{Label, LeasePoint};
pub use restore::{RestoreProgress, Restored, restore};
pub(crate) use take::Held;
pub use take::{Backup, RENEW_EVERY};
