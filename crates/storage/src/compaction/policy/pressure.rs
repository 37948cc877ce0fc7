//! How far behind compaction is.

use super::Config;

/// What writers must do so that compaction keeps up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pressure {
    /// Write on.
    Fine,
    /// Write more slowly: from 0, hardly, to 1, nearly not at all.
    Slow(f64),
    /// Wait.
    Stop,
}

impl Pressure {
    /// Judges how many runs reads look into, and how many bytes wait to be compacted: the worse
    /// of the two counts. Between its two limits each rises evenly.
    #[must_use]
    pub fn of(runs: usize, pending_bytes: u64, config: &Config) -> Self {
        let part = |value: u64, slow: u64, stop: u64| {
            if value >= stop {
                1.0
            } else {
                to_f64(value.saturating_sub(slow)) / to_f64(stop.saturating_sub(slow).max(1))
            }
        };
        let runs = part(runs as u64, config.slow_runs as u64, config.stop_runs as u64);
        let pending = part(pending_bytes, config.slow_pending_bytes, config.stop_pending_bytes);
        match runs.max(pending) {
            worst if worst >= 1.0 => Self::Stop,
            worst if worst > 0.0 => Self::Slow(worst),
            _ => Self::Fine,
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
    fn writers_are_slowed_more_and_more_before_they_are_stopped() {
        let config = Config {
            slow_runs: 10,
            stop_runs: 30,
            slow_pending_bytes: 1000,
            stop_pending_bytes: 2000,
            ..Config::default()
        };
        let of = |runs, bytes| Pressure::of(runs, bytes, &config);
        assert_eq!(of(10, 1000), Pressure::Fine);
        assert_eq!(of(11, 0), Pressure::Slow(0.05));
        assert_eq!(of(20, 1250), Pressure::Slow(0.5));
        assert_eq!(of(10, 1750), Pressure::Slow(0.75));
        assert_eq!((of(30, 0), of(0, 2000)), (Pressure::Stop, Pressure::Stop));
        assert_eq!(of(usize::MAX, u64::MAX), Pressure::Stop);
    }
}
