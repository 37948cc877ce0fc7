//! One transaction: a snapshot, the writes laid over it, and a memory of what was read.

mod merge;
mod narrow;
mod page;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use carnet_base::{
    Bytes, CellHash, CellKey, CellKeyRef, Error, ErrorKind, KeyRange, Moment, Result, TableId,
    Timestamp, Version, limits,
};
use carnet_store::{
    BeginKind, Begun, CellStore, CommitLog, CommitRequest, Context, PageLimit, RangeRequest, Spill,
    SpilledPage, Writes,
};

use crate::idle::{Idle, IdleWatch, Place, Since};
use crate::isolation::Isolation;
use crate::limits::{Limits, Written};
use crate::open::{Label, OpenTransaction};
use crate::reader;
use crate::reads::Reads;
use merge::{covered, cut, merge, own_page};

/// A cell that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Names the version: the start of the transaction that wrote it, maybe this one.
    pub start: Timestamp,
    /// The row image or byte string.
    pub payload: Bytes,
}

impl Entry {
    /// Returns what a version leaves there; a tombstone leaves nothing.
    #[must_use]
    pub fn of(version: Version) -> Option<Self> {
        version.payload.map(|payload| Self { start: version.start, payload })
    }
}

/// A page of cells that are there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TransactionPage {
    /// The cells, in the order asked for.
    pub cells: Vec<(CellKey, Entry)>,
    /// What is left of the range. A page may be short, even empty, and still have more.
    pub resume: Option<KeyRange>,
}

/// A transaction. Cheap to clone: clones are handles of the same transaction.
///
/// When the last handle is dropped before a commit, the transaction is rolled back.
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
    limits: Limits,
    state: Mutex<State>,
    snapshot_held: AtomicBool,
    /// Where it is watched for being left alone.
    place: Option<Place>,
    /// When it began, in coarse time.
    began: u64,
    label: Option<Label>,
}

#[derive(Default)]
struct State {
    ended: Option<Ended>,
    /// Calls that wait for the store: as long as there are any it is not idle.
    calls: u32,
    /// When it was called last, in coarse time.
    touched: u64,
    /// It has read something, whether the read set names it or not.
    has_read: bool,
    reads: Reads,
    writes: Writes,
    /// What was written before all that is in `writes`, where that was too much for memory.
    spilled: Option<Spilled>,
    drops: Vec<TableId>,
}

/// Writes that are not in memory.
struct Spilled {
    spill: Arc<dyn Spill>,
    bytes: u64,
    cells: u64,
}

/// How large a transaction may grow, and for how long it may be left alone.
#[derive(Clone, Copy, Debug, Default)]
pub struct Terms<'a> {
    /// How large it can be.
    pub limits: Limits,
    /// Rolls it back when nobody calls it for too long: what is called then fails with `Timeout`.
    pub idle: Option<&'a IdleWatch>,
    /// Who runs it, for whoever asks the watch who holds the sweep back.
    pub label: Option<&'a Label>,
}

/// Why nothing can be done any more.
#[derive(Clone, Copy)]
enum Ended {
    /// By a commit or a rollback.
    ByCall,
    /// Nobody had called it for so long.
    Idle(Duration),
}

impl State {
    fn spill(&self) -> Option<Arc<dyn Spill>> {
        self.spilled.as_ref().map(|spilled| Arc::clone(&spilled.spill))
    }

    fn runs(&self) -> usize {
        self.spilled.as_ref().map_or(0, |spilled| spilled.spill.runs())
    }

    /// What there would be with a write of so many bytes to one more cell.
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

    /// As [`State::grown`], with a write to a cell that may have been written to before.
    fn grown_by(&self, key: CellKeyRef<'_>, bytes: u64) -> Written {
        let mut grown = self.grown(bytes);
        if let Some(before) = self.writes.bytes_of(key) {
            grown.bytes -= before;
            grown.cells -= 1;
        }
        grown
    }

    /// Ends the transaction, and returns what it had gathered.
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
    /// As [`CommitLog::begin`].
    pub async fn begin(
        store: Arc<S>,
        context: Context,
        kind: BeginKind,
        isolation: Isolation,
    ) -> Result<Self> {
        Self::begin_on(store, context, kind, isolation, Terms::default()).await
    }

    /// As [`Transaction::begin`], on terms.
    ///
    /// # Errors
    ///
    /// As [`CommitLog::begin`].
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
            let place = terms.idle.map(|watch| watch.place(Weak::<Inner<S>>::clone(this)));
            let touched = place.as_ref().map_or(0, Place::now);
            Inner {
                store,
                context,
                isolation,
                begun,
                limits: terms.limits,
                state: Mutex::new(State { touched, ..State::default() }),
                snapshot_held: AtomicBool::new(true),
                place,
                began: touched,
                label: terms.label.cloned(),
            }
        });
        Ok(Self { inner })
    }

    /// Returns R: the transaction sees every commit up to here, and none after.
    #[must_use]
    pub fn read_timestamp(&self) -> Timestamp {
        self.inner.begun.read
    }

    /// Returns [`Begun::schema`]: no table of the system has changed since, up to R.
    #[must_use]
    pub fn schema_timestamp(&self) -> Timestamp {
        self.inner.begun.schema
    }

    /// Returns S, which names the transaction; a read-only one has none.
    #[must_use]
    pub fn start_timestamp(&self) -> Option<Timestamp> {
        self.inner.begun.start
    }

    /// Returns the store that it runs on.
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
    /// `Invalid` when the transaction has ended, or would remember more reads than its limit;
    /// `Timeout` when it has been left alone for too long; else as the store's.
    pub async fn get(&self, key: &CellKey) -> Result<Option<Entry>> {
        let inner = &*self.inner;
        let (call, spilled) = {
            let mut state = inner.open()?;
            if let Some(payload) = state.writes.get(key) {
                return Ok(inner.own(payload));
            }
            state.has_read = true;
            if inner.remembers_reads() {
                state.reads.point(key.hash(), &inner.limits)?;
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
        // Where another handle has ended it meanwhile, nothing held the snapshot any more.
        drop(call.end()?);
        Ok(version.and_then(Entry::of))
    }

    /// Reads many cells, in the order of the keys. A store may do so with few requests.
    ///
    /// # Errors
    ///
    /// As [`Transaction::get`].
    pub async fn get_many(&self, keys: &[CellKey]) -> Result<Vec<Option<Entry>>> {
        let inner = &*self.inner;
        let mut entries = vec![None; keys.len()];
        // The places of those that have to be looked for in the store.
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
                    state.reads.point(key.hash(), &inner.limits)?;
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
            entries[place] = version.and_then(Entry::of);
        }
        Ok(entries)
    }

    /// Reads a page of a range, with this transaction's own writes laid over it.
    ///
    /// # Errors
    ///
    /// As [`Transaction::get`].
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
                // What is stamped is visible: mostly nothing is looked up.
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
            // Otherwise another handle's write has moved some from memory to a file meanwhile.
            if state.runs() == runs {
                break (spilled, state);
            }
        };
        awaited.finish(&mut state);
        let own = state.writes.range(&looked_at, reverse);
        let before = |a: &CellKey, b: &CellKey| if reverse { a > b } else { a < b };
        // Further own writes are laid over further pages: looking at all of them for each page
        // would take time in their square.
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
            state.reads.range(covered, &inner.limits)?;
        }
        Ok(page)
    }

    /// Writes a cell. Nobody else sees it before the commit.
    ///
    /// # Errors
    ///
    /// `Invalid` when the transaction has ended, only reads, or would grow beyond its limits, and
    /// where the key or the payload is too long; `Timeout` when it has been left alone for too
    /// long.
    pub fn put(&self, key: CellKey, payload: Bytes) -> Result<()> {
        self.write(key, Some(payload))
    }

    /// As [`Transaction::put`] behind [`Transaction::guard_hash`], of bytes that are copied.
    ///
    /// # Errors
    ///
    /// As [`Transaction::put`].
    pub fn put_guarded(
        &self,
        guarded: CellHash,
        key: CellKeyRef<'_>,
        payload: &[u8],
    ) -> Result<()> {
        let mut state = self.with_room_for(key, Some(payload))?;
        state.reads.guard(guarded, &self.inner.limits)?;
        state.writes.put(key, Some(payload));
        Ok(())
    }

    /// Deletes a cell, whether it is there or not.
    ///
    /// # Errors
    ///
    /// As [`Transaction::put`].
    pub fn delete(&self, key: CellKey) -> Result<()> {
        self.write(key, None)
    }

    fn write(&self, key: CellKey, payload: Option<Bytes>) -> Result<()> {
        let mut state = self.with_room_for(key.as_key_ref(), payload.as_deref())?;
        state.writes.put_owned(key, payload);
        Ok(())
    }

    /// Sees to it that there is room for a write.
    fn with_room_for(
        &self,
        key: CellKeyRef<'_>,
        payload: Option<&[u8]>,
    ) -> Result<MutexGuard<'_, State>> {
        let inner = &*self.inner;
        if inner.begun.start.is_none() {
            return Err(only_reads());
        }
        limits::check(key, payload)?;
        let mut state = inner.open()?;
        let bytes = Writes::weight(key, payload);
        // What is far from every limit is not counted to the byte.
        if inner.limits.hold(&state.grown(bytes)) {
            return Ok(state);
        }
        let mut grown = state.grown_by(key, bytes);
        inner.limits.check_writes(&grown)?;
        if grown.memory_bytes() > inner.limits.spill_bytes && inner.spill(&mut state)? {
            grown = state.grown_by(key, bytes);
        }
        inner.limits.check_memory(&grown)?;
        Ok(state)
    }

    /// Drops a table: deletes every cell of it, without looking at any.
    ///
    /// The caller sees to it that the commit writes a cell on which everybody relies who uses the
    /// table, and that the table's id is not used any more: see [`CommitRequest::drops`].
    ///
    /// # Errors
    ///
    /// `Invalid` when the transaction has ended or only reads.
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
        // A commit spares what it writes itself.
        state.writes.forget_table(table);
        state.drops.push(table);
        Ok(())
    }

    /// Makes the commit depend on a cell at every isolation level: schemas, for instance.
    ///
    /// # Errors
    ///
    /// `Invalid` when the transaction has ended.
    pub fn guard_cell(&self, key: &CellKey) -> Result<()> {
        self.guard_hash(key.hash())
    }

    /// As [`Transaction::guard_cell`], for a cell whose hash is known.
    ///
    /// # Errors
    ///
    /// As [`Transaction::guard_cell`].
    pub fn guard_hash(&self, cell: CellHash) -> Result<()> {
        self.inner.open()?.reads.guard(cell, &self.inner.limits)
    }

    /// Makes the commit depend on a range at every isolation level: ranges that it deletes.
    ///
    /// # Errors
    ///
    /// `Invalid` when the transaction has ended.
    pub fn guard_range(&self, range: KeyRange) -> Result<()> {
        self.inner.open()?.reads.range(range, &self.inner.limits)
    }

    /// Commits, and returns the timestamp at which its writes are visible; a transaction that
    /// wrote nothing returns its snapshot.
    ///
    /// Dropping the future leaves a commit that was decided in force, and ends the transaction.
    ///
    /// # Errors
    ///
    /// `Conflict` and `TooOld`: nothing was written, run the transaction again. `Unknown`: ask
    /// for the outcome of the start. `Invalid`: the transaction has ended already.
    pub async fn commit(&self) -> Result<Timestamp> {
        let inner = &*self.inner;
        let State { has_read, reads, writes, drops, spilled, .. } =
            { inner.open()?.end(Ended::ByCall) };
        let _release = Release(inner);
        match inner.begun.start {
            Some(start) if !writes.is_empty() || !drops.is_empty() || spilled.is_some() => {
                let mut request = CommitRequest::new(inner.begun, start, reads.into_set(), writes);
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

    /// Returns what `choose` makes of the cells that the transaction read one by one or wrote, where
    /// it has written something that is still in memory.
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

    /// Gives the transaction up. What it wrote is forgotten.
    pub fn rollback(&self) {
        let mut state = self.inner.lock();
        // A commit that another handle has begun keeps the snapshot until it is through.
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
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open(&self) -> Result<MutexGuard<'_, State>> {
        self.touch(self.lock())
    }

    fn touch<'s>(&self, mut state: MutexGuard<'s, State>) -> Result<MutexGuard<'s, State>> {
        if let Some(ended) = state.ended {
            return Err(ended.into());
        }
        state.touched = self.place.as_ref().map_or(0, Place::now);
        Ok(state)
    }

    /// Begins a call that waits for the store.
    const fn call(&self, state: &mut State) -> Call<'_, S> {
        state.calls += 1;
        Call { inner: self }
    }

    /// A snapshot alone is serializable: only writers have to remember.
    const fn remembers_reads(&self) -> bool {
        self.isolation.checks_reads() && self.begun.start.is_some()
    }

    fn own(&self, payload: Option<Bytes>) -> Option<Entry> {
        let start = self.begun.start?;
        payload.map(|payload| Entry { start, payload })
    }

    /// Returns the first writes in a range that are not in memory.
    async fn spilled_writes(
        &self,
        range: &KeyRange,
        reverse: bool,
        cells_max: usize,
    ) -> Result<SpilledPage> {
        let Some(spill) = self.open()?.spill() else { return Ok(SpilledPage::default()) };
        spill.range(range, reverse, cells_max).await
    }

    /// Gives what is in memory to a file, where the store has files for it; returns whether it did.
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

/// Lets the snapshot go once a commit is through, or given up under way.
struct Release<'a, S: CellStore + CommitLog>(&'a Inner<S>);

impl<S: CellStore + CommitLog> Drop for Release<'_, S> {
    fn drop(&mut self) {
        self.0.release();
    }
}

/// A call that waits for the store, on its way.
struct Call<'a, S: CellStore + CommitLog> {
    inner: &'a Inner<S>,
}

impl<'a, S: CellStore + CommitLog> Call<'a, S> {
    /// Ends it, for whoever has the state.
    const fn finish(self, state: &mut State) {
        std::mem::forget(self);
        state.calls -= 1;
    }

    /// Ends it, and returns the state if the transaction has not ended meanwhile.
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
        // Whether it has ended meanwhile, nobody asks.
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
    Error::invalid("this transaction only reads; begin one that may write")
}
