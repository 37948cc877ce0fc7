//! Handles of a transaction: begin, calls in flight, and the end of its snapshot.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use carnet_base::sync::lock;
use carnet_base::{MemoryBudget, Moment, Result, Timestamp};
use carnet_store::{BeginKind, Begun, Context, StoreHandle};

use super::state::{Ended, TransactionState};
use crate::idle::{Idle, IdleWatch, Since, Slot};
use crate::isolation::Isolation;
use crate::limits::{Bounds, FREE_BYTES, Limits};
use crate::memory::is_short;
use crate::open::{Label, OpenTransaction};

/// A transaction. Clones are cheap, and are handles of the same transaction.
///
/// Dropping the last handle before a commit rolls the transaction back.
#[derive(Clone)]
pub struct Transaction {
    pub(super) inner: Arc<Inner>,
    /// Context of the calls through this handle.
    pub(super) context: Context,
}

pub(super) struct Inner {
    pub(super) store: StoreHandle,
    pub(super) isolation: Isolation,
    pub(super) begun: Begun,
    pub(super) bounds: Bounds,
    pub(super) state: Mutex<TransactionState>,
    pub(super) snapshot_held: AtomicBool,
    /// Slot of the transaction in the idle watch.
    pub(super) slot: Option<Slot>,
    /// Time at which the transaction began, in coarse time.
    pub(super) began: u64,
    pub(super) label: Option<Label>,
}

/// Options of a transaction: its size limits, its idle limit and its label.
#[derive(Clone, Copy, Debug, Default)]
pub struct Terms<'a> {
    /// Maximum size of a transaction.
    pub limits: Limits,
    /// Memory that the read and write sets of all transactions share. A write set that finds none left is spilled,
    /// if the store supports it.
    pub memory: Option<&'a MemoryBudget>,
    /// Whether small sets are charged to that memory, too: for transactions that wait for their client between calls.
    pub counts_small_sets: bool,
    /// Watch that rolls the transaction back when it is idle for too long; later calls fail with
    /// `Timeout`.
    pub idle: Option<&'a IdleWatch>,
    /// Label for the list of open transactions and for warnings.
    pub label: Option<&'a Label>,
}

impl Transaction {
    /// Begins a transaction.
    ///
    /// # Errors
    ///
    /// See [`CommitLog::begin`](carnet_store::CommitLog::begin).
    pub async fn begin(
        store: impl Into<StoreHandle>,
        context: Context,
        kind: BeginKind,
        isolation: Isolation,
    ) -> Result<Self> {
        Self::begin_on(store, context, kind, isolation, Terms::default()).await
    }

    /// Like [`Transaction::begin`], with options.
    ///
    /// # Errors
    ///
    /// See [`CommitLog::begin`](carnet_store::CommitLog::begin).
    pub async fn begin_on(
        store: impl Into<StoreHandle>,
        context: Context,
        kind: BeginKind,
        isolation: Isolation,
        terms: Terms<'_>,
    ) -> Result<Self> {
        let context = match isolation {
            Isolation::StrictSerializable => context,
            Isolation::Serializable | Isolation::Snapshot => context.accepting_stale(),
        };
        let store = store.into();
        let begun = store.begin(&context, kind).await?;
        let inner = Arc::new_cyclic(|this: &Weak<Inner>| {
            let slot = terms.idle.map(|watch| watch.slot(Weak::<Inner>::clone(this)));
            let touched = slot.as_ref().map_or(0, Slot::now);
            Inner {
                store,
                isolation,
                begun,
                bounds: Bounds {
                    limits: terms.limits,
                    memory: terms.memory.cloned(),
                    counts_small_sets: terms.counts_small_sets,
                },
                state: Mutex::new(TransactionState { touched, ..TransactionState::default() }),
                snapshot_held: AtomicBool::new(true),
                slot,
                began: touched,
                label: terms.label.cloned(),
            }
        });
        Ok(Self { inner, context })
    }

    /// Returns `true` if less than an eighth of the memory of all transactions is free, the transaction's sets
    /// hold more than most transactions need, and others hold at least as much. So the largest one goes on
    /// and ends.
    #[must_use]
    pub fn crowds_memory(&self) -> bool {
        let Some(memory) = &self.inner.bounds.memory else { return false };
        if !is_short(memory.root()) {
            return false;
        }
        let state = self.inner.lock();
        let own = state.reads.memory_bytes() + state.write_memory.bytes();
        own > FREE_BYTES && memory.root().used().saturating_sub(own) >= own
    }

    /// Returns R: the transaction sees every commit up to R, and none after.
    #[must_use]
    pub fn read_timestamp(&self) -> Timestamp {
        self.inner.begun.read
    }

    /// Returns [`Begun::schema`]: no system table has changed between this timestamp and R.
    #[must_use]
    pub fn schema_timestamp(&self) -> Timestamp {
        self.inner.begun.schema
    }

    /// Returns S, which identifies the transaction; a read-only one has none.
    #[must_use]
    pub fn start_timestamp(&self) -> Option<Timestamp> {
        self.inner.begun.start
    }

    /// Returns the context of the calls through this handle.
    #[must_use]
    pub const fn context(&self) -> &Context {
        &self.context
    }

    /// Returns a handle of the same transaction whose calls have another context. Whether stale begins are accepted
    /// has no effect any more.
    #[must_use]
    pub fn with_context(&self, context: Context) -> Self {
        Self { inner: Arc::clone(&self.inner), context }
    }

    /// Returns the bytes of the keys and values that the transaction has written.
    #[must_use]
    pub fn written_bytes(&self) -> u64 {
        let state = self.inner.lock();
        state.writes.bytes() + state.spilled.as_ref().map_or(0, |spilled| spilled.bytes)
    }

    /// Returns the number of calls that changed the write set: the number stays the same while the transaction only
    /// reads.
    #[must_use]
    pub fn changes(&self) -> u64 {
        self.inner.lock().changes
    }

    /// Returns `true` if the transaction has ended.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.inner.lock().ended.is_some()
    }

    /// Returns the isolation level.
    #[must_use]
    pub fn isolation(&self) -> Isolation {
        self.inner.isolation
    }
}

impl Inner {
    pub(super) fn lock(&self) -> MutexGuard<'_, TransactionState> {
        lock(&self.state)
    }

    pub(super) fn open(&self) -> Result<MutexGuard<'_, TransactionState>> {
        self.touch(self.lock())
    }

    fn touch<'s>(
        &self,
        mut state: MutexGuard<'s, TransactionState>,
    ) -> Result<MutexGuard<'s, TransactionState>> {
        if let Some(ended) = state.ended {
            return Err(ended.into());
        }
        state.touched = self.slot.as_ref().map_or(0, Slot::now);
        Ok(state)
    }

    /// Begins a call that waits for the store.
    pub(super) const fn call(&self, state: &mut TransactionState) -> PendingCall<'_> {
        state.calls += 1;
        PendingCall { inner: self }
    }

    /// Returns `true` if reads are recorded. A read-only transaction needs no read set: its
    /// snapshot alone is serializable.
    pub(super) const fn remembers_reads(&self) -> bool {
        self.isolation.checks_reads() && self.begun.start.is_some()
    }

    pub(super) fn release(&self) {
        if self.snapshot_held.swap(false, Ordering::AcqRel) {
            self.store.end(self.begun);
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.release();
    }
}

impl Idle for Inner {
    fn describe(&self) -> Option<OpenTransaction> {
        self.snapshot_held.load(Ordering::Acquire).then(|| OpenTransaction {
            read: self.begun.read,
            start: self.begun.start,
            began: Moment(Duration::from_nanos(self.began)),
            label: self.label.clone(),
        })
    }

    fn end_if_idle(&self, since: &Since) {
        let (since, limit) = match self.begun.start {
            Some(_) => (since.writer, since.limits.writer),
            None => (since.reader, since.limits.reader),
        };
        let mut state = self.lock();
        if state.ended.is_some() || state.calls > 0 || state.touched >= since {
            return;
        }
        let given_up = state.end(Ended::Idle(limit));
        drop(state);
        drop(given_up);
        self.release();
    }
}

/// A call in flight that waits for the store.
pub(super) struct PendingCall<'a> {
    inner: &'a Inner,
}

impl<'a> PendingCall<'a> {
    /// Ends the call, and returns the state unless the transaction has ended meanwhile.
    pub(super) fn end(self) -> Result<MutexGuard<'a, TransactionState>> {
        let inner = self.inner;
        std::mem::forget(self);
        let mut state = inner.lock();
        state.calls -= 1;
        inner.touch(state)
    }
}

impl Drop for PendingCall<'_> {
    fn drop(&mut self) {
        let mut state = self.inner.lock();
        state.calls -= 1;
        // It does not matter here whether the transaction has ended meanwhile.
        drop(self.inner.touch(state));
    }
}
