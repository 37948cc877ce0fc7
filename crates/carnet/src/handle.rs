//! Handles through which tables are read and written.
//!
//! Every call that accesses data is written once, against [`Handle`]: on a [`Tx`] it returns a
//! future, on a [`SyncTx`] or a [`Snapshot`] the result itself. A single-row read is written
//! against [`PointHandle`], which [`Db`] implements too.

use std::future::Future;
use std::ops::Deref;
use std::pin::Pin;

use carnet_base::{Result, block_on_one};

use crate::db::Db;
use crate::tx::{Snapshot, SyncTx, Tx};

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Tx {}
    impl Sealed for super::SyncTx {}
    impl Sealed for super::Snapshot {}
    impl Sealed for super::Db {}
}

/// Handle for reading a single row: a [`Handle`], or a [`Db`] for an independent read.
pub trait PointHandle: sealed::Sealed {
    /// Return type of a call: the result itself, or a future of it.
    type Out<'a, T: Send + 'a>;

    /// Returns the source of the read.
    #[doc(hidden)]
    fn source(&self) -> Source<'_>;

    /// Runs a call in the way of this handle.
    fn run<'a, T: Send + 'a>(call: impl Future<Output = T> + Send + 'a) -> Self::Out<'a, T>;

    /// Tries a call that may complete without waiting; `None` if it would have to wait. A lazy
    /// handle returns `None` without calling it.
    #[doc(hidden)]
    fn at_once<'a, T: Send + 'a>(call: impl FnOnce() -> Option<T>) -> Option<Self::Out<'a, T>>;
}

/// Source of a [`PointHandle`]'s reads.
#[doc(hidden)]
#[derive(Clone, Copy)]
pub enum Source<'a> {
    /// The state that a transaction sees.
    Tx(&'a Tx),
    /// The newest committed state.
    Db(&'a Db),
}

impl<'a> Source<'a> {
    /// Returns the given transaction, or begins a snapshot.
    pub(crate) async fn tx(self) -> Result<Through<'a>> {
        match self {
            Self::Tx(tx) => Ok(Through::Given(tx)),
            Self::Db(db) => db.snapshot_async().await.map(Through::Begun),
        }
    }

    /// Returns the second since 1970-01-01 UTC by which columns expire.
    pub(crate) fn wall_seconds(self) -> i64 {
        match self {
            Self::Tx(tx) => tx.wall_seconds(),
            Self::Db(db) => db.wall_seconds(),
        }
    }
}

/// The transaction through which a single row is read.
pub(crate) enum Through<'a> {
    Given(&'a Tx),
    Begun(Tx),
}

impl Deref for Through<'_> {
    type Target = Tx;

    fn deref(&self) -> &Tx {
        match self {
            Self::Given(tx) => tx,
            Self::Begun(tx) => tx,
        }
    }
}

/// Handle for reading data: a [`Tx`], a [`SyncTx`] or a [`Snapshot`].
pub trait Handle: PointHandle + Clone {
    /// Returns the transaction.
    fn tx(&self) -> &Tx;
}

/// Handle for writing data: a [`Tx`] or a [`SyncTx`].
pub trait WriteHandle: Handle {}

impl PointHandle for Tx {
    type Out<'a, T: Send + 'a> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

    fn source(&self) -> Source<'_> {
        Source::Tx(self)
    }

    fn run<'a, T: Send + 'a>(call: impl Future<Output = T> + Send + 'a) -> Self::Out<'a, T> {
        Box::pin(call)
    }

    fn at_once<'a, T: Send + 'a>(_: impl FnOnce() -> Option<T>) -> Option<Self::Out<'a, T>> {
        None
    }
}

/// Implements the handle of synchronous code, whose calls block the calling thread.
macro_rules! waits {
    ($handle:ty, $self:ident => $source:expr) => {
        impl PointHandle for $handle {
            type Out<'a, T: Send + 'a> = T;

            fn source(&$self) -> Source<'_> {
                $source
            }

            fn run<'a, T: Send + 'a>(call: impl Future<Output = T> + Send + 'a) -> T {
                block_on_one(call)
            }

            fn at_once<'a, T: Send + 'a>(call: impl FnOnce() -> Option<T>) -> Option<T> {
                call()
            }
        }
    };
}

waits!(SyncTx, self => Source::Tx(self.as_async()));
waits!(Snapshot, self => Source::Tx(self.as_async()));
waits!(Db, self => Source::Db(self));

impl Handle for Tx {
    fn tx(&self) -> &Tx {
        self
    }
}

impl Handle for SyncTx {
    fn tx(&self) -> &Tx {
        self.as_async()
    }
}

impl Handle for Snapshot {
    fn tx(&self) -> &Tx {
        self.as_async()
    }
}

impl WriteHandle for Tx {}

impl WriteHandle for SyncTx {}
