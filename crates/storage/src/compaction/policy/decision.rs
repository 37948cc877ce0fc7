//! Policy: the decision that all policies share.

use super::{Backlog, Choice, CompactionState, Config, Pressure};
use crate::manifest::{LEVELS, Levels};

/// Compaction policy: a pure decision without clock, disk or state of its own.
pub trait Policy: Send + Sync {
    /// Chooses the next action, besides the running compactions.
    fn choose(&self, levels: &Levels, config: &Config, state: &CompactionState) -> Choice;

    /// Estimates the bytes to rewrite until no compaction is due.
    fn pending_bytes(&self, levels: &Levels, config: &Config) -> u64;

    /// Returns the maximum number of sorted runs that a point read may search.
    fn runs(&self, levels: &Levels) -> usize {
        let deeper = (1..LEVELS).filter(|level| !levels.level(*level).is_empty());
        levels.level(0).len() + deeper.count()
    }

    /// Returns the size of level 0, in thousandths of the size from which writers are throttled.
    fn level0_permille(&self, _levels: &Levels, _config: &Config) -> u64 {
        0
    }

    /// Returns the backlog of compaction.
    fn backlog(&self, levels: &Levels, config: &Config) -> Backlog {
        Backlog {
            runs: self.runs(levels),
            pending_bytes: self.pending_bytes(levels, config),
            level0_permille: self.level0_permille(levels, config),
        }
    }

    /// Returns how much writers must be throttled so that compaction keeps up.
    fn pressure(&self, levels: &Levels, config: &Config) -> Pressure {
        Pressure::of(self.backlog(levels, config), config)
    }

    /// Returns `true` if more than one thread should compact: see [`Backlog::wants_help`].
    fn wants_help(&self, levels: &Levels, config: &Config) -> bool {
        self.backlog(levels, config).wants_help(config)
    }
}
