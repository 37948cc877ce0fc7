//! Per-thread handles of the shared state that every transaction holds.

use std::sync::Arc;

use carnet_base::{Clock, MemoryBudget, stripe};
use carnet_store::StoreHandle;

use crate::commit_counts::CommitCounts;
use crate::retry_counts::RetryCounts;
use crate::row_memory::RowMemory;
use crate::schema::SchemaCache;
use crate::stores::AnyStore;

/// Number of slots; more threads than this share them.
const SLOTS: usize = 64;

/// One thread's handles of the store, the schema cache, the clock and the memory of transactions.
///
/// Each transaction increments and decrements these reference counts. Shared counts, or counts in
/// one cache line, would move between cores on every transaction.
#[repr(align(64))]
pub(crate) struct ThreadHandles {
    pub(crate) store: StoreHandle,
    /// The same store, for what only some stores have.
    pub(crate) any: AnyStore,
    pub(crate) schemas: Arc<SchemaCache>,
    pub(crate) clock: Arc<dyn Clock>,
    /// Commits that this thread's handles were used for.
    pub(crate) commits: CommitCounts,
    /// Retries of the transactions that this thread repeated.
    pub(crate) retries: RetryCounts,
    /// Memory of the sets of all transactions, as a child that only this thread counts in.
    pub(crate) memory: MemoryBudget,
    /// Memory of the rows that statements have decoded.
    pub(crate) row_memory: Arc<RowMemory>,
}

impl ThreadHandles {
    /// Makes the handles of all slots.
    pub(crate) fn for_slots(
        store: &AnyStore,
        schemas: &Arc<SchemaCache>,
        clock: &Arc<dyn Clock>,
        memory: &MemoryBudget,
        row_memory: &Arc<RowMemory>,
    ) -> Box<[Arc<Self>]> {
        let handles = |_| {
            let (any, schemas) = (store.clone(), Arc::clone(schemas));
            let memory = memory.child(memory.max());
            let (clock, row_memory) = (Arc::clone(clock), Arc::clone(row_memory));
            Arc::new(Self {
                store: any.handle(),
                any,
                schemas,
                clock,
                commits: CommitCounts::default(),
                retries: RetryCounts::default(),
                memory,
                row_memory,
            })
        };
        (0..SLOTS).map(handles).collect()
    }

    /// Returns the handles of the calling thread.
    pub(crate) fn current(all: &[Arc<Self>]) -> &Arc<Self> {
        &all[stripe(all.len())]
    }
}
