//! Compaction in the engine: runs jobs over its tables and applies their edits.
//!
//! The [workers](super::compactor) step jobs by [`STEP_BYTES`], so that closing the engine waits
//! for a step and not for a job. A job that ends with the engine leaves files that no manifest
//! names. A job that is abandoned because an input is unreadable ([quarantine](super::quarantine))
//! removes its files.
//!
//! **Write throttle.** The policy returns the backlog of compaction, and the policy's state the
//! fraction of compaction's input that comes from level 0. If writers add data at this fraction of
//! compaction's speed, the backlog stays constant. The [throttle](super::throttle) permits this
//! rate to writers when the backlog is halfway between its limits, a higher rate below, a lower
//! rate above, and never zero.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use carnet_base::{Error, Result, Signal, TableId, Timestamp};

use super::core::{Core, Engine};
use super::quarantine::Quarantine;
use super::shortages::Work;
use super::stop_on_panic::StopOnPanic;
use super::watermark::DurableHook;
use crate::compaction::job::{Job, Output, Outputs, Progress, Tables, Written};
use crate::compaction::merge::{Cell, Fragment, GcHook, Mark, RangeVersion, Source};
use crate::compaction::policy::{Plan, everything};
use crate::disk::{During, shortage};
use crate::io::Class;
use crate::manifest::{Edit, FlatRange, LEVELS, Levels, Manifest};
use crate::merge_operator::Deltas;
use crate::options::TableOptionsOf;
use crate::sstable::{self, Builder, EntryRef, RangeTombstone, RawCursor, Table};
use crate::sync::atomic::Ordering;
use crate::sync::lock;

/// Approximate number of bytes of cells that a step reads.
pub(super) const STEP_BYTES: u64 = 256 << 10;

/// Interval between checks whether work of another thread has ended.
pub(super) const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// GC hook and merge operator of the layer above. Without a GC hook, compaction drops nothing.
#[derive(Clone)]
pub(super) struct Hook {
    gc: Option<Arc<dyn GcHook + Send + Sync>>,
    deltas: Option<Deltas>,
}

impl GcHook for Hook {
    fn mark(&self) -> Mark {
        self.gc.as_ref().map_or_else(Mark::default, |hook| hook.mark())
    }

    fn is_dropped(&self, table: TableId) -> bool {
        self.gc.as_ref().is_some_and(|hook| hook.is_dropped(table))
    }

    fn passes(&self, table: TableId) -> bool {
        self.gc.as_ref().is_some_and(|hook| hook.passes(table))
    }

    fn keeps_newest(&self, table: TableId) -> bool {
        self.gc.as_ref().is_some_and(|hook| hook.keeps_newest(table))
    }

    fn has_passed(&self, mark: Timestamp, key: &[u8], commit: Timestamp) -> bool {
        self.gc.as_ref().is_some_and(|hook| hook.has_passed(mark, key, commit))
    }

    fn delta_mark(&self, table: TableId) -> Option<u8> {
        self.deltas.as_ref()?.mark_of(table)
    }

    fn merge(
        &self,
        value: Option<(Timestamp, &Bytes)>,
        deltas: &[(Timestamp, Bytes)],
    ) -> Result<Option<Bytes>> {
        match &self.deltas {
            Some(operator) => operator.merge(value, deltas),
            None => Err(Error::unsupported("deltas without a merge operator")),
        }
    }

    fn expiry(&self, value: &[u8]) -> Option<u64> {
        self.deltas.as_ref().and_then(|operator| operator.expiry(value))
    }
}

/// Tables of a view, as inputs of a job.
pub(super) struct Inputs {
    tables: HashMap<u64, Arc<Table>>,
    quarantine: Arc<Quarantine>,
    /// Size of the pieces in which a table is read.
    piece_bytes: u32,
}

impl Tables for Inputs {
    type Cursor = Cursor;

    fn range_tombstones(&self, table: u64) -> Result<Vec<Fragment>> {
        let pieces = self.table(table).range_tombstones().iter();
        Ok(pieces
            .map(|RangeTombstone { lower, upper, commit, start }| Fragment {
                lower,
                upper,
                versions: vec![RangeVersion { commit, start }],
            })
            .collect())
    }

    fn cursor(&self, table: u64, within: &FlatRange) -> Result<Cursor> {
        let FlatRange { lower, upper } = within.clone();
        let cursor = RawCursor::new(Arc::clone(self.table(table)), lower, Some(upper))
            .with_piece_bytes(self.piece_bytes);
        let mut cursor = Cursor { cursor, table, quarantine: Arc::clone(&self.quarantine) };
        cursor.advance()?;
        Ok(cursor)
    }
}

impl Inputs {
    fn table(&self, number: u64) -> &Arc<Table> {
        self.tables.get(&number).expect("a plan contains only tables of its view")
    }
}

/// Cursor over every version in a range of a table.
pub(super) struct Cursor {
    cursor: RawCursor,
    table: u64,
    quarantine: Arc<Quarantine>,
}

impl Source for Cursor {
    fn key(&self) -> Option<&[u8]> {
        self.cursor.key()
    }

    fn cell(&self) -> Cell<'_> {
        let entry = self.cursor.entry().expect("the caller checked that there is a key");
        let EntryRef { commit, start, expiry, payload, .. } = entry;
        Cell { commit, start, expiry, payload }
    }

    fn advance(&mut self) -> Result<()> {
        self.quarantine.watch(self.table, self.cursor.advance_blocking())
    }
}

/// Creates the output tables of a job.
pub(super) struct NewTables(Arc<Core>);

impl Outputs for NewTables {
    type Output = NewTable;

    fn begin(&mut self) -> Result<NewTable> {
        self.0.new_table(Class::Compaction).map(NewTable)
    }
}

/// An output table of a job.
pub(super) struct NewTable(Builder);

impl Output for NewTable {
    fn push(&mut self, key: &[u8], cell: Cell<'_>) -> Result<()> {
        let Cell { commit, start, expiry, payload } = cell;
        self.0.push(&EntryRef { key, commit, start, expiry, payload })
    }

    fn push_range_tombstone(
        &mut self,
        lower: &[u8],
        upper: &[u8],
        versions: &[RangeVersion],
    ) -> Result<()> {
        for RangeVersion { commit, start } in versions.iter().copied() {
            let (lower, upper) = (Bytes::copy_from_slice(lower), Bytes::copy_from_slice(upper));
            self.0.push_range_tombstone(&RangeTombstone { lower, upper, commit, start })?;
        }
        Ok(())
    }

    fn estimated_bytes(&self) -> u64 {
        self.0.estimated_bytes()
    }

    fn finish(self) -> Result<Written> {
        let built = self.0.finish()?.expect("a job pushes to every table that it begins");
        Ok(Written { number: built.number, bytes: built.bytes })
    }
}

/// Reason of an edit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Installs {
    /// The oldest sealed memtable became a table, or was empty.
    Flush,
    /// Tables were replaced by others.
    Compaction,
}

impl Engine {
    /// Sets the GC hook, which decides what compaction may drop. Returns `false` without effect if
    /// it is already set. Without a hook nothing is dropped.
    pub fn set_gc(&self, hook: Arc<dyn GcHook + Send + Sync>) -> bool {
        self.core.gc.set(Arc::new(DurableHook::new(hook, &self.core))).is_ok()
    }

    /// Rewrites all tables into one level and drops invisible versions. Blocks the calling thread;
    /// waits for running compactions.
    ///
    /// # Errors
    ///
    /// `Unavailable` if the disk fails; then the store has stopped writing. `Unavailable` if the
    /// engine is closed meanwhile, and `Corrupted` if a table is damaged: the tables stay unchanged.
    /// `Invalid` if the database was opened read-only.
    pub fn compact(&self) -> Result<()> {
        self.compact_with(&mut |_, _| {})
    }

    /// Like [`Engine::compact`]; reports the bytes that were read, and the bytes of all tables, as it
    /// goes on.
    ///
    /// # Errors
    ///
    /// Like [`Engine::compact`].
    pub fn compact_with(&self, tell: &mut dyn FnMut(u64, u64)) -> Result<()> {
        self.core.check_open()?;
        self.flush()?;
        let core = &self.core;
        core.compactions.quarantine.try_again()?;
        let _manual = ManualCompaction::new(core);
        let mut state = loop {
            let state = lock(&core.compactions.state);
            // The compactions of a closed engine do not end, and no other one may start.
            core.check_open()?;
            if state.running() == 0 {
                break state;
            }
            drop(state);
            core.publication.check()?;
            Signal::new().wait(Some(LOOK_AGAIN));
        };
        let levels = lock(&core.manifest).levels.clone();
        let mut result = Ok(());
        if let Some(plan) = everything(&levels, &core.options.compaction, &state) {
            state.begin(&plan);
            let outcome = core.guarded(|| core.compact_now(&plan, &levels, tell));
            state.end(&plan);
            result = outcome.and_then(|given_up| given_up.map_or(Ok(()), Err));
        }
        drop(state);
        result
    }
}

/// Pauses background compaction while it exists. Otherwise a manual compaction might wait forever
/// for the running ones to end.
struct ManualCompaction<'a>(&'a Core);

impl<'a> ManualCompaction<'a> {
    fn new(core: &'a Core) -> Self {
        core.compactions.manual.fetch_add(1, Ordering::SeqCst);
        Self(core)
    }
}

impl Drop for ManualCompaction<'_> {
    fn drop(&mut self) {
        self.0.compactions.manual.fetch_sub(1, Ordering::SeqCst);
        // Compactors may have become idle while background compaction was paused.
        self.0.ring_compactors();
    }
}

impl Core {
    /// Runs a plan to its end; returns the reason if it was abandoned.
    fn compact_now(
        self: &Arc<Self>,
        plan: &Plan,
        levels: &Levels,
        tell: &mut dyn FnMut(u64, u64),
    ) -> Result<Option<Error>> {
        let (bytes, cells) = (plan.bytes(), plan.cells().max(1));
        let (inputs, outputs) = self.of_job();
        let mut job = match Job::new(plan, levels, &inputs, outputs, self.hook()) {
            Ok(job) => job,
            Err(error) => return self.may_abandon(plan, error).map(Some),
        };
        loop {
            self.publication.check()?;
            if let Err(error) = self.check_open() {
                self.discard(job.abandon());
                return Ok(Some(error));
            }
            match job.step(STEP_BYTES) {
                Ok(Progress::More) => {
                    self.compactions.throttle.refill(STEP_BYTES);
                    // The size of a table's compressed cells is its part of the file.
                    let read = u128::from(bytes) * u128::from(job.read_cells().min(cells));
                    tell(u64::try_from(read / u128::from(cells)).unwrap_or(bytes), bytes);
                }
                Ok(Progress::Done(edit)) => return self.install_compaction(&edit),
                Err(error) => {
                    let error = self.may_abandon(plan, error)?;
                    self.discard(job.abandon());
                    return Ok(Some(error));
                }
            }
        }
    }

    /// Applies the edit of a compaction; returns the error if it was abandoned and is retried.
    pub(super) fn install_compaction(&self, edit: &Edit) -> Result<Option<Error>> {
        let installed = self.install(edit, Installs::Compaction);
        let given_up = self.unless_passing(Work::Compaction, installed)?.err();
        if given_up.is_some() {
            let removed = |number: &u64| edit.remove.contains(number);
            let new = edit.add.iter().map(|table| table.number);
            self.discard(new.filter(|number| !removed(number)));
        }
        Ok(given_up)
    }

    /// Returns the error if the store continues after abandoning the compaction.
    ///
    /// # Errors
    ///
    /// The error, if it stops the store.
    pub(super) fn may_abandon(&self, plan: &Plan, error: Error) -> Result<Error> {
        if plan.numbers().any(|number| self.compactions.quarantine.contains(number)) {
            return Ok(error);
        }
        match self.unless_passing(Work::Compaction, Err::<(), _>(error))? {
            Ok(()) => Err(Error::unavailable("an error became none")),
            Err(error) => Ok(error),
        }
    }

    /// Removes tables that an abandoned compaction wrote.
    pub(super) fn discard(&self, numbers: impl IntoIterator<Item = u64>) {
        for number in numbers {
            let name = sstable::file_name(number);
            // A file that cannot be removed now is removed by the next opening.
            if let Err(error) = self.disk.remove(&name).during("remove", &*self.disk, &name) {
                tracing::warn!(%error, "a table that is not needed is left behind");
            }
        }
    }

    pub(super) fn hook(&self) -> Hook {
        Hook { gc: self.gc.get().cloned(), deltas: self.deltas.get().cloned() }
    }

    /// Starts a table with a new number.
    pub(super) fn new_table(&self, class: Class) -> Result<Builder> {
        let number = self.next_file.fetch_add(1, Ordering::AcqRel);
        let TableOptionsOf(of) = self.options.table_options.clone();
        Builder::begin(self.io.output(class), number, move |table| of(table))
    }

    /// Returns the inputs and outputs of a job.
    pub(super) fn of_job(self: &Arc<Self>) -> (Arc<Inputs>, NewTables) {
        let view = self.view();
        let tables = view.tables().map(|open| (open.meta.number, Arc::clone(&open.table)));
        // Tables of level 0 overlap; a merge reads one table at a time of each other level.
        let runs = view.levels[0].len() + LEVELS;
        let inputs = Inputs {
            tables: tables.collect(),
            quarantine: Arc::clone(&self.compactions.quarantine),
            piece_bytes: self.budget.piece_bytes(runs, self.options.compaction_threads),
        };
        (Arc::new(inputs), NewTables(Arc::clone(self)))
    }

    /// Applies an edit durably. A failure leaves the old manifest or the new one on disk, so no
    /// edit may follow: the store stops while the manifest is locked.
    pub(super) fn edit(&self, manifest: &mut Manifest, edit: &Edit) -> Result<()> {
        self.publication.check()?;
        let outcome = manifest.apply(&*self.disk, edit);
        outcome.inspect_err(|error| {
            // After an error that passes, the old manifest is still there.
            if shortage(error).is_none() {
                self.publication.stop(&error.to_string());
            }
        })
    }

    /// Applies an edit of the tables durably and publishes it to readers, together with the removal
    /// of a flushed memtable.
    pub(super) fn install(&self, edit: &Edit, installs: Installs) -> Result<()> {
        let mut manifest = lock(&self.manifest);
        let mut new = Vec::new();
        for meta in &edit.add {
            if edit.remove.contains(&meta.number) {
                continue;
            }
            let (disk, cache) = (Arc::clone(&self.disk), Arc::clone(&self.cache));
            new.push(Arc::new(meta.open(disk, cache)?));
        }
        self.edit(&mut manifest, edit)?;
        self.change_view(|view| {
            let changed = view.with_levels(&manifest.levels, &new);
            match installs {
                Installs::Flush => changed.flushed(),
                Installs::Compaction => changed,
            }
        });
        self.compactions.quarantine.retain(&manifest.levels);
        // While the manifest is locked, so that the last edit determines the throttle.
        self.set_compaction_throttle(&manifest.levels);
        let is_gone = |number: &u64| manifest.levels.find(*number).is_none();
        let gone: Vec<u64> = edit.remove.iter().copied().filter(is_gone).collect();
        drop(manifest);
        self.remove_tables(&gone);
        self.ring_compactors();
        Ok(())
    }

    /// Sets the write throttle and the number of compaction threads from the backlog.
    pub(super) fn set_compaction_throttle(&self, levels: &Levels) {
        let policy = self.options.compaction_style.policy();
        let wants_help = policy.wants_help(levels, &self.options.compaction);
        self.compactions.wants_help.store(wants_help, Ordering::Release);
        if !self.compactions.quarantine.is_empty() || self.shortages.is_blocked(Work::Compaction) {
            // Compaction may be unable to reduce the backlog.
            self.io.compaction_is_behind(None);
            return self.compactions.throttle.deactivate();
        }
        let share = policy.pressure(levels, &self.options.compaction).share();
        self.io.compaction_is_behind(share);
        match share {
            None => self.compactions.throttle.deactivate(),
            Some(share) => {
                #[expect(clippy::cast_precision_loss, reason = "it is at most a thousand")]
                let taken = self.compactions.taken_permille.load(Ordering::Acquire) as f64;
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "the product lies between 0 and 2000"
                )]
                self.compactions.throttle.activate((taken * share) as u64);
            }
        }
    }

    /// Removes files that are not in the manifest any more. Readers with an open table continue.
    pub(super) fn remove_tables(&self, numbers: &[u64]) {
        self.discard(self.defer_removals(numbers));
        if !numbers.is_empty() {
            self.cache.forget(numbers);
        }
    }

    /// Runs work whose failure or panic stops the store.
    pub(super) fn guarded<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let stop = StopOnPanic(&self.publication, "work on the tables panicked");
        let outcome = work();
        std::mem::forget(stop);
        if let Err(error) = &outcome {
            self.publication.stop(&error.to_string());
            self.compactions.throttle.release();
            self.flushes.throttle.release();
        }
        outcome
    }
}
