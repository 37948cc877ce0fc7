//! The store behind a database, of any type.

use std::ops::Deref;
use std::sync::Arc;

use crate::cell_store::CellStore;
use crate::commit_log::CommitLog;

/// A store of cells with the order of their commits.
pub trait Store: CellStore + CommitLog {}

impl<S: CellStore + CommitLog + ?Sized> Store for S {}

/// Handle of a store.
///
/// Clones share a reference count. Each handle made of an [`Arc`] has one of its own, for threads that
/// clone handles often: a shared count would move between cores.
#[derive(Clone)]
pub struct StoreHandle(Arc<Separate>);

/// Memory of a handle's count; it fills a cache line.
#[repr(align(64))]
struct Separate(Arc<dyn Store>);

impl<S: Store> From<Arc<S>> for StoreHandle {
    fn from(store: Arc<S>) -> Self {
        Self::from(store as Arc<dyn Store>)
    }
}

impl From<Arc<dyn Store>> for StoreHandle {
    fn from(store: Arc<dyn Store>) -> Self {
        Self(Arc::new(Separate(store)))
    }
}

impl Deref for StoreHandle {
    type Target = dyn Store;

    fn deref(&self) -> &Self::Target {
        &*self.0.0
    }
}
