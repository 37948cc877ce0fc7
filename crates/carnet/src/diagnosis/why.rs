//! What statements wait for.

/// What a statement waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Why {
    /// Its admission.
    Gate,
    /// A thread or a turn to run on.
    Cpu,
    /// Reads that the device answers, or over a cluster its servers.
    Disk,
    /// Memory of the budget.
    Memory,
    /// Its commit.
    Log,
    /// Writers that the engine slows down.
    Throttle,
    /// Its turn at a hot row.
    Lock,
    /// Its client, which has not taken the answers before.
    Socket,
}

impl Why {
    /// All reasons.
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

    /// Returns `true` where a statement that waits keeps its permit, so that others wait at the gate
    /// because of it.
    pub(super) const fn holds_permit(self) -> bool {
        matches!(self, Self::Cpu | Self::Disk | Self::Memory | Self::Log | Self::Throttle)
    }
}
