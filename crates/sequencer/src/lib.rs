//! Carnet over a cluster: one commit table, one leader at a time, strict serializability.
//!
//! # The problem
//!
//! A cluster of Cassandra or ScyllaDB nodes keeps cells on many machines and orders nothing. Cells
//! are written blindly under the start S of their transaction; what they mean stands in the commit
//! table, as entries S → C, put by conditional writes. Somebody has to hand out timestamps, check
//! conflicts and put those entries: a *leader*, who may be slow, cut off or dead at any moment,
//! and who may not know it.
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
//!   starts at it ([`lease`], `candidate`).
//! * **I2** A majority has a transaction's cells before its commit is asked for (`log`).
//! * **I3** R is released when every commit ≤ R is resolved, and is registered before; S comes after
//!   R (`leader`, `prefix`).
//! * **I4** The decision is complete at C (`carnet_txn::Sequencer`, behind `CommitOrder`).
//! * **I5** Before a leader serves, every row that an older start may still use is of its epoch
//!   (`candidate`, `fence`): whoever was deposed cannot put an entry any more.
//! * **I6** A leader decides for the starts of its own term; of older ones the commit table tells,
//!   and where it tells nothing they are aborted for good (`leader`).
//! * **I7** A strict snapshot is released after a SERIAL read that began after it was asked for
//!   found the lease still the leader's, or a group that did was applied behind its fence
//!   (`proof`, `shared_read`).
//! * **I8** A commit is acknowledged when its entry is final: applied, or found, touched and
//!   confirmed ([`commit_table`], its remainder loop).
//! * **I9** Entries go only after all that they decide is stamped ([`sweep`]). A reader who finds no
//!   entry settles those of older epochs, and looks at the version
//!   again ([`commit_table`], `carnet_txn::reader`).
//! * **I10** Where a start's entry lies is a function of the start, read from a map that only grows
//!   ([`coordination`]).
//! * **I11** A process answers a read from memory only where it was told of every commit since that
//!   may have changed the cell (`cells`).
//!
//! # The rooms
//!
//! What decides is pure and has no clock: `candidate` (who leads), `fence` (one row), the remainder
//! loop (entries of one row), `groups` and `lanes` (what goes together), `prefix` (how far P is), `clients`
//! (whose snapshots are open), `cells` (what a process keeps, and what a leader tells of changes),
//! `members` (who announces itself).
//! [`backup`] makes a prefix of commits of a copy that others took of the
//! cluster. What acts is thin: `node`, `leader`, `log`. Tasks, time and the
//! network enter by doors ([`Doors`], [`Transport`]); only [`wire`], the network over TCP, has a
//! runtime behind it.
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
mod doors;
mod fence;
mod futures;
mod groups;
mod lanes;
mod leader;
pub mod lease;
mod log;
mod members;
pub mod message;
mod node;
mod oneshot;
mod prefix;
mod proof;
mod shared_read;
pub mod sweep;
mod transport;
pub mod wire;

pub use candidate::LeaseOptions;
pub use commit_table::CommitTable;
pub use doors::{Doors, MakeOrder, Options};
pub use lease::Address;
pub use log::ClusterLog;
pub use members::ANNOUNCEMENT_BYTES_MAX;
pub use transport::{Answering, Handler, LocalNetwork, Transport, Unanswered};
pub use wire::{Secret, Security, TcpNetwork, Tls};
