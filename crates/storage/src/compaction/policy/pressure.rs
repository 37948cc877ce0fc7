//! How far behind compaction is, and what writers may do about it.

use super::Config;

/// What writers must do so that compaction keeps up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pressure {
    /// Write on.
    Fine,
    /// Write more slowly: from 0, hardly behind, to 1, as far as it should ever be.
    Slow(f64),
}

/// Writers may always write this part of what compaction takes away: where they stop altogether,
/// one of them waits for as long as a compaction takes. The rest of it makes up for what is behind.
const SHARE_MIN: f64 = 0.1;

impl Pressure {
    /// Judges how many runs reads look into, and how many bytes wait to be compacted: the worse
    /// of the two counts. Between its two limits each rises evenly.
    #[must_use]
    pub fn of(runs: usize, pending_bytes: u64, config: &Config) -> Self {
        let part = |value: u64, slow: u64, slowest: u64| {
            if value >= slowest {
                1.0
            } else {
                to_f64(value.saturating_sub(slow)) / to_f64(slowest.saturating_sub(slow).max(1))
            }
        };
        let runs = part(runs as u64, config.slow_runs as u64, config.slowest_runs as u64);
        let pending = part(pending_bytes, config.slow_pending_bytes, config.slowest_pending_bytes);
        match runs.max(pending) {
            worst if worst > 0.0 => Self::Slow(worst),
            _ => Self::Fine,
        }
    }

    /// Tells whether compaction is so far behind that more than one thread should see to it: halfway
    /// from where it begins to where writers are slowed.
    #[must_use]
    pub const fn wants_help(runs: usize, pending_bytes: u64, config: &Config) -> bool {
        runs >= config.level0_tables.midpoint(config.slow_runs)
            || pending_bytes >= config.slow_pending_bytes / 2
    }

    /// Returns how much writers may write for each byte that compaction takes away in the long
    /// run; `None` where they are free.
    ///
    /// Halfway it is just as much, so that writers who want more stay there; before they may
    /// write up to twice as much, behind it less.
    #[must_use]
    pub fn share(self) -> Option<f64> {
        match self {
            Self::Fine => None,
            Self::Slow(how) => Some((2.0 * (1.0 - how)).max(SHARE_MIN)),
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a fraction of it is all that is needed")]
fn to_f64(value: u64) -> f64 {
    value as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writers_are_slowed_more_and_more_and_never_stopped() {
        let config = Config {
            slow_runs: 10,
            slowest_runs: 30,
            slow_pending_bytes: 1000,
            slowest_pending_bytes: 2000,
            ..Config::default()
        };
        let of = |runs, bytes| Pressure::of(runs, bytes, &config);
        assert_eq!(of(10, 1000), Pressure::Fine);
        assert_eq!(of(11, 0), Pressure::Slow(0.05));
        assert_eq!(of(20, 1250), Pressure::Slow(0.5));
        assert_eq!(of(10, 1750), Pressure::Slow(0.75));
        assert_eq!((of(30, 0), of(0, 2000)), (Pressure::Slow(1.0), Pressure::Slow(1.0)));
        assert_eq!(of(usize::MAX, u64::MAX), Pressure::Slow(1.0));
        let shares = [of(10, 0), of(15, 0), of(20, 0), of(25, 0), of(30, 0)].map(Pressure::share);
        assert_eq!(shares, [None, Some(1.5), Some(1.0), Some(0.5), Some(0.1)]);
    }

    #[test]
    fn help_is_wanted_before_writers_are_slowed() {
        let config = Config { level0_tables: 4, slow_runs: 12, ..Config::default() };
        let wants = |runs, bytes| Pressure::wants_help(runs, bytes, &config);
        assert!(!wants(7, 0) && wants(8, 0) && wants(0, config.slow_pending_bytes / 2));
    }
}
