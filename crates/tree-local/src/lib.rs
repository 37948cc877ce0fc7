//! The tree's stores in one directory: several processes of one machine share it.
//!
//! # Problem
//!
//! [`carnet_tree`] needs a store of immutable nodes, and a root that is moved by compare-and-set.
//! Here both are files of one directory. Processes start, crash and share the directory without a
//! server, and after a power failure no acknowledged transaction may be missing.
//!
//! ```text
//!   tree                  the format's version, and whether there is a root yet
//!   root                  the newest root, replaced by rename
//!   root.lock             held while the root is compared and replaced
//!   gc.lock               held by the garbage collector, or by an inspection
//!   00…2a-00…01000000     a node, by its id; never changed
//!   writer-00…2a          locked while the transactor 2a may put nodes
//! ```
//!
//! # Invariants
//!
//! * *Nodes before the root.* A node is written under its own name; [`NodeStore::sync`] makes the
//!   files and their names durable. Only then the root is replaced.
//! * *The lock orders the moves.* A compare-and-set holds `root.lock` until the new root is durable.
//!   The system drops the lock of a process that dies.
//! * *No root is returned that a power failure could take back.* A root that this handle has not
//!   returned yet may be the unsynced move of a process that died: [`RootPointer::read`] syncs the
//!   directory first. After a failed sync of the directory nothing is known about it, so the handle
//!   refuses further work.
//! * *Garbage is what no root can come to refer to* ([`Directory::collect`]).
//!
//! # Deliberately absent
//!
//! Other machines: one kernel keeps the locks, and a network file system may not.
//! Packing: a node is a file. Waiting without a thread: writes, syncs and locks block the caller, as
//! calls of [`carnet_storage::disk`] do; reads do not.

mod collect;
mod directory;
mod inspect;
mod walk;

pub use carnet_tree::micro::{Answer, Op};
pub use carnet_tree::{NodeStore, Options, RootPointer, Tree};
pub use collect::Collected;
pub use directory::{Directory, NODE_BYTES_MAX};
pub use inspect::Inspected;

use std::sync::Arc;
use std::time::Duration;

use carnet_base::{Result, Rng, Timer};
use carnet_storage::disk::Disk;
use carnet_tree::TransactorId;

/// Time for which errors of the file system are retried.
const RETRY_TIMEOUT: Duration = Duration::from_secs(2);

/// Returns the options of a tree in a directory: the tree's defaults, except that the stores are
/// exact and errors are retried briefly.
#[must_use]
pub fn options() -> Options {
    Options { exact_stores: true, retry_timeout: RETRY_TIMEOUT, ..Options::default() }
}

/// A tree in a directory.
pub type LocalTree = Tree<Directory, Directory>;

/// Opens the tree of a directory, with a new transactor; returns its store, too.
///
/// # Errors
///
/// Those of [`Directory::open`], or of [`Directory::create`] if `creates` is `true`.
pub fn open(
    disk: Arc<dyn Disk>,
    creates: bool,
    timer: Arc<dyn Timer>,
    mut rng: Box<dyn Rng>,
    options: Options,
) -> Result<(LocalTree, Directory)> {
    let transactor = TransactorId(rng.next_u64());
    let store = if creates {
        Directory::create(disk, transactor)?
    } else {
        Directory::open(disk, transactor)?
    };
    let tree = Tree::open_as(transactor, store.clone(), store.clone(), timer, rng, options);
    Ok((tree, store))
}
