//! What every transaction holds on to, counted apart for threads.

use std::sync::Arc;

use carnet_base::{Clock, stripe};

use crate::catalog::SchemaCache;
use crate::stores::AnyStore;

/// Threads count in places of their own, as far as these reach.
const PLACES: usize = 64;

/// The store and the cache of schemas, counted once for each place.
///
/// Each transaction counts both up and down. Counts that all threads shared, or that lay in one cache
/// line, would pass from core to core at each of them.
#[repr(align(64))]
pub(crate) struct Near {
    pub(super) store: Arc<AnyStore>,
    pub(crate) schemas: Arc<SchemaCache>,
    pub(crate) clock: Arc<dyn Clock>,
}

impl Near {
    /// Makes one for each place.
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

    /// The one of the calling thread.
    pub(super) fn of_thread(all: &[Arc<Self>]) -> &Arc<Self> {
        &all[stripe(all.len())]
    }
}
