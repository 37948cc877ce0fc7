//! How the engine's work shares the disk and the processors with reads and writes.

use std::sync::Arc;

use carnet_base::{Clock, Moment, Result, Spawn, Step, Worker};

use crate::disk::{Disk, During, PacedDisk};
use crate::io::{Class, ClassTotals, Config, Model, Turns, Waits, file, fits};
use crate::options::{IoOptions, Options};
use crate::sstable;
use crate::sync::atomic::{AtomicU64, Ordering};

/// The floor of background work when it is not behind, in parts of a thousand of the device.
const FLOOR_PERMILLE: u64 = 50;

/// The engine's access to its I/O scheduler.
pub(super) struct Io {
    /// `None` where nothing is scheduled.
    turns: Option<Arc<Turns>>,
    /// The disk without turns.
    below: Arc<dyn Disk>,
    /// The nice value of background threads; 0 where there are none.
    nice: u8,
    /// How far compaction and flush are behind, in parts of a thousand.
    compaction_behind: AtomicU64,
    flush_behind: AtomicU64,
}

impl Io {
    /// Makes a scheduler for a disk, where the options and the workers allow one.
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

    /// Returns the engine's disk: tables that are read in bulk take turns of compaction.
    pub(super) fn disk(&self) -> Arc<dyn Disk> {
        self.output(Class::Compaction)
    }

    /// Returns a disk for tables that a class writes.
    pub(super) fn output(&self, class: Class) -> Arc<dyn Disk> {
        let below = Arc::clone(&self.below);
        match &self.turns {
            Some(turns) => Arc::new(PacedDisk::bulk(below, Arc::clone(turns), class)),
            None => below,
        }
    }

    /// Returns a disk on which all files take turns of maintenance.
    pub(super) fn maintenance(&self, disk: Arc<dyn Disk>) -> Arc<dyn Disk> {
        match &self.turns {
            Some(turns) => Arc::new(PacedDisk::all(disk, Arc::clone(turns), Class::Maintenance)),
            None => disk,
        }
    }

    /// Returns a worker whose thread has the nice value of background work.
    pub(super) fn niced(&self, worker: impl Worker) -> Box<dyn Worker> {
        Box::new(Niced { worker, nice: self.nice })
    }

    /// Returns how long a worker without a thread of its own has to pause, if it has to.
    pub(super) fn pause(&self) -> Option<std::time::Duration> {
        self.turns.as_ref()?.pause()
    }

    /// Lets all turns begin at once: the engine is closing.
    pub(super) fn release(&self) {
        if let Some(turns) = &self.turns {
            turns.release();
        }
    }

    /// Takes how much writers may write for each byte that compaction takes away; `None` where they are
    /// free. The less, the larger the floor.
    pub(super) fn compaction_is_behind(&self, share: Option<f64>) {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it lies between 0 and 1000"
        )]
        let behind = share.map_or(0, |share| (1000.0 - 500.0 * share.clamp(0.0, 2.0)) as u64);
        self.set_floor(&self.compaction_behind, behind);
    }

    /// Takes for how many more memtables there is room, and how many wait for their flush.
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

    /// Returns the floor of background work: the larger, the further any of it is behind.
    pub(super) fn floor_permille(&self) -> u64 {
        let [compaction, flush] =
            [&self.compaction_behind, &self.flush_behind].map(|it| it.load(Ordering::Acquire));
        let behind = compaction.max(flush);
        FLOOR_PERMILLE + (1000 - FLOOR_PERMILLE) * behind / 1000
    }

    /// Returns the time before the log is written, if that is counted.
    pub(super) fn log_begins(&self) -> Option<Moment> {
        self.turns.as_ref().map(|turns| turns.now())
    }

    /// Counts a write of the log, or a sync, which has no bytes.
    pub(super) fn log_wrote(&self, bytes: usize, begun: Option<Moment>) {
        if let (Some(turns), Some(begun)) = (&self.turns, begun) {
            turns.log_wrote(bytes, begun);
        }
    }

    /// Returns what each kind of class did, where it is scheduled.
    pub(super) fn totals(&self) -> Option<[ClassTotals; Class::KINDS]> {
        self.turns.as_ref().map(|turns| turns.totals())
    }
}

/// Loads the model of a disk, unless there is none or the disk is another one than was measured: that costs
/// foresight and nothing else.
fn model_of(disk: &dyn Disk, clock: &dyn Clock) -> Option<Model> {
    let fitting = || -> Result<Option<Model>> {
        let Some(model) = file::load(disk)? else { return Ok(None) };
        let fits = match longest_table(disk)? {
            Some((name, bytes)) => fits(disk, clock, &name, bytes, &model)?,
            None => true,
        };
        if !fits {
            let path = disk.path(file::FILE_NAME);
            tracing::warn!(
                "reads of this disk do not take what {path} says; it is not used: measure the \
                 disk again with `carnet iotune`"
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
    /// 0 afterwards.
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
}

/// Sets the nice value of this thread: Linux has one for each.
#[cfg(target_os = "linux")]
fn set_nice(nice: u8) -> std::io::Result<()> {
    Ok(rustix::process::setpriority_process(None, i32::from(nice))?)
}

#[cfg(not(target_os = "linux"))]
fn set_nice(_: u8) -> std::io::Result<()> {
    Ok(())
}
