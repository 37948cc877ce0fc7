//! A transaction: a snapshot, its buffered writes, and its read set.

mod merge;
mod narrow;
mod page;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use carnet_base::sync::lock;
use carnet_base::{
    Bytes, CellHash, CellKey, CellKeyRef, Error, ErrorKind, KeyRange, MemoryBudget, Moment, Result,
    TableId, Timestamp, Version,
};
use carnet_store::{
    BeginKind, Begun, CellStore, CommitLog, CommitRequest, Context, PageLimit, RangeRequest, Spill,
    SpilledPage, Writes,
};

use crate::entry::{Entry, TransactionPage};
use crate::idle::{Idle, IdleWatch, Since, Slot};
use crate::isolation::Isolation;
use crate::limits::{Bounds, Limits, Written};
use crate::memory::SetMemory;
use crate::open::{Label, OpenTransaction};
use crate::reader;
use crate::reads::Reads;
use merge::{covered, cut, merge, own_page};

/// A transaction. Clones are cheap, and are handles of the same transaction.
///
/// Dropping the last handle before a commit rolls the transaction back.
pub struct Transaction<S: CellStore + CommitLog> {
    inner: Arc<Inner<S>>,
}

impl<S: CellStore + CommitLog> Clone for Transaction<S> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner) }
    }
}

struct Inner<S: CellStore + CommitLog> {
    store: Arc<S>,
    context: Context,
    isolation: Isolation,
    begun: Begun,
    bounds: Bounds,
    state: Mutex<State>,
    snapshot_held: AtomicBool,
    /// Its slot in the idle watch.
    slot: Option<Slot>,
    /// Begin of the transaction, in coarse time.
    began: u64,
    label: Option<Label>,
}

#[derive(Default)]
struct State {
    ended: Option<Ended>,
    /// Number of calls that wait for the store; while it is not zero, the transaction is not idle.
    calls: u32,
    /// Time of the last call, in coarse time.
    touched: u64,
    /// Whether it has read anything, with or without an entry in the read set.
    has_read: bool,
    reads: Reads,
    writes: Writes,
    /// Memory of `writes`.
    write_memory: SetMemory,
    /// Earlier writes than those in `writes`, spilled because they were too large for memory.
    spilled: Option<Spilled>,
    drops: Vec<TableId>,
}

/// Writes in a spill file.
struct Spilled {
    spill: Arc<dyn Spill>,
    bytes: u64,
    cells: u64,
}

/// Options of a transaction: its size limits, its idle limit and its label.
#[derive(Clone, Copy, Debug, Default)]
pub struct Terms<'a> {
    /// Maximum size of a transaction.
    pub limits: Limits,
    /// Memory that the read and write sets of all transactions share. A write set that finds none left is spilled,
    /// if the store supports it.
    pub memory: Option<&'a MemoryBudget>,
    /// Watch that rolls the transaction back when it is idle for too long; later calls fail with
    /// `Timeout`.
    pub idle: Option<&'a IdleWatch>,
    /// Label for the list of open transactions and for warnings.
    pub label: Option<&'a Label>,
}

/// Reason why the transaction has ended.
#[derive(Clone, Copy)]
enum Ended {
    /// By a commit or a rollback.
    ByCall,
    /// By the idle watch, after this idle time.
    Idle(Duration),
}

impl State {
    fn spill(&self) -> Option<Arc<dyn Spill>> {
        self.spilled.as_ref().map(|spilled| Arc::clone(&spilled.spill))
    }

    fn runs(&self) -> usize {
        self.spilled.as_ref().map_or(0, |spilled| spilled.spill.runs())
    }

    /// Returns the size including a write of `bytes` to one more cell.
    fn grown(&self, bytes: u64) -> Written {
        let (spilled_bytes, spilled_cells) =
            self.spilled.as_ref().map_or((0, 0), |spilled| (spilled.bytes, spilled.cells));
        Written {
            bytes: self.writes.bytes() + bytes,
            cells: self.writes.len() as u64 + 1,
            spilled_bytes,
            spilled_cells,
        }
    }

    /// Like [`State::grown`], for a write to a cell that may have been written before.
    fn grown_by(&self, key: CellKeyRef<'_>, bytes: u64) -> Written {
        let mut grown = self.grown(bytes);
        if let Some(before) = self.writes.bytes_of(key) {
            grown.bytes -= before;
            grown.cells -= 1;
        }
        grown
    }

    /// Ends the transaction, and returns its state.
    fn end(&mut self, why: Ended) -> Self {
        let ended = Self { ended: Some(why), calls: self.calls, ..Self::default() };
        std::mem::replace(self, ended)
    }
}

impl<S: CellStore + CommitLog> Transaction<S> {
    /// Begins a transaction.
    ///
    /// # Errors
    ///
    /// See [`CommitLog::begin`].
    pub async fn begin(
        store: Arc<S>,
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
    /// See [`CommitLog::begin`].
    pub async fn begin_on(
        store: Arc<S>,
        context: Context,
        kind: BeginKind,
        isolation: Isolation,
        terms: Terms<'_>,
    ) -> Result<Self> {
        let context = match isolation {
            Isolation::StrictSerializable => context,
            Isolation::Serializable | Isolation::Snapshot => context.accepting_stale(),
        };
        let begun = store.begin(&context, kind).await?;
        let inner = Arc::new_cyclic(|this: &Weak<Inner<S>>| {
            let slot = terms.idle.map(|watch| watch.slot(Weak::<Inner<S>>::clone(this)));
            let touched = slot.as_ref().map_or(0, Slot::now);
            Inner {
                store,
                context,
                isolation,
                begun,
                bounds: Bounds { limits: terms.limits, memory: terms.memory.cloned() },
                state: Mutex::new(State { touched, ..State::default() }),
                snapshot_held: AtomicBool::new(true),
                slot,
                began: touched,
                label: terms.label.cloned(),
            }
        });
        Ok(Self { inner })
    }

    /// Returns R: the transaction sees every commit up to R, and none after.
    #[must_use]
    pub fn read_timestamp(&self) -> Timestamp {
        self.inner.begun.read
    }

    /// Returns [`Begun::schema`]: no system table has changed since then, up to R.
    #[must_use]
    pub fn schema_timestamp(&self) -> Timestamp {
        self.inner.begun.schema
    }

    /// Returns S, which identifies the transaction; a read-only one has none.
    #[must_use]
    pub fn start_timestamp(&self) -> Option<Timestamp> {
        self.inner.begun.start
    }

    /// Returns the store of the transaction.
    #[must_use]
    pub fn store(&self) -> &S {
        &self.inner.store
    }

    /// Returns the isolation level.
    #[must_use]
    pub fn isolation(&self) -> Isolation {
        self.inner.isolation
    }

    /// Reads a cell.
    ///
    /// # Errors
    ///
    /// `Invalid` if the transaction has ended, or its read set would exceed its limit; `Timeout` if
    /// it has been idle for too long; otherwise the store's errors.
    pub async fn get(&self, key: &CellKey) -> Result<Option<Entry>> {
        let inner = &*self.inner;
        let (call, spilled) = {
            let mut state = inner.open()?;
            if let Some(payload) = state.writes.get(key) {
                return Ok(inner.own(payload));
            }
            state.has_read = true;
            if inner.remembers_reads() {
                state.reads.point(key.hash(), &inner.bounds)?;
            }
            (inner.call(&mut state), state.spill())
        };
        if let Some(spill) = spilled
            && let Some(payload) = spill.get(key).await?
        {
            drop(call.end()?);
            return Ok(inner.own(payload));
        }
        let version = reader::read(&*inner.store, &inner.context, key, inner.begun.read).await?;
        // If another handle has ended the transaction meanwhile, the snapshot was not held during
        // the read.
        drop(call.end()?);
        Ok(version.and_then(Entry::from_version))
    }

    /// Reads many cells, in the order of the keys. A store may combine them into few requests.
    ///
    /// # Errors
    ///
    /// See [`Transaction::get`].
    pub async fn get_many(&self, keys: &[CellKey]) -> Result<Vec<Option<Entry>>> {
        let inner = &*self.inner;
        let mut entries = vec![None; keys.len()];
        // Indices of the cells that must be read from the store.
        let mut missing = Vec::new();
        let (call, spilled) = {
            let mut state = inner.open()?;
            state.has_read = true;
            for (place, key) in keys.iter().enumerate() {
                if let Some(payload) = state.writes.get(key) {
                    entries[place] = inner.own(payload);
                    continue;
                }
                if inner.remembers_reads() {
                    state.reads.point(key.hash(), &inner.bounds)?;
                }
                missing.push(place);
            }
            (inner.call(&mut state), state.spill())
        };
        if let Some(spill) = spilled {
            let mut left = Vec::with_capacity(missing.len());
            for place in missing {
                match spill.get(&keys[place]).await? {
                    Some(payload) => entries[place] = inner.own(payload),
                    None => left.push(place),
                }
            }
            missing = left;
        }
        let sought: Vec<CellKey> = missing.iter().map(|place| keys[*place].clone()).collect();
        let read = inner.begun.read;
        let found = reader::read_many(&*inner.store, &inner.context, &sought, read).await?;
        drop(call.end()?);
        for (place, version) in missing.into_iter().zip(found) {
            entries[place] = version.and_then(Entry::from_version);
        }
        Ok(entries)
    }

    /// Reads a page of a range, overlaid with this transaction's own writes.
    ///
    /// # Errors
    ///
    /// See [`Transaction::get`].
    pub async fn range(
        &self,
        range: &KeyRange,
        reverse: bool,
        limit: PageLimit,
    ) -> Result<TransactionPage> {
        let inner = &*self.inner;
        let awaited = {
            let mut state = inner.open()?;
            state.has_read = true;
            inner.call(&mut state)
        };
        let read = inner.begun.read;
        let request = RangeRequest { range: range.clone(), read, reverse, limit };
        let page = inner.store.range(&inner.context, &request).await?;
        let mut stored = Vec::with_capacity(page.cells.len());
        for (key, candidate) in page.cells {
            let version = match candidate.commit {
                // A stamped version is visible; most versions need no lookup.
                Some(_) => Some(candidate),
                None => {
                    reader::resolve(&*inner.store, &inner.context, &key, candidate, read).await?
                }
            };
            let Some(Version { start, payload: Some(payload), .. }) = version else { continue };
            stored.push((key, Entry { start, payload }));
        }
        let mut rest = page.resume;
        let looked_at = covered(range, rest.as_ref(), reverse);
        let own_max = limit.cells.max(1).saturating_mul(2);
        let (spilled, mut state) = loop {
            let runs = inner.open()?.runs();
            let spilled = inner.spilled_writes(&looked_at, reverse, own_max).await?;
            let state = inner.open()?;
            // Otherwise another handle's write has spilled meanwhile.
            if state.runs() == runs {
                break (spilled, state);
            }
        };
        awaited.finish(&mut state);
        let own = state.writes.range(&looked_at, reverse);
        let before = |a: &CellKey, b: &CellKey| if reverse { a > b } else { a < b };
        // Later own writes are overlaid on later pages: scanning all of them for each page would
        // take quadratic time.
        let (page_of_own, more) = own_page(own, spilled, own_max, before);
        if more && let Some((last, _)) = page_of_own.last() {
            let behind = range.after(last.clone(), reverse);
            stored.retain(|(key, _)| !behind.contains(key));
            rest = Some(behind);
        }
        let page_of_own = page_of_own
            .into_iter()
            .map(|(key, payload)| (key, inner.own(payload)))
            .collect::<Vec<_>>();
        let merged = if page_of_own.is_empty() {
            stored
        } else {
            merge(stored.into_iter().peekable(), page_of_own.into_iter(), before)
        };
        let page = cut(merged, rest, range, reverse, limit);
        if inner.remembers_reads() {
            let covered = covered(range, page.resume.as_ref(), reverse);
            state.reads.range(covered, &inner.bounds)?;
        }
        Ok(page)
    }

    /// Writes a cell. Other transactions do not see it before the commit.
    ///
    /// # Errors
    ///
    /// `Invalid` if the transaction has ended, is read-only, or would exceed its limits, or if the
    /// key or the payload is too long; `Timeout` if it has been idle for too long.
    pub fn put(&self, key: CellKey, payload: Bytes) -> Result<()> {
        self.write(key, Some(payload))
    }

    /// Like [`Transaction::guard_hash`] followed by [`Transaction::put`], for bytes that are
    /// copied.
    ///
    /// # Errors
    ///
    /// See [`Transaction::put`].
    pub fn put_guarded(
        &self,
        guarded: CellHash,
        key: CellKeyRef<'_>,
        payload: &[u8],
    ) -> Result<()> {
        let mut state = self.with_room_for(key, Some(payload))?;
        state.reads.guard(guarded, &self.inner.bounds)?;
        state.writes.put(key, Some(payload));
        Ok(())
    }

    /// Deletes a cell, whether it exists or not.
    ///
    /// # Errors
    ///
    /// See [`Transaction::put`].
    pub fn delete(&self, key: CellKey) -> Result<()> {
        self.write(key, None)
    }

    fn write(&self, key: CellKey, payload: Option<Bytes>) -> Result<()> {
        let mut state = self.with_room_for(key.as_key_ref(), payload.as_deref())?;
        state.writes.put_owned(key, payload);
        Ok(())
    }

    /// Locks the state with room for a write, spilling earlier writes if necessary.
    fn with_room_for(
        &self,
        key: CellKeyRef<'_>,
        payload: Option<&[u8]>,
    ) -> Result<MutexGuard<'_, State>> {
        let inner = &*self.inner;
        if inner.begun.start.is_none() {
            return Err(only_reads());
        }
        key.check_size(payload)?;
        let mut state = inner.open()?;
        let bytes = Writes::weight(key, payload);
        // Count exactly only near a limit.
        let Bounds { limits, memory } = &inner.bounds;
        let most = state.grown(bytes);
        if limits.hold(&most) && state.write_memory.holds(most.memory_len()) {
            return Ok(state);
        }
        let mut grown = state.grown_by(key, bytes);
        limits.check_writes(&grown)?;
        if grown.memory_bytes() > limits.spill_bytes && inner.spill(&mut state)? {
            grown = state.grown_by(key, bytes);
        }
        limits.check_memory(&grown)?;
        if let Err(refused) = state.write_memory.grow_to(grown.memory_len(), memory.as_ref()) {
            if inner.spill(&mut state)? {
                grown = state.grown_by(key, bytes);
            }
            // A single cell always fits, whatever the settings are.
            if grown.cells > 1 {
                return Err(refused);
            }
            state.write_memory.force(grown.memory_len(), memory.as_ref());
        }
        Ok(state)
    }

    /// Drops a table: deletes all its cells, without reading any.
    ///
    /// The caller must ensure that the commit writes a cell that every user of the table reads or
    /// guards, and that the table's id is not used again: see [`CommitRequest::drops`].
    ///
    /// # Errors
    ///
    /// `Invalid` if the transaction has ended or is read-only.
    pub fn drop_table(&self, table: TableId) -> Result<()> {
        if self.inner.begun.start.is_none() {
            return Err(only_reads());
        }
        let state = &mut *self.inner.open()?;
        if state.spilled.is_some() {
            return Err(Error::unsupported(
                "dropping a table in a transaction that has written more than fits into memory",
            ));
        }
        // A commit does not hide the writes of its own transaction, so remove them here.
        state.writes.forget_table(table);
        state.drops.push(table);
        Ok(())
    }

    /// Makes the commit depend on a cell, such as a schema, at every isolation level.
    ///
    /// # Errors
    ///
    /// `Invalid` if the transaction has ended.
    pub fn guard_cell(&self, key: &CellKey) -> Result<()> {
        self.guard_hash(key.hash())
    }

    /// Like [`Transaction::guard_cell`], for a cell whose hash is known.
    ///
    /// # Errors
    ///
    /// See [`Transaction::guard_cell`].
    pub fn guard_hash(&self, cell: CellHash) -> Result<()> {
        self.inner.open()?.reads.guard(cell, &self.inner.bounds)
    }

    /// Makes the commit depend on a range, such as a deleted range, at every isolation level.
    ///
    /// # Errors
    ///
    /// `Invalid` if the transaction has ended.
    pub fn guard_range(&self, range: KeyRange) -> Result<()> {
        self.inner.open()?.reads.range(range, &self.inner.bounds)
    }

    /// Commits, and returns the timestamp at which the writes are visible; a transaction without
    /// writes returns its snapshot.
    ///
    /// Dropping the future does not undo a commit that was decided; it ends the transaction in any
    /// case.
    ///
    /// # Errors
    ///
    /// `Conflict` and `TooOld`: nothing was written, run the transaction again. `Unknown`: ask for
    /// the outcome of the start. `Invalid`: the transaction has ended already.
    pub async fn commit(&self) -> Result<Timestamp> {
        let inner = &*self.inner;
        // The memory of both sets is charged until the commit has ended.
        let State { has_read, reads, writes, drops, spilled, write_memory: _written, .. } =
            { inner.open()?.end(Ended::ByCall) };
        let (reads, _read) = reads.into_set();
        let _release = Release(inner);
        match inner.begun.start {
            Some(start) if !writes.is_empty() || !drops.is_empty() || spilled.is_some() => {
                let mut request = CommitRequest::new(inner.begun, start, reads, writes);
                request.drops = drops;
                request.checks_writes = has_read && !inner.isolation.checks_reads();
                match spilled {
                    Some(Spilled { spill, .. }) => spill.commit(&inner.context, request).await,
                    None => inner.store.commit(&inner.context, request).await,
                }
            }
            _ => Ok(inner.begun.read),
        }
    }

    /// Returns the result of `choose` for the cells that the transaction wrote or read one by one,
    /// if it has writes in memory.
    pub fn with_cells<T>(
        &self,
        choose: impl FnOnce(&mut dyn Iterator<Item = CellHash>) -> Option<T>,
    ) -> Option<T> {
        let state = self.inner.lock();
        if state.writes.is_empty() {
            return None;
        }
        let written = state.writes.iter().map(|(key, _)| key.hash());
        choose(&mut written.chain(state.reads.points().iter().copied()))
    }

    /// Rolls the transaction back, and discards its writes.
    pub fn rollback(&self) {
        let mut state = self.inner.lock();
        // A commit by another handle keeps the snapshot until it is complete.
        if state.ended.is_some() {
            return;
        }
        let given_up = state.end(Ended::ByCall);
        drop(state);
        drop(given_up);
        self.inner.release();
    }
}

impl<S: CellStore + CommitLog> Inner<S> {
    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    fn open(&self) -> Result<MutexGuard<'_, State>> {
        self.touch(self.lock())
    }

    fn touch<'s>(&self, mut state: MutexGuard<'s, State>) -> Result<MutexGuard<'s, State>> {
        if let Some(ended) = state.ended {
            return Err(ended.into());
        }
        state.touched = self.slot.as_ref().map_or(0, Slot::now);
        Ok(state)
    }

    /// Begins a call that waits for the store.
    const fn call(&self, state: &mut State) -> Call<'_, S> {
        state.calls += 1;
        Call { inner: self }
    }

    /// Returns `true` if reads are recorded. A read-only transaction needs no read set: its
    /// snapshot alone is serializable.
    const fn remembers_reads(&self) -> bool {
        self.isolation.checks_reads() && self.begun.start.is_some()
    }

    fn own(&self, payload: Option<Bytes>) -> Option<Entry> {
        let start = self.begun.start?;
        payload.map(|payload| Entry { start, payload })
    }

    /// Returns the first spilled writes in a range.
    async fn spilled_writes(
        &self,
        range: &KeyRange,
        reverse: bool,
        cells_max: usize,
    ) -> Result<SpilledPage> {
        let Some(spill) = self.open()?.spill() else { return Ok(SpilledPage::default()) };
        spill.range(range, reverse, cells_max).await
    }

    /// Spills the writes in memory to a file, if the store supports it; returns whether it did.
    fn spill(&self, state: &mut State) -> Result<bool> {
        let Some(start) = self.begun.start.filter(|_| state.drops.is_empty()) else {
            return Ok(false);
        };
        if state.writes.is_empty() {
            return Ok(false);
        }
        let spilled = match state.spilled.take() {
            Some(spilled) => spilled,
            None => match self.store.spill(start) {
                Some(spill) => Spilled { spill, bytes: 0, cells: 0 },
                None => return Ok(false),
            },
        };
        let spilled = state.spilled.insert(spilled);
        spilled.spill.add(&mut state.writes.iter())?;
        spilled.bytes += state.writes.bytes();
        spilled.cells += state.writes.len() as u64;
        state.writes.clear();
        state.write_memory = SetMemory::default();
        Ok(true)
    }

    fn release(&self) {
        if self.snapshot_held.swap(false, Ordering::AcqRel) {
            self.store.end(self.begun);
        }
    }
}

impl<S: CellStore + CommitLog> Drop for Inner<S> {
    fn drop(&mut self) {
        self.release();
    }
}

impl<S: CellStore + CommitLog> Idle for Inner<S> {
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

/// Releases the snapshot when a commit is complete or cancelled.
struct Release<'a, S: CellStore + CommitLog>(&'a Inner<S>);

impl<S: CellStore + CommitLog> Drop for Release<'_, S> {
    fn drop(&mut self) {
        self.0.release();
    }
}

/// A call in flight that waits for the store.
struct Call<'a, S: CellStore + CommitLog> {
    inner: &'a Inner<S>,
}

impl<'a, S: CellStore + CommitLog> Call<'a, S> {
    /// Ends the call, for a caller that holds the state.
    const fn finish(self, state: &mut State) {
        std::mem::forget(self);
        state.calls -= 1;
    }

    /// Ends the call, and returns the state unless the transaction has ended meanwhile.
    fn end(self) -> Result<MutexGuard<'a, State>> {
        let inner = self.inner;
        std::mem::forget(self);
        let mut state = inner.lock();
        state.calls -= 1;
        inner.touch(state)
    }
}

impl<S: CellStore + CommitLog> Drop for Call<'_, S> {
    fn drop(&mut self) {
        let mut state = self.inner.lock();
        state.calls -= 1;
        // It does not matter here whether the transaction has ended meanwhile.
        drop(self.inner.touch(state));
    }
}

impl From<Ended> for Error {
    fn from(ended: Ended) -> Self {
        match ended {
            Ended::ByCall => Self::invalid("the transaction has ended; begin a new one"),
            Ended::Idle(limit) => Self::new(
                ErrorKind::Timeout,
                format!(
                    "the transaction was rolled back, because nothing was called on it for \
                     {limit:?}; begin a new one, or raise the idle timeout"
                ),
            ),
        }
    }
}

fn only_reads() -> Error {
    Error::invalid("this transaction is read-only; begin one that may write")
}
