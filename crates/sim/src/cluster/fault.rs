//! The kinds of faults between processes and replicas.

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// A process is killed, and restarts after a while.
    Kill,
    /// A process is paused long enough for others to take over.
    Pause,
    /// A process does not reach some replicas.
    CutFromReplicas,
    /// Two processes do not reach each other.
    CutFromEachOther,
    /// A replica is down.
    ReplicaDown,
    /// The rates of lost messages and unanswered rounds rise sharply.
    HighRates,
    /// A process's wall clock jumps.
    ClockJump,
    /// Another encoding of the commit table is installed.
    Migration,
}

impl Fault {
    pub(super) const ALL: [Self; 8] = [
        Self::Kill,
        Self::Pause,
        Self::CutFromReplicas,
        Self::CutFromEachOther,
        Self::ReplicaDown,
        Self::HighRates,
        Self::ClockJump,
        Self::Migration,
    ];

    /// All faults but jumps of clocks.
    pub(super) const WITHOUT_CLOCKS: [Self; 7] = [
        Self::Kill,
        Self::Pause,
        Self::CutFromReplicas,
        Self::CutFromEachOther,
        Self::ReplicaDown,
        Self::HighRates,
        Self::Migration,
    ];
}
