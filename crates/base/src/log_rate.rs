//! A rate limit for log lines that untrusted clients can cause: a token bucket that counts
//! suppressed lines.

use std::time::Duration;

use crate::Moment;

/// Decides which of many similar log lines are written.
#[derive(Clone, Debug)]
pub struct LogRate {
    burst: u32,
    interval: Duration,
    tokens: u32,
    refilled: Moment,
    suppressed: u64,
}

impl LogRate {
    /// Allows `burst` lines at once, and one more each `interval`.
    #[must_use]
    pub fn new(burst: u32, interval: Duration) -> Self {
        Self { burst, interval, tokens: burst, refilled: Moment::default(), suppressed: 0 }
    }

    /// Decides about a line: `Some` to write it, with the number of lines suppressed before it, or
    /// `None` to suppress it.
    pub fn admit(&mut self, now: Moment) -> Option<u64> {
        self.refill(now);
        if self.tokens == 0 {
            self.suppressed += 1;
            return None;
        }
        self.tokens -= 1;
        Some(std::mem::take(&mut self.suppressed))
    }

    fn refill(&mut self, now: Moment) {
        let passed = now.since(self.refilled).as_nanos();
        let intervals = passed / self.interval.as_nanos().max(1);
        let gained = u32::try_from(intervals).unwrap_or(u32::MAX);
        if gained > self.burst - self.tokens {
            (self.tokens, self.refilled) = (self.burst, now);
        } else {
            self.tokens += gained;
            self.refilled = self.refilled.after(self.interval * gained);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Moment {
        Moment(Duration::from_millis(millis))
    }

    #[test]
    fn burst_is_written_and_the_rest_counted() {
        let mut rate = LogRate::new(3, Duration::from_secs(1));
        let admitted: Vec<_> = (0..5).map(|_| rate.admit(at(10_000))).collect();
        assert_eq!(admitted, [Some(0), Some(0), Some(0), None, None]);
        assert_eq!(rate.admit(at(10_999)), None);
        assert_eq!(rate.admit(at(11_000)), Some(3));
        assert_eq!(rate.admit(at(11_001)), None);
    }

    #[test]
    fn fractions_of_an_interval_add_up() {
        let mut rate = LogRate::new(2, Duration::from_secs(1));
        let written = (0..100).filter(|n| rate.admit(at(60_000 + n * 100)).is_some()).count();
        assert_eq!(written, 2 + 9);
    }

    #[test]
    fn silence_saves_up_one_burst() {
        let mut rate = LogRate::new(2, Duration::from_secs(1));
        assert!(rate.admit(at(0)).is_some());
        let written = (0..10).filter(|_| rate.admit(at(3_600_000)).is_some()).count();
        assert_eq!(written, 2);
    }

    #[test]
    fn clock_that_stands_still_is_harmless() {
        let mut rate = LogRate::new(1, Duration::ZERO);
        assert!(rate.admit(at(5)).is_some());
        assert!(rate.admit(at(5)).is_none());
        assert!(rate.admit(at(4)).is_none());
    }
}
