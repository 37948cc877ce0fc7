//! What a gate knows of a service level.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Names a service level at the gates of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LevelId(pub u64);

/// Shares of a level that says nothing else.
pub const SHARES_DEFAULT: u32 = 1_000;

/// How the gates treat the statements of a service level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LevelLimits {
    /// Weight among the levels while statements of several of them wait. At least 1.
    pub shares: u32,
    /// Maximum number of its statements of a class that run at a time; `None` for the gate's.
    pub running_max: Option<usize>,
    /// Maximum number of its statements of a class that wait; `None` for the gate's.
    pub queue_max: Option<usize>,
    /// How long one waits at most under overload; `None` for the gate's.
    pub shed_after: Option<Duration>,
}

impl Default for LevelLimits {
    fn default() -> Self {
        Self { shares: SHARES_DEFAULT, running_max: None, queue_max: None, shed_after: None }
    }
}

/// A service level, as statements name it on their arrival. Limits that changed hold from then on.
#[derive(Clone, PartialEq, Eq)]
pub struct Level {
    /// Which one it is.
    pub id: LevelId,
    /// Its name in figures and messages.
    pub name: Arc<str>,
    /// Its limits.
    pub limits: LevelLimits,
}

impl Default for Level {
    /// Returns the level of statements for which no other is set.
    fn default() -> Self {
        Self { id: LevelId::default(), name: "default".into(), limits: LevelLimits::default() }
    }
}

impl fmt::Debug for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Level({}, {})", self.id.0, self.name)
    }
}

/// How statements of a level are treated when more arrive than can be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Workload {
    /// They are refused at once: a late answer is worth nothing.
    Interactive,
    /// They wait, and their clients are slowed down: all of them are to be done in the end.
    Batch,
}

impl Workload {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Interactive, Self::Batch];

    /// Returns the name in figures and settings.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Interactive => "interactive",
            Self::Batch => "batch",
        }
    }
}
