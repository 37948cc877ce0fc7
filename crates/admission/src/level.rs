//! Service levels as seen by a gate.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Id of a service level at the gates of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LevelId(pub u64);

/// Default shares of a level.
pub const SHARES_DEFAULT: u32 = 1_000;

/// Limits of the statements of a service level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LevelLimits {
    /// Weight relative to other levels while statements of several levels wait. At least 1.
    pub shares: u32,
    /// Maximum number of running statements per class; `None` for the gate's limit.
    pub running_max: Option<usize>,
    /// Maximum number of waiting statements per class; `None` for the gate's limit.
    pub queue_max: Option<usize>,
    /// Maximum wait under overload; `None` for the gate's limit.
    pub shed_after: Option<Duration>,
}

impl Default for LevelLimits {
    fn default() -> Self {
        Self { shares: SHARES_DEFAULT, running_max: None, queue_max: None, shed_after: None }
    }
}

/// Service level of an arriving statement. Changed limits apply from its arrival on.
#[derive(Clone, PartialEq, Eq)]
pub struct Level {
    /// Id of the level.
    pub id: LevelId,
    /// Name in figures and messages.
    pub name: Arc<str>,
    /// Limits of the level.
    pub limits: LevelLimits,
}

impl Default for Level {
    /// Returns the level of statements without another level.
    fn default() -> Self {
        Self { id: LevelId::default(), name: "default".into(), limits: LevelLimits::default() }
    }
}

impl fmt::Debug for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Level({}, {})", self.id.0, self.name)
    }
}

/// Handling of a statement under overload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Workload {
    /// The statement is refused at once, because a late answer is useless to its client.
    Interactive,
    /// The statement waits, and its client is slowed down. Statements of this workload are small: they come before
    /// those of [`Workload::Batch`].
    Unspecified,
    /// Like [`Workload::Unspecified`], for statements that may take long: they take half of the slots at most.
    Batch,
}

impl Workload {
    /// All workloads, in the order of their queues.
    pub const ALL: [Self; 3] = [Self::Interactive, Self::Unspecified, Self::Batch];

    /// Returns the name in figures and settings.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Interactive => "interactive",
            Self::Unspecified => "unspecified",
            Self::Batch => "batch",
        }
    }

    /// Returns `true` if statements of this workload are refused under overload.
    #[must_use]
    pub const fn is_refused(self) -> bool {
        matches!(self, Self::Interactive)
    }
}
