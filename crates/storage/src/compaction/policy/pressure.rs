//! Compaction backlog and write throttling.

use super::Config;

/// Backlog of compaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Maximum number of sorted runs that a point read may search.
    pub runs: usize,
    /// Bytes to rewrite until no compaction is due.
    pub pending_bytes: u64,
    /// Size of level 0, in thousandths of the size from which writers are throttled. The number of
    /// runs does not show it, because level 0 is merged within itself.
    pub level0_permille: u64,
}

impl Backlog {
    /// Returns `true` if more than one thread should compact: halfway to the limits from which
    /// writers are throttled. For runs, halfway between the start of compaction and that limit.
    #[must_use]
    pub const fn wants_help(&self, config: &Config) -> bool {
        self.runs >= config.level0_tables.midpoint(config.slow_runs)
            || self.pending_bytes >= config.slow_pending_bytes / 2
            || self.level0_permille >= 500
    }
}

/// Write pressure: how much writers must be throttled so that compaction keeps up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pressure {
    /// Writers are not throttled.
    Fine,
    /// Throttling, from 0 (slightly behind) to 1 (the maximum backlog).
    Slow(f64),
}

/// Minimum share that writers always get: if they stopped, one of them would wait for a whole
/// compaction. The rest of compaction's work reduces the backlog.
const SHARE_MIN: f64 = 0.1;

impl Pressure {
    /// Computes the pressure from a backlog, by the worst of its values. Each rises linearly
    /// between its two limits.
    #[must_use]
    pub fn of(backlog: Backlog, config: &Config) -> Self {
        let part = |value: u64, slow: u64, slowest: u64| {
            if value >= slowest {
                1.0
            } else {
                to_f64(value.saturating_sub(slow)) / to_f64(slowest.saturating_sub(slow).max(1))
            }
        };
        let Backlog { runs, pending_bytes, level0_permille } = backlog;
        let (slow, slowest) = (config.slow_runs as u64, config.slowest_runs as u64);
        let runs = part(runs as u64, slow, slowest);
        let pending = part(pending_bytes, config.slow_pending_bytes, config.slowest_pending_bytes);
        let level0_slowest = slowest.saturating_mul(1000).checked_div(slow).unwrap_or(1000);
        let level0 = part(level0_permille, 1000, level0_slowest.max(1000));
        match runs.max(pending).max(level0) {
            worst if worst > 0.0 => Self::Slow(worst),
            _ => Self::Fine,
        }
    }

    /// Returns the bytes that writers may write for each byte by which compaction reduces level 0
    /// in the long run; `None` if they are not throttled.
    ///
    /// At 0.5 the share is 1, where the backlog stays constant; below that it is up to 2, above
    /// that less than 1.
    #[must_use]
    pub fn share(self) -> Option<f64> {
        match self {
            Self::Fine => None,
            Self::Slow(how) => Some((2.0 * (1.0 - how)).max(SHARE_MIN)),
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "only a ratio is needed")]
fn to_f64(value: u64) -> f64 {
    value as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn throttling_increases_but_never_stops_writers() {
        let config = Config {
            slow_runs: 10,
            slowest_runs: 30,
            slow_pending_bytes: 1000,
            slowest_pending_bytes: 2000,
            ..Config::default()
        };
        let of = |runs, pending_bytes| {
            Pressure::of(Backlog { runs, pending_bytes, level0_permille: 0 }, &config)
        };
        assert_eq!(of(10, 1000), Pressure::Fine);
        assert_eq!(of(11, 0), Pressure::Slow(0.05));
        assert_eq!(of(20, 1250), Pressure::Slow(0.5));
        assert_eq!(of(10, 1750), Pressure::Slow(0.75));
        assert_eq!((of(30, 0), of(0, 2000)), (Pressure::Slow(1.0), Pressure::Slow(1.0)));
        assert_eq!(of(usize::MAX, u64::MAX), Pressure::Slow(1.0));
        let shares = [of(10, 0), of(15, 0), of(20, 0), of(25, 0), of(30, 0)].map(Pressure::share);
        assert_eq!(shares, [None, Some(1.5), Some(1.0), Some(0.5), Some(0.1)]);
        let level0 = |level0_permille| {
            Pressure::of(Backlog { level0_permille, ..Backlog::default() }, &config)
        };
        assert_eq!(level0(1000), Pressure::Fine);
        assert_eq!([level0(2000), level0(3000)], [Pressure::Slow(0.5), Pressure::Slow(1.0)]);
        for (slow_runs, slowest_runs) in [(usize::MAX, usize::MAX), (usize::MAX, 1), (5, 3)] {
            let never = Config { slow_runs, slowest_runs, ..Config::default() };
            assert_eq!(Pressure::of(Backlog::default(), &never), Pressure::Fine);
        }
    }

    #[test]
    fn more_threads_compact_before_writers_are_throttled() {
        let config = Config { level0_tables: 4, slow_runs: 12, ..Config::default() };
        let wants = |runs, pending_bytes, level0_permille| {
            Backlog { runs, pending_bytes, level0_permille }.wants_help(&config)
        };
        let pending = config.slow_pending_bytes / 2;
        assert!(!wants(7, pending - 1, 499));
        assert!(wants(8, 0, 0) && wants(0, pending, 0) && wants(0, 0, 500));
    }
}
