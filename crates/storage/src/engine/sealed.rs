//! Sealed memtables, which wait for their flush.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Waker};

use carnet_base::Timestamp;

use crate::manifest::TableMeta;
use crate::memtable::Memtable;
use crate::wal::Lsn;

/// A memtable that accepts no new records.
#[derive(Clone)]
pub(super) struct Sealed {
    pub(super) memtable: Arc<Memtable>,
    /// All its records have smaller slots.
    pub(super) slots_below: u64,
    /// Last commit in this memtable and all before it.
    pub(super) last_commit: Timestamp,
    /// Segment of the log after its last record.
    pub(super) next_segment: u64,
    pub(super) next_base: Lsn,
    /// A table that is added to the database together with it.
    pub(super) adopted: Option<Adopted>,
}

/// Table of a large transaction, whose commit directly follows a sealed memtable.
#[derive(Clone)]
pub(super) struct Adopted {
    pub(super) meta: TableMeta,
    /// Slot of the commit, which is published when the table is part of the database.
    pub(super) slot: u64,
}

impl Adopted {
    /// Returns `true` if the commit waits for its table; a recovered one is published already.
    pub(super) const fn is_unpublished(&self) -> bool {
        self.slot != RECOVERED
    }
}

/// Sealed memtables, oldest first, and the wakers of writers that wait for a flush.
#[derive(Default)]
pub(super) struct SealedQueue {
    pub(super) queue: VecDeque<Sealed>,
    pub(super) waiting: Vec<Waker>,
}

impl SealedQueue {
    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    pub(super) fn wait(&mut self, context: &Context<'_>) {
        if !self.waiting.iter().any(|waker| waker.will_wake(context.waker())) {
            self.waiting.push(context.waker().clone());
        }
    }

    /// Returns `true` if a commit waits for the flush of a memtable.
    pub(super) fn has_adopted(&self) -> bool {
        let waits = |sealed: &Sealed| sealed.adopted.as_ref().is_some_and(Adopted::is_unpublished);
        self.queue.iter().any(waits)
    }

    /// Returns the segment after the youngest memtable.
    pub(super) fn last_segment(&self) -> Option<u64> {
        self.queue.back().map(|sealed| sealed.next_segment)
    }

    /// Adds a recovered memtable, whose records are published, and the table of the commit that
    /// follows it.
    pub(super) fn push_recovered(
        &mut self,
        memtable: Arc<Memtable>,
        (next_segment, next_base): (u64, Lsn),
        meta: TableMeta,
    ) {
        let last_commit = meta.contents.commit_max;
        let adopted = Some(Adopted { meta, slot: RECOVERED });
        let sealed =
            Sealed { memtable, slots_below: 0, last_commit, next_segment, next_base, adopted };
        self.queue.push_back(sealed);
    }
}

/// Slot of a recovered commit, which is published already.
pub(super) const RECOVERED: u64 = u64::MAX;
