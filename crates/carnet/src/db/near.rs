//! Per-thread handles of the shared state that every transaction holds.

use std::sync::Arc;

use carnet_base::{Clock, stripe};

use crate::catalog::SchemaCache;
use crate::stores::AnyStore;

/// Number of handles; more threads than this share them.
const PLACES: usize = 64;

/// One thread's handles of the store, the schema cache and the clock.
///
/// Each transaction increments and decrements these reference counts. Shared counts, or counts in
/// one cache line, would move between cores on every transaction.
#[repr(align(64))]
pub(crate) struct Near {
    pub(super) store: Arc<AnyStore>,
    pub(crate) schemas: Arc<SchemaCache>,
    pub(crate) clock: Arc<dyn Clock>,
}

impl Near {
    /// Makes a handle for each slot.
    pub(super) fn of_all(
        store: &AnyStore,
        schemas: &Arc<SchemaCache>,
        clock: &Arc<dyn Clock>,
    ) -> Box<[Arc<Self>]> {
        let near = |_| {
            let (store, schemas) = (Arc::new(store.clone()), Arc::clone(schemas));
            Arc::new(Self { store, schemas, clock: Arc::clone(clock) })
        };
        (0..PLACES).map(near).collect()
    }

    /// Returns the handle of the calling thread.
    pub(super) fn of_thread(all: &[Arc<Self>]) -> &Arc<Self> {
        &all[stripe(all.len())]
    }
}
