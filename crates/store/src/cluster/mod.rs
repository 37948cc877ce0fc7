//! What a stock Cassandra or ScyllaDB offers Carnet, and no more.
//!
//! # The problem
//!
//! A cluster is only eventually consistent: blind writes land in any order, on any majority of
//! the replicas, and a read at QUORUM sees what a write at QUORUM was acknowledged for, and maybe
//! more. It has one stronger tool, the *conditional write*: a Paxos round on one partition. The
//! commit protocol needs that tool for its commit entries and for a handful of small values; all
//! else is blind. These traits are the line between the two:
//!
//! ```text
//!   carnet-sequencer          leader, followers, commit table, readers
//!   ──────────────────────────────────────────────────────────────────────────────
//!   ClusterCells              versions of cells     blind writes, QUORUM reads, deletes
//!   CommitRows                commit entries        conditional batches behind a fence
//!   Registers                 lease, coordination,  compare-and-set, SERIAL reads
//!                             sweep mark
//!   ──────────────────────────────────────────────────────────────────────────────
//!   a real cluster            a simulated one       MemoryCluster
//! ```
//!
//! # What may go wrong
//!
//! Every call may fail with a [`Fault`], which tells two cases apart. [`Fault::Failed`]: certainly
//! not done. [`Fault::Unknown`]: done on some replicas or on none, now or *later*, until a later
//! call settles it. For a blind write the caller sends the same bytes again. For a conditional
//! write it is worse: a round that timed out may live on one replica, where one QUORUM read sees
//! it and the next one does not. A conditional write to the same partition settles it for good,
//! one way or the other: that is what [`CommitRows::touch`] is for.
//!
//! A write that timed out may be done after calls that were made later. Whoever implements these
//! traits keeps to that; whoever uses them expects it.
//!
//! # Deliberately absent
//!
//! Transactions, visibility and timestamps of the world: a version's write time is its
//! [`Statement`] number, the same at each try, so that what replicas keep does not depend on
//! anybody's clock. Nothing here knows what an entry says or who the leader is.

mod cells;
mod commit_rows;
mod fault;
mod memory;
mod registers;
mod restored;

pub use cells::{
    Acknowledge, CellVersions, ClusterCells, Statement, VersionName, VersionPage, VersionWrite,
};
pub use commit_rows::{
    CommitRow, CommitRows, CommitTable, EntryPage, NewEntry, RowAnswer, StoredEntry,
};
pub use fault::{Fault, Faulty};
pub use memory::{MemoryCluster, Part};
pub use registers::{ReadMode, Register, Registers, SetAnswer};
pub use restored::{Overwrite, RestoredRows};

/// Everything that Carnet asks of a cluster.
pub trait Cluster: ClusterCells + CommitRows + Registers {}

impl<T: ClusterCells + CommitRows + Registers> Cluster for T {}
