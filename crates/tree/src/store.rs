//! The two places that a tree is kept in. They may be two services of very different strength.

use std::future::Future;

use carnet_base::{Bytes, Result};

use crate::id::NodeId;

/// Keeps immutable nodes. It may be only eventually consistent.
///
/// A name is put once, always with the same bytes: so a put may be repeated, copies need no
/// order, and whatever is found is right.
pub trait NodeStore: Send + Sync + 'static {
    /// Puts a node. Once it returns, every later `get` finds the node sooner or later, and after
    /// [`NodeStore::sync`] also after a loss of power.
    ///
    /// # Errors
    ///
    /// Any: the node may or may not be there. The caller puts it again.
    fn put(&self, id: NodeId, bytes: Bytes) -> impl Future<Output = Result<()>> + Send;

    /// Gets a node; `None` where it is not there, or not yet.
    ///
    /// # Errors
    ///
    /// `Corrupted` where the bytes are known to be damaged; others are tried again.
    fn get(&self, id: NodeId) -> impl Future<Output = Result<Option<Bytes>>> + Send;

    /// Makes every node durable whose put has returned. Called once before each move of the root.
    ///
    /// # Errors
    ///
    /// Any: the root is not moved.
    fn sync(&self) -> impl Future<Output = Result<()>> + Send {
        async { Ok(()) }
    }
}

/// What a compare-and-set has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Swap {
    /// The pointer held what was expected, and holds the new root now.
    Done,
    /// The pointer held something else, and was left alone.
    Mismatch,
}

/// Holds the root. It must be linearizable.
pub trait RootPointer: Send + Sync + 'static {
    /// Reads the root; `None` where none was ever set.
    ///
    /// # Errors
    ///
    /// `Corrupted` is given to the caller; others are tried again.
    fn read(&self) -> impl Future<Output = Result<Option<Bytes>>> + Send;

    /// Replaces the root `from`, which may be that there is none, by `to`. Durable on return.
    ///
    /// # Errors
    ///
    /// Any: it may have happened, it may not, and it may still happen at any later time.
    fn compare_and_set(
        &self,
        from: Option<Bytes>,
        to: Bytes,
    ) -> impl Future<Output = Result<Swap>> + Send;
}
