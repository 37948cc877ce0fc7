//! I/O scheduling and thread priority of the engine's background work.

use std::sync::Arc;

use carnet_base::{Clock, Moment, Result, Spawn, Step, Worker};

use crate::disk::{Disk, During, PacedDisk, fits, model_file};
use crate::io::{Class, ClassTotals, Config, Model, Turns, Waits};
use crate::options::{IoOptions, Options};
use crate::sstable;
use crate::sync::atomic::{AtomicU64, Ordering};

/// Floor of background work without a backlog, in thousandths of the device.
const FLOOR_PERMILLE: u64 = 50;

/// The engine's access to its I/O scheduler.
pub(super) struct Io {
    /// `None` if nothing is scheduled.
    turns: Option<Arc<Turns>>,
    /// Disk without scheduling.
    below: Arc<dyn Disk>,
    /// Nice value of background threads; 0 without threads.
    nice: u8,
    /// Backlog of compaction and of flush, in thousandths.
    compaction_behind: AtomicU64,
    flush_behind: AtomicU64,
}

impl Io {
    /// Makes a scheduler for a disk, if the options and the workers allow one.
    pub(super) fn open(
        disk: &Arc<dyn Disk>,
        clock: &Arc<dyn Clock>,
        spawn: &dyn Spawn,
        options: &Options,
    ) -> Self {
        let IoOptions { scheduler, goal, shares, nice, pauses } = options.io;
        let waits = if spawn.has_threads() { Waits::Block } else { Waits::Pause };
        let is_scheduled = scheduler && (waits == Waits::Block || pauses);
        let model = if is_scheduled { model_of(&**disk, &**clock) } else { None };
        let config = Config { model, goal, shares };
        let turns = is_scheduled.then(|| Arc::new(Turns::new(Arc::clone(clock), config, waits)));
        if let Some(turns) = &turns {
            disk.watch_reads(Arc::clone(turns) as _);
        }
        Self {
            turns,
            below: Arc::clone(disk),
            nice: if spawn.has_threads() { nice } else { 0 },
            compaction_behind: AtomicU64::new(0),
            flush_behind: AtomicU64::new(0),
        }
    }

    /// Returns the engine's disk, on which bulk reads are scheduled as compaction.
    pub(super) fn disk(&self) -> Arc<dyn Disk> {
        self.output(Class::Compaction)
    }

    /// Returns a disk for tables written by a class.
    pub(super) fn output(&self, class: Class) -> Arc<dyn Disk> {
        let below = Arc::clone(&self.below);
        match &self.turns {
            Some(turns) => Arc::new(PacedDisk::bulk(below, Arc::clone(turns), class)),
            None => below,
        }
    }

    /// Returns a disk on which all files are scheduled as maintenance.
    pub(super) fn maintenance(&self, disk: Arc<dyn Disk>) -> Arc<dyn Disk> {
        match &self.turns {
            Some(turns) => Arc::new(PacedDisk::all(disk, Arc::clone(turns), Class::Maintenance)),
            None => disk,
        }
    }

    /// Returns a worker whose thread gets the nice value of background work.
    pub(super) fn niced(&self, worker: impl Worker) -> Box<dyn Worker> {
        Box::new(Niced { worker, nice: self.nice })
    }

    /// Returns how long a worker without its own thread must pause, if at all.
    pub(super) fn pause(&self) -> Option<std::time::Duration> {
        self.turns.as_ref()?.pause()
    }

    /// Lets all turns start at once, because the engine is closing.
    pub(super) fn release(&self) {
        if let Some(turns) = &self.turns {
            turns.release();
        }
    }

    /// Sets the bytes that writers may write for each byte by which compaction reduces level 0;
    /// `None` if they are not throttled. A smaller share raises the floor.
    pub(super) fn compaction_is_behind(&self, share: Option<f64>) {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it lies between 0 and 1000"
        )]
        let behind = share.map_or(0, |share| (1000.0 - 500.0 * share.clamp(0.0, 2.0)) as u64);
        self.set_floor(&self.compaction_behind, behind);
    }

    /// Sets the number of memtables that can still be sealed, and of memtables that wait for their
    /// flush.
    pub(super) fn flush_is_behind(&self, room: usize, waiting: usize) {
        let behind = match room {
            0 => 1000,
            1 if waiting > 0 => 500,
            _ => 0,
        };
        self.set_floor(&self.flush_behind, behind);
    }

    fn set_floor(&self, of: &AtomicU64, behind: u64) {
        let Some(turns) = &self.turns else { return };
        if of.swap(behind, Ordering::AcqRel) != behind {
            turns.set_floor(self.floor_permille());
        }
    }

    /// Returns the floor of background work, which rises with its backlog.
    pub(super) fn floor_permille(&self) -> u64 {
        let [compaction, flush] =
            [&self.compaction_behind, &self.flush_behind].map(|it| it.load(Ordering::Acquire));
        let behind = compaction.max(flush);
        FLOOR_PERMILLE + (1000 - FLOOR_PERMILLE) * behind / 1000
    }

    /// Returns the current time before a write of the log, if I/O is scheduled.
    pub(super) fn log_begins(&self) -> Option<Moment> {
        self.turns.as_ref().map(|turns| turns.now())
    }

    /// Counts a write of the log, or a sync (no bytes).
    pub(super) fn log_wrote(&self, bytes: usize, begun: Option<Moment>) {
        if let (Some(turns), Some(begun)) = (&self.turns, begun) {
            turns.log_wrote(bytes, begun);
        }
    }

    /// Returns the totals of each class, if I/O is scheduled.
    pub(super) fn totals(&self) -> Option<[ClassTotals; Class::KINDS]> {
        self.turns.as_ref().map(|turns| turns.totals())
    }
}

/// Loads the model of a disk; `None` if there is none or the disk is not the measured one. Without
/// a model, only the shares and the back-off limit requests.
fn model_of(disk: &dyn Disk, clock: &dyn Clock) -> Option<Model> {
    let fitting = || -> Result<Option<Model>> {
        let Some(model) = model_file::load(disk)? else { return Ok(None) };
        let fits = match longest_table(disk)? {
            Some((name, bytes)) => fits(disk, clock, &name, bytes, &model)?,
            None => true,
        };
        if !fits {
            let path = disk.path(model_file::FILE_NAME);
            tracing::warn!(
                "reads of this disk do not match {path}, which is ignored; measure the disk \
                 again with `carnet iotune`"
            );
        }
        Ok(fits.then_some(model))
    };
    fitting().unwrap_or_else(|error| {
        tracing::warn!(%error, "the model of the disk is not used");
        None
    })
}

fn longest_table(disk: &dyn Disk) -> Result<Option<(String, u64)>> {
    let mut longest = None;
    for name in disk.list().during("list", disk, "")? {
        if sstable::number_in(&name).is_none() {
            continue;
        }
        let file = disk.open(&name).during("open", disk, &name)?;
        let bytes = file.len().during("open", disk, &name)?;
        longest = longest.max(Some((bytes, name)));
    }
    Ok(longest.map(|(bytes, name)| (name, bytes)))
}

/// A worker that lowers the priority of its thread before its first step.
struct Niced<W> {
    worker: W,
    /// Nice value; 0 after the first step.
    nice: u8,
}

impl<W: Worker> Worker for Niced<W> {
    fn step(&mut self) -> Step {
        let nice = std::mem::take(&mut self.nice);
        if nice > 0
            && let Err(error) = set_nice(nice)
        {
            tracing::debug!(%error, "the priority of a background thread stays as it is");
        }
        self.worker.step()
    }

    fn stops_store_on_panic(&self) -> bool {
        self.worker.stops_store_on_panic()
    }
}

/// Sets the nice value of this thread; Linux has one per thread.
#[cfg(target_os = "linux")]
fn set_nice(nice: u8) -> std::io::Result<()> {
    Ok(rustix::process::setpriority_process(None, i32::from(nice))?)
}

#[cfg(not(target_os = "linux"))]
fn set_nice(_: u8) -> std::io::Result<()> {
    Ok(())
}
