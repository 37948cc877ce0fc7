//! Carnet over a cluster: one commit table, one leader at a time, strict serializability.
//!
//! # The problem
//!
//! A cluster of Cassandra or ScyllaDB nodes keeps cells on many machines and orders nothing. Cells
//! are written blindly under the start S of their transaction. Whether a transaction committed
//! stands in the commit table, as an entry S → C written by a conditional write. One process hands
//! out timestamps, checks conflicts and writes these entries: the *leader*. It may be slow, cut off
//! or dead at any moment without knowing it.
//!
//! # A transaction
//!
//! ```text
//!   process            leader                                cluster
//!   begin ───────────▶ SERIAL read of the lease, or a group ▶ mine? then R = P, and S
//!   read at R ─────────────────────────────────────────────▶ newest version, its commit entry
//!   write ─────────────────────────────────────────────────▶ versions at S, QUORUM
//!   commit(S) ───────▶ conflicts? C. Group of S's row ─────▶ one Paxos round for the group
//!                      every entry ≤ C final: P = C
//!             ◀─────── C
//! ```
//!
//! # Invariants
//!
//! * **I1** Timestamps are handed out below a bound that is stored with the epoch; the next leader
//!   starts at that bound ([`lease`], `candidate`).
//! * **I2** A majority of replicas has a transaction's cells before its commit is requested
//!   (`log`).
//! * **I3** R is released once every commit ≤ R is resolved, and is registered before that; S is
//!   drawn after R (`leader`, `prefix`).
//! * **I4** The decision is complete at C (`carnet_txn::CommitChecker`, behind `CommitOrder`).
//! * **I5** Before a leader serves, it raises to its epoch every row that an older start may still
//!   use (`candidate`, `fence`). A deposed leader can write no entry any more.
//! * **I6** A leader decides for the starts of its own term. For older starts it reads the commit
//!   table, and aborts for good those without an entry (`leader`).
//! * **I7** A strict snapshot is released only after a proof of leadership that began after the
//!   request: a SERIAL read found the lease still the leader's, or a group was applied behind the
//!   leader's fence (`proof`, `shared_read`).
//! * **I8** A commit is acknowledged when its entry is final: applied, or found, touched and
//!   confirmed ([`commit_table`], its loop over unresolved entries).
//! * **I9** Entries are deleted only after every version that they decide is stamped ([`sweep`]). A
//!   reader that finds no entry settles starts of older epochs, then reads the version again
//!   ([`commit_table`], `carnet_txn::reader`).
//! * **I10** The place of a start's entry is a function of the start, given by a map that only
//!   grows ([`coordination`]).
//! * **I11** A process answers a read from memory only if it received every commit since then that
//!   may have changed the cell (`cells`).
//!
//! # Modules
//!
//! The deciding modules are pure and have no clock: `candidate` (the election), `fence` (one row),
//! `commit_table::unresolved` (unresolved entries of one row), `groups` and `row_allocator` (which entries
//! share a round), `prefix` (how far P is), `clients` (open snapshots), `cells` (the cell cache of
//! a process, and the changes that a leader sends), `members` (announcements). [`backup`] turns a
//! copy of the cluster's tables into a prefix of the commits. The acting modules are thin: `node`,
//! `leader`, `log`. Tasks, time and the network enter through [`Environment`] and [`Transport`]; only
//! [`wire`], the network over TCP, needs a runtime.
//!
//! # Deliberately absent
//!
//! A replication protocol, locks, clocks that safety rests on. Not built yet: transactions whose
//! writes do not fit into memory.

pub mod backup;
mod candidate;
mod cells;
mod clients;
pub mod commit_table;
pub mod coordination;
mod environment;
mod fence;
mod futures;
mod groups;
mod leader;
pub mod lease;
mod log;
mod members;
pub mod message;
mod node;
mod oneshot;
mod options;
mod prefix;
mod proof;
mod row_allocator;
mod shared_read;
mod statements;
pub mod sweep;
mod sweeper;
mod transport;
pub mod wire;

pub use candidate::LeaseOptions;
pub use commit_table::CommitTable;
pub use environment::{Environment, MakeOrder};
pub use lease::Address;
pub use log::{ClusterLog, Status};
pub use members::ANNOUNCEMENT_BYTES_MAX;
pub use options::Options;
pub use transport::{
    Answering, FORWARD_BYTES_MAX, ForwardHandler, Forwarding, Handler, LocalNetwork, Transport,
    Unanswered,
};
pub use wire::{Secret, Security, TcpNetwork, Tls};
