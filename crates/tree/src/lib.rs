//! A transactional map whose values may live in a store that is only eventually consistent.
//!
//! # Problem
//!
//! Such a store loses no write, and that is all it promises: two copies differ for a while, and
//! a read may miss what was written. It can still hold values that *never change*, since whatever
//! is found under a name is right and what is missing is only late. So everything but one thing
//! is immutable here, and the one thing, the *root*, is kept where a compare-and-set is
//! linearizable. It is small, and moving it is the commit of everything below it.
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
//! A transaction reads the root, reads what it wants below, and moves the root to a new one. It
//! is the only one to do so from that root; whoever comes too late runs again on the newer one.
//! When the buffer is full, its older half goes down: first into one node, the *run*, and when
//! that is full into the tree, where new nodes are put for those paths that change, and share all
//! else with the old tree.
//!
//! # What it costs
//!
//! A batch of transactions that find their keys in the buffer or in the cache takes one
//! compare-and-set, and a read of the root before it where other transactors are busy too. Nodes
//! are read and put for one key in a path of log₃₂ of the number of leaves. The test `cost` counts.
//!
//! # Invariants
//!
//! * A node is put, for certain, before a root that reaches it is set. So what a root names and
//!   is not found is late, never absent.
//! * No two roots are the same bytes: each names its transactor, his attempt, and the number of
//!   the move. So a compare-and-set that expects one cannot be fooled by a return to it.
//! * Nothing definite is answered while a compare-and-set is in doubt (`batch`).
//! * A late answer of a store counts: calls stay open while they are repeated (`ask`).
//! * What a transaction that only reads has seen was the newest root at some moment after it was
//!   called: [`Options::verify_reads`]. A batch of them shares one read of the root, which began
//!   after all of them were called.
//! * Whoever suggests a root ([`Tree::suggest_root`]) is believed that the pointer held it.
//! * Pure are the form of the tree (`shape`), what a batch makes of a root (`edit`), and what a
//!   root says about an attempt ([`Root`]); `batch` alone calls the stores.
//!
//! # Deliberately absent
//!
//! Ranges: keys are found by their hash. Snapshots kept by name: old roots are readable while
//! their nodes are there, and garbage collection does not spare them.

mod ask;
mod batch;
mod cache;
mod codec;
pub mod directory;
mod edit;
mod id;
mod job;
mod join;
pub mod memory;
pub mod micro;
mod node;
mod options;
mod root;
mod shape;
pub mod sim;
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
