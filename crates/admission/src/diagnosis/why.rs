//! Reasons of waits.

use carnet_base::WaitNote;

/// Reason why a statement waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Why {
    /// Admission at the gate.
    Gate,
    /// A thread or a turn to run on.
    Cpu,
    /// Disk reads, or reads from a cluster.
    Disk,
    /// Memory: of the engine for reads, or of the server for requests and answers.
    Memory,
    /// Sync of the commit in the log.
    Log,
    /// Write throttle of the engine.
    Throttle,
    /// Turn at a hot row.
    Lock,
    /// Client that has not read the previous answers.
    Socket,
}

impl From<WaitNote> for Why {
    fn from(note: WaitNote) -> Self {
        match note {
            WaitNote::Memory => Self::Memory,
            WaitNote::Throttle => Self::Throttle,
        }
    }
}

impl Why {
    /// All reasons, in the order of their counters.
    pub const ALL: [Self; 8] = [
        Self::Gate,
        Self::Cpu,
        Self::Disk,
        Self::Memory,
        Self::Log,
        Self::Throttle,
        Self::Lock,
        Self::Socket,
    ];

    /// Returns the name in figures and messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Gate => "gate",
            Self::Cpu => "cpu",
            Self::Disk => "disk",
            Self::Memory => "memory",
            Self::Log => "log",
            Self::Throttle => "throttle",
            Self::Lock => "lock",
            Self::Socket => "socket",
        }
    }

    /// Returns the reason as a phrase for operators.
    #[must_use]
    pub const fn explanation(self) -> &'static str {
        match self {
            Self::Gate => "admission: more statements arrive than run at a time",
            Self::Cpu => "a thread, or a turn on the threads of long statements",
            Self::Disk => "reads that the device answers, or over a cluster its servers",
            Self::Memory => {
                "memory: of the engine for reads from the device, of the server for requests and answers"
            }
            Self::Log => "the commit: the log and its sync",
            Self::Throttle => "the engine, which slows writers until flush and compaction catch up",
            Self::Lock => "a turn at a row that other transactions change",
            Self::Socket => "the client, which does not read earlier answers",
        }
    }

    /// Returns `true` if a waiting statement keeps its permit, so that others wait at the gate
    /// behind it.
    pub(super) const fn holds_permit(self) -> bool {
        matches!(self, Self::Cpu | Self::Disk | Self::Memory | Self::Log | Self::Throttle)
    }
}
