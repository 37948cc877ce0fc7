//! Large transactions: their writes go to a file of their own, which a commit *adopts*.
//!
//! ```text
//!  add, add, …    sorted runs, private files        nobody else reads them; a crash leaves orphans
//!  merge          one table, durable                its versions carry S where C will stand
//!  ── order lock ────────────────────────────────────────────────────────────────────────────────
//!  decide → C     the active memtable is sealed     the table's place is right behind it
//!                 a record names the file           the first one of a new segment
//!  ──────────────────────────────────────────────────────────────────────────────────────────────
//!  flush          the sealed memtable's table and the adopted one enter the manifest in one edit
//!                 then the commit is published
//! ```
//!
//! So the order of sources holds (invariant 2 of the engine): everything older was flushed before
//! the table enters level 0, everything newer is in younger memtables. Other commits go on
//! meanwhile, but are published after it: so whoever adopts has the memtables flushed first, and
//! what is left to be flushed in the end is little.
//!
//! **C stands in the manifest**: a table whose least and greatest commit are one has that one in
//! all its versions, whatever its blocks say ([`TableMeta::stamp`]).
//!
//! **A crash.** Before the record is in the log the file is an orphan, and removed. Afterwards the
//! record either is the first of the manifest's first segment: then the edit was made, because
//! only that edit lets the log begin there. Or it is not: then recovery does what was left, from
//! the same parts.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use carnet_base::{CellKey, CellKeyRef, Error, KeyRange, Result, Timestamp};

use super::append::{AppendError, Appended, insert};
use super::flush::Adopted;
use super::watch::Written;
use super::{Core, Engine};
use crate::batch::{Adoption, Changes};
use crate::disk::During;
use crate::io::Class;
use crate::manifest::{TableMeta, Tally};
use crate::memtable::Memtable;
use crate::sstable::{self, Built, EntryRef, RawCursor, ReadOptions, Table, TableCursor, Walk};
use crate::sync::atomic::Ordering;
use crate::sync::{Mutex, lock};
use crate::wal::{Header, RECORD_HEADER_BYTES};

/// The writes of one transaction that are too many to be kept in memory.
///
/// They lie in private files until a commit adopts them, and are removed when this is dropped.
pub struct Spill {
    core: Arc<Core>,
    start: Timestamp,
    /// Oldest first.
    runs: Mutex<Vec<Arc<Run>>>,
}

/// A file that is removed with its last reader, unless it was adopted.
struct Run {
    core: Arc<Core>,
    table: Arc<Table>,
    meta: TableMeta,
    is_adopted: Mutex<bool>,
}

/// A cell and what was written to it: `None` is a deletion.
pub type SpilledCell = (CellKey, Option<Bytes>);

/// Everything that a transaction spilled as one table, ready to be adopted.
pub struct Merged {
    run: Arc<Run>,
    start: Timestamp,
}

impl Engine {
    /// Makes a place for the writes of a large transaction.
    #[must_use]
    pub fn spill(&self, start: Timestamp) -> Spill {
        Spill { core: Arc::clone(&self.core), start, runs: Mutex::default() }
    }

    /// Runs `decide` inside the critical section; where it returns a commit timestamp, the table's
    /// versions are part of the database as of that commit. As [`Engine::append`] otherwise.
    ///
    /// [`Engine::drained`] has been awaited before: what is gathered in memory holds up everybody's
    /// acknowledgements until it is flushed.
    ///
    /// # Errors
    ///
    /// As [`Engine::append`].
    pub fn adopt<E>(
        &self,
        merged: &Merged,
        decide: impl FnOnce() -> Result<Timestamp, E>,
    ) -> Result<Appended, AppendError<E>> {
        self.core.adopt(merged, decide)
    }

    /// Completes the commits of large transactions that an earlier life left in the log. The
    /// entries of its commits are made for that: whatever they depend on has been read before.
    ///
    /// # Errors
    ///
    /// `Unavailable` where the disk fails.
    pub fn adopt_recovered(&self) -> Result<()> {
        self.core.adopts_recovered.store(true, Ordering::Release);
        while self.core.flush_oldest()? {}
        Ok(())
    }

    /// Waits until what was gathered in memory before this call is in tables.
    ///
    /// # Errors
    ///
    /// `Unavailable` where the store has stopped.
    pub async fn drained(&self) -> Result<()> {
        let core = &self.core;
        core.while_space(|context| core.poll_room(context)).await??;
        let last = {
            let mut order = lock(&core.order);
            if !order.active.is_empty() && lock(&core.sealed).len() < core.waiting_max() {
                core.seal(&mut order);
            }
            lock(&core.sealed).last_segment()
        };
        let Some(last) = last else { return Ok(()) };
        core.while_space(|context| core.poll_flushed(last, context)).await?
    }
}

impl Core {
    fn adopt<E>(
        self: &Arc<Self>,
        merged: &Merged,
        decide: impl FnOnce() -> Result<Timestamp, E>,
    ) -> Result<Appended, AppendError<E>> {
        let Merged { run, start } = merged;
        let mut record = BytesMut::zeroed(RECORD_HEADER_BYTES);
        Adoption { number: run.meta.number, bytes: run.meta.bytes }.put(&mut record);
        let body_len = record.len() - RECORD_HEADER_BYTES;
        let body_crc = crc32c::crc32c(&record[RECORD_HEADER_BYTES..]);
        let mut order = lock(&self.order);
        self.make_room(&mut order, record.len()).map_err(AppendError::Engine)?;
        let commit = decide().map_err(AppendError::Refused)?;
        Self::check_rises(&order, commit).map_err(AppendError::Engine)?;
        // Whoever watches cells is alarmed: there are too many to be compared.
        self.watches.touch(&Written::anything(), None);
        order.last_commit = commit;
        *lock(&run.is_adopted) = true;
        let rotation = self.rotate(&mut order);
        let len = if self.options.log { record.len() as u64 } else { 0 };
        let lsn = order.tail.reserve(len);
        let slot = self.publication.open(*start, commit, lsn.after(len));
        let durable = self.log.durable();
        Header { lsn, start: *start, commit, durable, body_len, body_crc }.fill(&mut record);
        let record = record.freeze();
        let logged = if self.options.log { record.clone() } else { Bytes::new() };
        self.publication.filled(slot, logged);
        // The entry is flushed with what is older than the table: one edit for all of the commit.
        insert(&order.active, *start, commit, Changes::default().of(&[]));
        let active = Memtable::new(rotation.segment, self.chunks.clone());
        let adopted = Adopted { meta: run.meta.stamped(commit), slot };
        self.seal_behind(&mut order, rotation, active, Some(adopted));
        drop(order);
        self.counters.appends.fetch_add(1, Ordering::Relaxed);
        Ok(Appended::new(commit, slot, Arc::clone(&self.publication), record))
    }
}

impl Spill {
    /// Takes writes over: newer than all before, in the order of their cells, one for a cell. It
    /// writes a file on the calling thread.
    ///
    /// # Errors
    ///
    /// `Unavailable` where the disk fails, `Invalid` for what is too long, or where the database was
    /// opened for reading only.
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
        let run = writer.finish()?;
        lock(&self.runs).extend(run);
        Ok(())
    }

    /// How often something was added: it changes with whatever [`Spill::get`] may return.
    #[must_use]
    pub fn runs(&self) -> usize {
        lock(&self.runs).len()
    }

    /// Returns what was written last to a cell, if anything was.
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

    /// Returns the first cells of a range that were written, at most so many, in the order asked
    /// for, and whether there may be more.
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
            // The newest run comes first, and of the others' versions nothing is seen.
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

    /// Makes everything one table, and lends `each` every cell's key, in order. It works on the
    /// calling thread.
    ///
    /// # Errors
    ///
    /// `Corrupted`, `Unavailable`; `Invalid` where nothing was added.
    pub fn merge(&self, mut each: impl FnMut(&CellKey)) -> Result<Merged> {
        let runs = lock(&self.runs).clone();
        let mut walk = MergedRuns::of(&runs)?;
        let mut writer = match runs.len() {
            0 => return Err(Error::invalid("nothing was spilled")),
            1 => None,
            _ => Some(RunWriter::begin(&self.core, self.start)?),
        };
        while let Some((key, payload)) = walk.next()? {
            if let Some(writer) = &mut writer {
                writer.push(&key, payload.as_deref())?;
            }
            each(&CellKey::from_bytes(key.into())?);
        }
        let run = match writer {
            None => Arc::clone(&runs[0]),
            Some(writer) => writer.finish()?.expect("several runs hold a cell at least"),
        };
        Ok(Merged { run, start: self.start })
    }
}

/// Writes a run.
struct RunWriter<'a> {
    core: &'a Arc<Core>,
    start: Timestamp,
    builder: sstable::Builder,
    tally: Tally,
}

impl<'a> RunWriter<'a> {
    fn begin(core: &'a Arc<Core>, start: Timestamp) -> Result<Self> {
        Ok(Self { core, start, builder: core.new_table(Class::Flush)?, tally: Tally::default() })
    }

    fn push(&mut self, key: &[u8], payload: Option<&[u8]>) -> Result<()> {
        let commit = self.start;
        self.tally.cell(key, commit, None, payload.is_none());
        self.builder.push(&EntryRef { key, commit, start: self.start, expiry: None, payload })
    }

    fn finish(self) -> Result<Option<Arc<Run>>> {
        let Some(Built { number, bytes, .. }) = self.builder.finish()? else { return Ok(None) };
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

/// The cells of several runs in order, each with what was written last.
struct MergedRuns {
    /// Newest first.
    cursors: Vec<RawCursor>,
    /// The next key of each cursor that has one; of equal ones the newest run's comes first.
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
        // What is left over is removed at the next opening.
        if let Err(error) = disk.remove(&name).during("remove", disk, &name) {
            tracing::warn!(%error, "what a large transaction wrote is left behind");
        }
    }
}
