//! Faults, drawn from the seed and spread over the run.

use std::io::ErrorKind;
use std::time::Duration;

use carnet_storage::disk::sim::{Kind, SimDisk};

use super::world::{DATABASE, World};
use crate::random::Random;

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The power fails now.
    PowerLoss,
    /// The power fails during a later sync.
    PowerLossAtSync,
    /// The power fails during any operation of the disk.
    PowerLossAtOperation,
    /// The process is killed; its writes to files remain.
    Kill,
    /// The database is closed while clients use it.
    Close,
    /// One operation of the disk fails.
    FailedOperation,
    /// The disk is full from now on.
    FullDisk,
    /// Reads of the disk are slow from now on.
    LateReads,
    /// The device stalls, and the log's flusher waits for it.
    StalledLog,
    /// Flushes and compactions make no progress.
    StalledTables,
    /// The whole process is paused.
    Pause,
    /// The wall clock jumps, forward or back.
    ClockJump,
}

/// The way in which the database ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The power was lost.
    PowerLoss,
    /// The process was killed.
    Kill,
    /// It was closed.
    Close,
}

impl Fault {
    const ALL: [Self; 12] = [
        Self::PowerLoss,
        Self::PowerLossAtSync,
        Self::PowerLossAtOperation,
        Self::Kill,
        Self::Close,
        Self::FailedOperation,
        Self::FullDisk,
        Self::LateReads,
        Self::StalledLog,
        Self::StalledTables,
        Self::Pause,
        Self::ClockJump,
    ];

    pub(super) fn draw(random: &mut Random) -> Self {
        random.pick(&Self::ALL)
    }

    /// Injects the fault; returns the end of the database, if the fault ends it at once.
    pub(super) fn inject(self, world: &World, disk: &SimDisk, random: &mut Random) -> Option<End> {
        let long = random.micros(1_000, 200_000);
        match self {
            Self::PowerLoss => return Some(End::PowerLoss),
            Self::Kill => return Some(End::Kill),
            Self::Close => return Some(End::Close),
            Self::PowerLossAtSync => disk.halt_at_sync(disk.syncs() + random.between(1, 12)),
            Self::PowerLossAtOperation => {
                disk.halt_at(disk.operations() + random.between(1, 60));
            }
            Self::FailedOperation => {
                let kind = random.pick(&Kind::ALL);
                let error = random.pick(&[ErrorKind::Other, ErrorKind::TimedOut]);
                disk.fail_nth(kind, disk.count(kind) + random.between(1, 8), error);
            }
            Self::FullDisk => disk.full_from(disk.operations() + random.between(1, 60)),
            Self::LateReads => disk.stall_reads(random.between(100, 900), random.between(1, 20)),
            Self::StalledLog => world.executor.stall_workers(DATABASE, "carnet-log", long),
            Self::StalledTables => {
                for name in ["carnet-flush", "carnet-compact"] {
                    world.executor.stall_workers(DATABASE, name, long);
                }
            }
            Self::Pause => world.executor.pause(DATABASE, long),
            Self::ClockJump => {
                let hours = Duration::from_secs(3600 * random.between(1, 100)).as_micros();
                let micros = i64::try_from(hours).unwrap_or_default();
                world.clock.jump(if random.percent(50) { micros } else { -micros });
            }
        }
        None
    }

    /// Returns how the database ends if the fault, or its effects, stopped it.
    pub(super) fn aftermath(self, random: &mut Random) -> End {
        match self {
            Self::PowerLossAtSync | Self::PowerLossAtOperation => End::PowerLoss,
            _ => random.pick(&[End::PowerLoss, End::Kill, End::Close]),
        }
    }
}
