//! Interfaces of the two stores of a tree. They may be services with different guarantees.

use std::future::Future;

use carnet_base::{Bytes, Result};

use crate::id::NodeId;

/// Store of immutable nodes; eventual consistency is enough.
///
/// All puts of a name have the same bytes. So puts may be repeated, replicas need no order, and any
/// bytes that a read finds are right.
pub trait NodeStore: Send + Sync + 'static {
    /// Puts a node. After it returns, later `get`s eventually find the node, and after
    /// [`NodeStore::sync`] also after a loss of power.
    ///
    /// # Errors
    ///
    /// Any error leaves it open whether the node was stored. The caller repeats the put.
    fn put(&self, id: NodeId, bytes: Bytes) -> impl Future<Output = Result<()>> + Send;

    /// Gets a node; `None` if it is missing or not visible yet.
    ///
    /// # Errors
    ///
    /// `Corrupted` if the bytes are known to be damaged. Other errors are retried.
    fn get(&self, id: NodeId) -> impl Future<Output = Result<Option<Bytes>>> + Send;

    /// Makes all nodes durable whose put has returned. Called once before each move of the root.
    ///
    /// # Errors
    ///
    /// After any error, the root is not moved.
    fn sync(&self) -> impl Future<Output = Result<()>> + Send {
        async { Ok(()) }
    }
}

/// Result of a compare-and-set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Swap {
    /// The pointer had the expected root, and has the new one now.
    Done,
    /// The pointer had another root, and was not changed.
    Mismatch,
}

/// Holder of the root; it must be linearizable.
pub trait RootPointer: Send + Sync + 'static {
    /// Reads the root; `None` if it was never set.
    ///
    /// # Errors
    ///
    /// `Corrupted` fails the transactions. Other errors are retried.
    fn read(&self) -> impl Future<Output = Result<Option<Bytes>>> + Send;

    /// Replaces the root `from` by `to`; `None` expects that no root was set. Durable on return.
    ///
    /// # Errors
    ///
    /// Any error leaves the outcome open: the root may have been replaced, and may still be at any
    /// later time.
    fn compare_and_set(
        &self,
        from: Option<Bytes>,
        to: Bytes,
    ) -> impl Future<Output = Result<Swap>> + Send;
}
