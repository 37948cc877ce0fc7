//! A transactional map whose values may live in a store that is only eventually consistent.
//!
//! # Problem
//!
//! Such a store loses no writes, but gives no further guarantee: copies differ for a while, and a
//! read may miss a write. It can still store values that *never change*: a value found under a name
//! is right, and a missing one is only late. So all data is immutable except the *root*, which is
//! stored where a compare-and-set is linearizable. The root is small, and moving it commits
//! everything below it.
//!
//! ```text
//!   root pointer (linearizable)         nodes (put once; eventually consistent)
//!
//!   move 41 by transactor 9   ──top──►  inner ──► inner ──► leaf: k1 = a, k3 = old
//!   buffer: k3 = x, k8 deleted            │  └──► leaf: k7 → value, a node of its own
//!        │                                └──► …
//!        │ compare-and-set: transaction "k7 += 1, k9 = z" of transactor 5
//!        ▼
//!   move 42 by transactor 5   ──top──►  the same tree
//!   buffer: k3 = x, k8 deleted, k7 = 8, k9 = z
//! ```
//!
//! A transaction reads the root, reads its keys below it, and moves the root to a new one. Only one
//! transaction can move a given root; the others run again on the newer one. When the buffer is
//! full, its older half moves down: first into one node, the *run*, and when that is full into the
//! tree. The changed paths get new nodes; all other nodes are shared with the old tree.
//!
//! # Cost
//!
//! A batch of transactions that find their keys in the buffer or in the cache costs one
//! compare-and-set, and a read of the root before it if other transactors are active. For other
//! keys, nodes are read and put along a path of log₃₂ of the number of leaves. The test `cost`
//! counts the calls.
//!
//! # Invariants
//!
//! * A put of a node is confirmed before a root that reaches it is set. So a node that a root
//!   refers to and that is not found is late, never absent.
//! * No two roots have the same bytes: each contains its transactor, attempt and generation. So a
//!   compare-and-set that expects one root is safe from ABA.
//! * The batch gets no definite answer while a compare-and-set is in doubt (`batch`).
//! * A late answer of a store counts: calls stay open while they are repeated (`ask`).
//! * A read-only transaction sees the newest root of some moment after its call:
//!   [`Options::verify_reads`]. A batch shares one read of the root, which began after all its
//!   calls.
//! * A suggested root ([`Tree::suggest_root`]) is trusted to have been in the pointer.
//! * `shape` (the tree), `edit` (applying a batch to a root) and [`Root`] (judging attempts) are
//!   pure; only `batch` calls the stores.
//!
//! # Deliberately absent
//!
//! Ranges: keys are located by hash. Named snapshots: old roots are readable only while their nodes
//! exist, and garbage collection does not spare them.

mod ask;
mod batch;
mod cache;
mod codec;
mod edit;
mod id;
mod job;
pub mod memory;
pub mod micro;
mod node;
mod options;
mod root;
mod shape;
mod stats;
mod store;
mod tree;
mod view;

pub use carnet_base::{ThreadTimer, Timer, Wait};
pub use id::{Attempt, NodeId, TransactorId};
pub use node::{Entry, Node, Pointer, Stored, Write};
pub use options::{Options, Shape};
pub use root::{Below, Move, ROOT_BYTES_MAX, Root};
pub use stats::Stats;
pub use store::{NodeStore, RootPointer, Swap};
pub use tree::Tree;
pub use view::{KEY_BYTES_MAX, VALUE_BYTES_MAX, View};
