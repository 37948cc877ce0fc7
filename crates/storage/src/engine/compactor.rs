//! Compaction workers, which run the compactions that the policy chooses.
//!
//! ```text
//!            ┌ a pending part ──▶ step, step, … ──▶ the last part applies the edit
//!  a worker ─┤
//!            └ no part: ask the policy ──▶ Compact(Plan) ──▶ Parts, shared by all workers
//! ```
//!
//! One worker always compacts. The others, its *helpers*, start parts only while compaction [wants
//! help](crate::compaction::policy::Policy::wants_help). As long as one thread keeps up, the other
//! processors serve reads and writes, and a compaction has a single part. Each worker finishes the
//! parts that it has started.

use std::sync::Arc;

use carnet_base::{Error, Result, Step, Worker};

use super::compact::{Hook, Inputs, LOOK_AGAIN, NewTables, STEP_BYTES};
use super::core::Core;
use super::shortages::Work;
use crate::compaction::job::{Job, Progress};
use crate::compaction::merge::GcHook;
use crate::compaction::policy::{Choice, CompactionState, Plan};
use crate::compaction::{Part, Parts};
use crate::manifest::{Edit, Levels};
use crate::sync::atomic::Ordering;
use crate::sync::{Mutex, TryLockError, lock};

/// Number of parts per thread: a thread that finishes early takes another part.
const PARTS_EACH: usize = 2;

/// A part that a worker is running.
struct Begun {
    parts: Arc<Mutex<Parts>>,
    job: Job<Inputs, NewTables, Hook>,
}

/// A compaction worker.
pub(super) struct Compactor {
    core: Arc<Core>,
    is_helper: bool,
    begun: Option<Begun>,
}

impl Compactor {
    pub(super) const fn new(core: Arc<Core>, is_helper: bool) -> Self {
        Self { core, is_helper, begun: None }
    }

    /// Runs one step.
    fn work(&mut self) -> Result<Step> {
        let core = Arc::clone(&self.core);
        core.publication.check()?;
        if let Some(pause) = core.io.pause() {
            return Ok(Step::Idle(Some(pause)));
        }
        if let Some(begun) = self.begun.take() {
            self.begun = core.advance_part(begun)?;
            return Ok(Step::Again);
        }
        if self.is_helper && !core.compactions.wants_help.load(Ordering::Acquire) {
            return Ok(Step::Idle(None));
        }
        self.begun = core.begin_part()?;
        if self.begun.is_some() { Ok(Step::Again) } else { core.choose() }
    }
}

impl Core {
    /// Starts the next pending part.
    fn begin_part(self: &Arc<Self>) -> Result<Option<Begun>> {
        let next = lock(&self.compactions.divided).iter().find_map(|parts| {
            let part = lock(parts).begin()?;
            Some((Arc::clone(parts), part))
        });
        let Some((parts, Part { plan, levels, range })) = next else { return Ok(None) };
        let (inputs, outputs) = self.of_job();
        match Job::of_part(&plan, &range, &levels, &inputs, outputs, self.hook()) {
            Ok(job) => Ok(Some(Begun { parts, job })),
            Err(error) => self.abandon(&parts, Vec::new(), error).map(|()| None),
        }
    }

    /// Runs one step of a part; returns the part if it is not finished.
    fn advance_part(&self, mut begun: Begun) -> Result<Option<Begun>> {
        if lock(&begun.parts).is_abandoned() {
            self.discard(begun.job.abandon());
            return Ok(None);
        }
        match begun.job.step(STEP_BYTES) {
            Ok(Progress::More) => {
                self.compactions.throttle.refill(STEP_BYTES);
                return Ok(Some(begun));
            }
            Ok(Progress::Done(edit)) => self.end_part(&begun.parts, edit)?,
            Err(error) => self.abandon(&begun.parts, begun.job.abandon(), error)?,
        }
        Ok(None)
    }

    /// Ends a part, and with the last part the compaction.
    fn end_part(&self, parts: &Arc<Mutex<Parts>>, part: Edit) -> Result<()> {
        let (plan, edit) = {
            let mut parts = lock(parts);
            if parts.is_abandoned() {
                drop(parts);
                self.discard(numbers(&part));
                return Ok(());
            }
            let Some(edit) = parts.end(part) else { return Ok(()) };
            (parts.plan().clone(), edit)
        };
        lock(&self.compactions.divided).retain(|other| !Arc::ptr_eq(other, parts));
        self.counters.compactions.fetch_add(1, Ordering::Relaxed);
        let bytes = edit.add.iter().map(|table| table.bytes).sum();
        self.counters.compaction_bytes.fetch_add(bytes, Ordering::Relaxed);
        let given_up = self.install_compaction(&edit)?;
        let mut state = lock(&self.compactions.state);
        if given_up.is_none() {
            state.wrote(&plan, &edit.add);
        }
        state.end(&plan);
        drop(state);
        // Compactions that were blocked by this one can start.
        self.ring_compactors();
        Ok(())
    }

    /// Abandons a compaction after an error in a part that had written `files`, if the store can
    /// continue.
    ///
    /// # Errors
    ///
    /// The error, if it cannot.
    fn abandon(&self, parts: &Arc<Mutex<Parts>>, files: Vec<u64>, error: Error) -> Result<()> {
        let plan = lock(parts).plan().clone();
        let error = self.may_abandon(&plan, error)?;
        self.discard(files);
        // Another part may have abandoned it already.
        let Some(finished) = lock(parts).abandon() else { return Ok(()) };
        tracing::warn!(%error, "a compaction was given up");
        self.discard(finished);
        lock(&self.compactions.divided).retain(|other| !Arc::ptr_eq(other, parts));
        lock(&self.compactions.state).end(&plan);
        self.set_compaction_throttle(&lock(&self.manifest).levels);
        self.ring_compactors();
        Ok(())
    }

    /// Starts the compaction that the policy chooses, if any.
    fn choose(&self) -> Result<Step> {
        // A manual compaction wakes the compactors when it is done.
        if self.compactions.manual.load(Ordering::SeqCst) > 0 {
            return Ok(Step::Idle(None));
        }
        if let Some(pause) = self.shortages.pause(Work::Compaction, self.clock.now()) {
            return Ok(Step::Idle(Some(pause)));
        }
        let mut state = match self.compactions.state.try_lock() {
            Ok(state) => state,
            Err(TryLockError::Poisoned(state)) => state.into_inner(),
            // Another worker holds it briefly, or a manual compaction has just started.
            Err(TryLockError::WouldBlock) => return Ok(Step::Idle(Some(LOOK_AGAIN))),
        };
        let levels = lock(&self.manifest).levels.clone();
        self.refresh(&mut state);
        let policy = self.options.compaction_style.policy();
        let choice = policy.choose(&levels, &self.options.compaction, &state);
        if let Some(edit) = choice.edit(&levels) {
            // The state stays locked, so that no other worker compacts the chosen tables meanwhile.
            self.install_compaction(&edit)?;
            return Ok(Step::Again);
        }
        let Choice::Compact(plan) = choice else {
            if state.running() == 0 {
                self.compactions.throttle.deactivate();
            }
            return Ok(Step::Idle(None));
        };
        self.divide(plan, levels, &mut state);
        Ok(Step::Again)
    }

    fn divide(&self, plan: Plan, levels: Levels, state: &mut CompactionState) {
        state.begin(&plan);
        self.compactions.taken_permille.store(state.taken_permille(), Ordering::Release);
        self.set_compaction_throttle(&lock(&self.manifest).levels);
        let threads = self.compactions.signals.len();
        let helped = threads > 1 && self.compactions.wants_help.load(Ordering::Acquire);
        let parts_max = if helped { PARTS_EACH * threads } else { 1 };
        let parts = Parts::new(plan, levels, &self.options.compaction, parts_max);
        lock(&self.compactions.divided).push(Arc::new(Mutex::new(parts)));
        if helped {
            self.ring_compactors();
        }
    }

    /// Updates the GC watermark and the unreadable tables in the state.
    fn refresh(&self, state: &mut CompactionState) {
        state.observe(&self.hook().mark());
        state.set_aside(self.compactions.quarantine.tables());
    }

    /// Wakes the compaction workers.
    pub(super) fn ring_compactors(&self) {
        self.compactions.signals.iter().for_each(carnet_base::Signal::ring);
    }
}

/// Returns the numbers of the tables that an edit adds.
fn numbers(edit: &Edit) -> Vec<u64> {
    edit.add.iter().map(|table| table.number).collect()
}

impl Worker for Compactor {
    fn stops_store_on_panic(&self) -> bool {
        true
    }

    fn step(&mut self) -> Step {
        if self.core.closing.load(Ordering::Acquire) {
            return Step::Done;
        }
        let core = Arc::clone(&self.core);
        core.guarded(|| self.work()).unwrap_or(Step::Done)
    }
}

impl Drop for Compactor {
    fn drop(&mut self) {
        if !self.core.closing.load(Ordering::Acquire) {
            self.core.publication.stop("a compactor ended");
        }
        self.core.compactions.throttle.release();
    }
}
