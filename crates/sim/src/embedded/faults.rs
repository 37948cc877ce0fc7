//! What goes wrong, and when: drawn from the seed, spread over the run.

use std::io::ErrorKind;
use std::time::Duration;

use carnet_storage::disk::sim::{Kind, SimDisk};

use super::{DATABASE, World};
use crate::dice::Dice;

/// Something that goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The power goes now.
    PowerLoss,
    /// The power goes in the middle of a sync to come.
    PowerLossAtSync,
    /// The power goes in the middle of any operation of the disk.
    PowerLossAtOperation,
    /// The process is killed: what it wrote is there.
    Kill,
    /// The database is closed while clients use it.
    Close,
    /// An operation of the disk fails, once.
    FailedOperation,
    /// The disk is full from now on.
    FullDisk,
    /// Reads of the disk come late from now on.
    LateReads,
    /// The device stalls: the log's flusher waits for it.
    StalledLog,
    /// Flushes and compactions do not come forward.
    StalledTables,
    /// The whole process stands still.
    Pause,
    /// The wall clock jumps, forward or back.
    ClockJump,
}

/// What a fault leaves for the database to come back from.
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

    pub(super) fn draw(dice: &mut Dice) -> Self {
        dice.pick(&Self::ALL)
    }

    /// Lets it happen; says how the database ends by it, if it does at once.
    pub(super) fn strike(self, world: &World, disk: &SimDisk, dice: &mut Dice) -> Option<End> {
        let long = dice.micros(1_000, 200_000);
        match self {
            Self::PowerLoss => return Some(End::PowerLoss),
            Self::Kill => return Some(End::Kill),
            Self::Close => return Some(End::Close),
            Self::PowerLossAtSync => disk.halt_at_sync(disk.syncs() + dice.between(1, 12)),
            Self::PowerLossAtOperation => {
                disk.halt_at(disk.operations() + dice.between(1, 60));
            }
            Self::FailedOperation => {
                let kind = dice.pick(&Kind::ALL);
                let error = dice.pick(&[ErrorKind::Other, ErrorKind::TimedOut]);
                disk.fail_nth(kind, disk.count(kind) + dice.between(1, 8), error);
            }
            Self::FullDisk => disk.full_from(disk.operations() + dice.between(1, 60)),
            Self::LateReads => disk.stall_reads(dice.between(100, 900), dice.between(1, 20)),
            Self::StalledLog => world.executor.stall_workers(DATABASE, "carnet-log", long),
            Self::StalledTables => {
                for name in ["carnet-flush", "carnet-compact"] {
                    world.executor.stall_workers(DATABASE, name, long);
                }
            }
            Self::Pause => world.executor.pause(DATABASE, long),
            Self::ClockJump => {
                let hours = Duration::from_secs(3600 * dice.between(1, 100)).as_micros();
                let micros = i64::try_from(hours).unwrap_or_default();
                world.clock.jump(if dice.percent(50) { micros } else { -micros });
            }
        }
        None
    }

    /// How the database is brought back where the fault, or what came of it, stopped it.
    pub(super) fn aftermath(self, dice: &mut Dice) -> End {
        match self {
            Self::PowerLossAtSync | Self::PowerLossAtOperation => End::PowerLoss,
            _ => dice.pick(&[End::PowerLoss, End::Kill, End::Close]),
        }
    }
}
