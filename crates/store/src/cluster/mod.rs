//! The operations of a stock Cassandra or ScyllaDB that Carnet uses.
//!
//! # The problem
//!
//! A cluster is only eventually consistent. Blind writes land in any order, on any majority of the
//! replicas. A read at QUORUM sees every acknowledged QUORUM write, and maybe more. There is one
//! stronger operation, the *conditional write*: a Paxos round on one partition. The commit protocol
//! needs it for its commit entries and for a few small values; all other writes are blind. These
//! traits separate the two:
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
//! # Faults
//!
//! Every call may fail with a [`Fault`], of which there are two kinds. [`Fault::Failed`]: certainly
//! not done. [`Fault::Unknown`]: done on some replicas or on none, now or *later*, until a later
//! call settles it. After an unknown blind write the caller sends the same bytes again. An unknown
//! conditional write is worse: the round may live on one replica, where one QUORUM read sees it and
//! the next one does not. Another conditional write to the same partition settles it for good,
//! either way; [`CommitRows::touch`] serves this purpose.
//!
//! A write that timed out may take effect after calls that were made later. Implementations of
//! these traits may behave so, and callers must expect it.
//!
//! # Deliberately absent
//!
//! Transactions, visibility and wall times. A version's write time is its [`Statement`] number, the
//! same at each try, so that the data on replicas does not depend on clocks. The meaning of entries
//! and the identity of the leader are unknown here.

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

/// All operations that Carnet needs of a cluster.
pub trait Cluster: ClusterCells + CommitRows + Registers {}

impl<T: ClusterCells + CommitRows + Registers> Cluster for T {}
