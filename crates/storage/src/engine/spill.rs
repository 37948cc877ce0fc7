//! Large transactions: their writes go to separate files, which the commit *adopts*.
//!
//! ```text
//!  add, add, …    sorted runs, private files        not visible to others; a crash leaves orphans
//!                 small ones are merged             so that a transaction has few open files
//!  merge          one table, the only durable one   its versions hold S in place of C
//!  ── order lock ────────────────────────────────────────────────────────────────────────────────
//!  decide → C     the active memtable is sealed     the table's position is directly after it
//!                 a record names the file           it is the first one of a new segment
//!  ──────────────────────────────────────────────────────────────────────────────────────────────
//!  flush          the sealed memtable's table and the adopted one enter the manifest in one edit
//!                 then the commit is published
//! ```
//!
//! So the order of sources holds (invariant 2 of the engine): everything older is flushed before
//! the table enters level 0, and everything newer is in younger memtables. Other commits continue
//! meanwhile, but are published after it. So the caller flushes the memtables first
//! ([`Engine::drained`]), and little remains to be flushed at the commit.
//!
//! **The manifest holds C**: if a table's least and greatest commit are equal, they override the
//! commits in its blocks ([`TableMeta::stamp`]).
//!
//! **A crash.** Before the record is in the log, the file is an orphan and is removed. Afterwards
//! the record may be the first one of the manifest's first segment: then the edit was applied,
//! because only that edit makes the log begin there. Otherwise recovery repeats the rest of the
//! commit from the same files.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use carnet_base::{CellKey, CellKeyRef, Error, KeyRange, Result, Timestamp};

use super::append::{AppendError, Appended, insert};
use super::core::{Core, Engine};
use super::sealed::Adopted;
use crate::batch::{Adoption, Changes};
use crate::disk::During;
use crate::io::Class;
use crate::manifest::{TableMeta, Tally};
use crate::memtable::Memtable;
use crate::sstable::{
    self, Builder, Built, EntryRef, RawCursor, ReadOptions, Table, TableCursor, Walk,
};
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::{Mutex, lock};
use crate::usage::Sums;
use crate::wal::RECORD_HEADER_BYTES;

/// Number of small runs at which some are merged.
const SMALL_RUNS_MAX: usize = 8;
/// Size of a run that is not merged before the commit, because the caller waits.
const MERGED_BYTES_MAX: u64 = 32 << 20;

/// Writes of one transaction that exceed memory.
///
/// They are in private files until a commit adopts them, and are removed when this is dropped.
pub struct Spill {
    core: Arc<Core>,
    start: Timestamp,
    /// Runs, oldest first.
    runs: Mutex<Vec<Arc<Run>>>,
    /// Number of additions.
    additions: AtomicUsize,
}

/// A file that is removed with its last reader, unless it was adopted.
struct Run {
    core: Arc<Core>,
    table: Arc<Table>,
    meta: TableMeta,
    is_adopted: Mutex<bool>,
}

/// A cell and its value: `None` for a deletion.
pub type SpilledCell = (CellKey, Option<Bytes>);

/// All spilled writes of a transaction as one table, ready to be adopted.
pub struct Merged {
    run: Arc<Run>,
    start: Timestamp,
    /// Its cells by table, for the counters.
    sums: Vec<Sums>,
}

impl Engine {
    /// Creates an empty spill for a large transaction.
    #[must_use]
    pub fn spill(&self, start: Timestamp) -> Spill {
        let core = Arc::clone(&self.core);
        Spill { core, start, runs: Mutex::default(), additions: AtomicUsize::new(0) }
    }

    /// Runs `decide` in the critical section. If it returns a commit timestamp, the table's
    /// versions are part of the database as of that commit. Otherwise like [`Engine::append`].
    ///
    /// Await [`Engine::drained`] first: the acknowledgements of all writers wait until the
    /// memtables are flushed.
    ///
    /// # Errors
    ///
    /// Like [`Engine::append`].
    pub fn adopt<E>(
        &self,
        merged: &Merged,
        decide: impl FnOnce() -> Result<Timestamp, E>,
    ) -> Result<Appended, AppendError<E>> {
        self.core.adopt(merged, decide)
    }

    /// Completes recovered commits of large transactions. This encodes their commit-table entries,
    /// so the caller must have loaded everything that [`EntryCell`](super::EntryCell) depends on.
    ///
    /// # Errors
    ///
    /// `Unavailable` if the disk fails.
    pub fn adopt_recovered(&self) -> Result<()> {
        self.core.adopts_recovered.store(true, Ordering::Release);
        while self.core.flush_oldest()? {}
        Ok(())
    }

    /// Waits until the memtables that exist now are flushed.
    ///
    /// # Errors
    ///
    /// `Unavailable` if the store has stopped.
    pub async fn drained(&self) -> Result<()> {
        let core = &self.core;
        core.while_supplied(|context| core.poll_room(context)).await??;
        let last = {
            let mut order = lock(&core.order);
            if !order.active.is_empty() && lock(&core.flushes.sealed).len() < core.waiting_max() {
                core.seal(&mut order);
            }
            lock(&core.flushes.sealed).last_segment()
        };
        let Some(last) = last else { return Ok(()) };
        core.while_supplied(|context| core.poll_flushed(last, context)).await?
    }
}

impl Core {
    fn adopt<E>(
        self: &Arc<Self>,
        merged: &Merged,
        decide: impl FnOnce() -> Result<Timestamp, E>,
    ) -> Result<Appended, AppendError<E>> {
        let Merged { run, start, sums } = merged;
        let mut record = BytesMut::zeroed(RECORD_HEADER_BYTES);
        Adoption { number: run.meta.number, bytes: run.meta.bytes }.put(&mut record);
        let body_crc = crc32c::crc32c(&record[RECORD_HEADER_BYTES..]);
        let mut order = lock(&self.order);
        self.make_room(&mut order, record.len()).map_err(AppendError::Engine)?;
        let commit = decide().map_err(AppendError::Refused)?;
        Self::check_rises(&order, commit).map_err(AppendError::Engine)?;
        order.last_commit = commit;
        *lock(&run.is_adopted) = true;
        let rotation = self.rotate(&mut order);
        let len = record.len() as u64;
        let lsn = order.tail.reserve(len);
        let slot = self.publication.open(*start, commit, lsn.after(len));
        let record = self.pass_to_log(slot, (lsn, *start, commit), record, body_crc);
        // The entry is flushed with the older memtable, so that one edit contains the whole commit.
        insert(&order.active, *start, commit, Changes::default().of(&[]));
        let active = Memtable::new(rotation.segment, self.flushes.chunks.clone());
        let adopted = Adopted { meta: run.meta.stamped(commit), slot };
        self.seal_behind(&mut order, rotation, active, Some(adopted));
        drop(order);
        self.counters.appends.fetch_add(1, Ordering::Relaxed);
        sums.iter().for_each(|sums| self.usage.add(sums));
        Ok(Appended::new(commit, slot, Arc::clone(&self.publication), record))
    }
}

impl Spill {
    /// Adds writes, which are newer than all before, in the order of their cells, at most one per
    /// cell. Writes a file on the calling thread. A crash loses the transaction anyway, so only long files are
    /// synced, in steps: unsynced bytes would delay the log.
    ///
    /// # Errors
    ///
    /// `Unavailable` if the disk fails; `Invalid` if a key or value is too long, or if the database
    /// was opened read-only.
    pub fn add<'a, K: Into<CellKeyRef<'a>>>(
        &self,
        writes: impl Iterator<Item = (K, Option<&'a [u8]>)>,
    ) -> Result<()> {
        self.core.check_takes_writes()?;
        self.core.publication.check()?;
        let mut writer = RunWriter::begin(&self.core, self.start)?;
        for (key, payload) in writes {
            writer.push(key.into().as_bytes(), payload)?;
        }
        let run = writer.finish(Builder::finish_unsynced)?;
        lock(&self.runs).extend(run);
        self.additions.fetch_add(1, Ordering::AcqRel);
        if let Err(error) = self.merge_small_runs() {
            // The runs stay as they are; the next addition merges them.
            tracing::warn!(%error, "files of a large transaction could not be merged");
        }
        Ok(())
    }

    /// Returns the number of additions; it changes whenever the result of [`Spill::get`] may change.
    #[must_use]
    pub fn runs(&self) -> usize {
        self.additions.load(Ordering::Acquire)
    }

    /// Merges small runs, so that a transaction has few open files. The caller adds from one thread
    /// at a time.
    fn merge_small_runs(&self) -> Result<()> {
        let runs = lock(&self.runs).clone();
        let bytes: Vec<u64> = runs.iter().map(|run| run.meta.bytes).collect();
        let Some(from) = merged_from(&bytes) else { return Ok(()) };
        let mut walk = MergedRuns::of(&runs[from..])?;
        let mut writer = RunWriter::begin(&self.core, self.start)?;
        while let Some((key, payload)) = walk.next()? {
            writer.push(&key, payload.as_deref())?;
        }
        let merged = writer.finish(Builder::finish_unsynced)?;
        let mut runs = lock(&self.runs);
        runs.truncate(from);
        runs.extend(merged);
        Ok(())
    }

    /// Returns the last write to a cell, if any.
    ///
    /// # Errors
    ///
    /// `Corrupted`, `Unavailable`.
    pub async fn get(&self, key: &CellKey) -> Result<Option<Option<Bytes>>> {
        let runs = lock(&self.runs).clone();
        for run in runs.iter().rev() {
            let reads = ReadOptions { bypass_cache: true };
            if let Some(found) = run.table.get(key.as_bytes(), Timestamp::MAX, reads).await? {
                return Ok(Some(found.payload));
            }
        }
        Ok(None)
    }

    /// Returns up to `cells_max` written cells of a range, in the requested order, and whether
    /// there may be more.
    ///
    /// # Errors
    ///
    /// `Corrupted`, `Unavailable`.
    pub async fn range(
        &self,
        range: &KeyRange,
        reverse: bool,
        cells_max: usize,
    ) -> Result<(Vec<SpilledCell>, bool)> {
        let Some((lower, upper)) = range.byte_bounds() else { return Ok((Vec::new(), false)) };
        let runs = lock(&self.runs).clone();
        let mut cursors = Vec::with_capacity(runs.len());
        for run in runs.iter().rev() {
            let walk = Walk {
                lower: Bytes::copy_from_slice(&lower),
                upper: Some(Bytes::copy_from_slice(&upper)),
                read: Timestamp::MAX,
                reverse,
                cells_wanted: Some(cells_max),
                reads: ReadOptions { bypass_cache: true },
            };
            let mut cursor = TableCursor::new(Arc::clone(&run.table), walk);
            cursor.advance().await?;
            cursors.push(cursor);
        }
        let mut cells = Vec::new();
        loop {
            let keys = cursors.iter().filter_map(TableCursor::peek_key);
            let next = if reverse { keys.max() } else { keys.min() };
            let Some(key) = next.map(Bytes::copy_from_slice) else { return Ok((cells, false)) };
            if cells.len() == cells_max {
                return Ok((cells, true));
            }
            // The newest run comes first; its version hides those of the others.
            let mut newest = None;
            for cursor in &mut cursors {
                if cursor.peek_key() != Some(&key[..]) {
                    continue;
                }
                let payload = cursor.version().map(|version| version.payload);
                let payload = payload.map(|payload| payload.map(Bytes::copy_from_slice));
                newest = newest.or(payload);
                cursor.advance().await?;
            }
            if let Some(payload) = newest {
                cells.push((CellKey::from_bytes(key)?, payload));
            }
        }
    }

    /// Merges all runs into one table, and calls `each` with every cell's key, in order. Blocks the
    /// calling thread.
    ///
    /// # Errors
    ///
    /// `Corrupted`, `Unavailable`; `Invalid` if nothing was added.
    pub fn merge(&self, mut each: impl FnMut(&CellKey)) -> Result<Merged> {
        let runs = lock(&self.runs).clone();
        let mut walk = MergedRuns::of(&runs)?;
        let mut writer = match runs.len() {
            0 => return Err(Error::invalid("nothing was spilled")),
            1 => None,
            _ => Some(RunWriter::begin(&self.core, self.start)?),
        };
        let mut sums: Vec<Sums> = Vec::new();
        while let Some((key, payload)) = walk.next()? {
            if let Some(writer) = &mut writer {
                writer.push(&key, payload.as_deref())?;
            }
            Sums::add_cell(&mut sums, &key, payload.as_deref());
            each(&CellKey::from_bytes(key.into())?);
        }
        let run = match writer {
            None => {
                sstable::make_durable(&*self.core.disk, runs[0].meta.number)?;
                Arc::clone(&runs[0])
            }
            Some(writer) => {
                let run = writer.finish(Builder::finish)?;
                run.expect("several runs hold a cell at least")
            }
        };
        Ok(Merged { run, start: self.start, sums })
    }
}

/// Returns the index from which on the youngest runs are merged; `None` while there are few small
/// ones. Each byte is merged about once for each doubling of its run, and rarely read again beyond
/// [`MERGED_BYTES_MAX`].
fn merged_from(bytes: &[u64]) -> Option<usize> {
    let large = bytes.iter().rposition(|bytes| *bytes >= MERGED_BYTES_MAX);
    let first = large.map_or(0, |large| large + 1);
    let count = bytes.len() - first;
    if count < SMALL_RUNS_MAX {
        return None;
    }
    // A run is merged with all younger ones if these have as many bytes.
    let younger = |at: usize| bytes[at + 1..].iter().sum::<u64>();
    let fits = |at: &usize| younger(*at) + bytes[*at] <= 2 * MERGED_BYTES_MAX;
    let last = bytes.len() - 2;
    Some((first..last).filter(fits).find(|at| bytes[*at] <= younger(*at)).unwrap_or(last))
}

/// Writer of a run.
struct RunWriter<'a> {
    core: &'a Arc<Core>,
    start: Timestamp,
    builder: Builder,
    tally: Tally,
}

impl<'a> RunWriter<'a> {
    fn begin(core: &'a Arc<Core>, start: Timestamp) -> Result<Self> {
        Ok(Self { core, start, builder: core.new_table(Class::Flush)?, tally: Tally::default() })
    }

    fn push(&mut self, key: &[u8], payload: Option<&[u8]>) -> Result<()> {
        let commit = self.start;
        let expiry = payload.and_then(|payload| self.core.expiry_of(key, payload));
        self.tally.cell(key, commit, expiry, self.core.kind_of(key, payload));
        self.builder.push(&EntryRef { key, commit, start: self.start, expiry, payload })
    }

    fn finish(
        self,
        finish: impl FnOnce(Builder) -> Result<Option<Built>>,
    ) -> Result<Option<Arc<Run>>> {
        let Some(Built { number, bytes, .. }) = finish(self.builder)? else { return Ok(None) };
        let core = Arc::clone(self.core);
        let table = Table::open(Arc::clone(&core.disk), number, bytes, Arc::clone(&core.cache))?;
        let meta = self.tally.finish(number, 0, bytes).expect("a table that was built holds cells");
        Ok(Some(Arc::new(Run {
            core,
            table: Arc::new(table),
            meta,
            is_adopted: Mutex::new(false),
        })))
    }
}

/// Iterator over the cells of several runs in order, each with its last write.
struct MergedRuns {
    /// Cursors, newest run first.
    cursors: Vec<RawCursor>,
    /// Next key of each cursor; of equal keys, the newest run's comes first.
    next: BinaryHeap<Reverse<(Vec<u8>, usize)>>,
}

impl MergedRuns {
    fn of(runs: &[Arc<Run>]) -> Result<Self> {
        let cursor = |run: &Arc<Run>| RawCursor::new(Arc::clone(&run.table), Bytes::new(), None);
        let mut merged =
            Self { cursors: runs.iter().rev().map(cursor).collect(), next: BinaryHeap::new() };
        for at in 0..merged.cursors.len() {
            merged.advance(at)?;
        }
        Ok(merged)
    }

    fn advance(&mut self, at: usize) -> Result<()> {
        self.cursors[at].advance_blocking()?;
        let entry = self.cursors[at].entry();
        self.next.extend(entry.map(|entry| Reverse((entry.key.to_vec(), at))));
        Ok(())
    }

    fn next(&mut self) -> Result<Option<(Vec<u8>, Option<Bytes>)>> {
        let Some(Reverse((key, newest))) = self.next.pop() else { return Ok(None) };
        let entry = self.cursors[newest].entry();
        let payload = entry.and_then(|entry| entry.payload.map(Bytes::copy_from_slice));
        self.advance(newest)?;
        while let Some(Reverse((other, at))) = self.next.peek() {
            if *other != key {
                break;
            }
            let at = *at;
            self.next.pop();
            self.advance(at)?;
        }
        Ok(Some((key, payload)))
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if *lock(&self.is_adopted) {
            return;
        }
        let name = sstable::file_name(self.meta.number);
        let disk = &*self.core.disk;
        // A file that cannot be removed now is removed by the next opening.
        if let Err(error) = disk.remove(&name).during("remove", disk, &name) {
            tracing::warn!(%error, "a file of a large transaction could not be removed");
        }
    }
}
