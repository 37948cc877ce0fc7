//! Backoff before a transaction runs again.

use std::time::Duration;

use carnet_base::{ErrorKind, Rng};

/// Upper bound of the random wait after the first conflict.
const FIRST_WAIT: Duration = Duration::from_micros(100);
/// Longest wait after a conflict.
const LONGEST_WAIT: Duration = Duration::from_millis(50);

/// Exponential backoff with full jitter, so that conflicting transactions do not conflict again.
///
/// Source: Marc Brooker, "Exponential Backoff And Jitter", 2015.
#[derive(Clone, Debug)]
pub struct Backoff {
    attempts: u32,
    attempts_max: u32,
}

impl Backoff {
    /// Allows a transaction to run `attempts_max` times in all, at least once.
    #[must_use]
    pub fn attempts(attempts_max: u32) -> Self {
        Self { attempts: 1, attempts_max: attempts_max.max(1) }
    }

    /// Returns the number of runs so far.
    #[must_use]
    pub const fn made(&self) -> u32 {
        self.attempts
    }

    /// Returns the wait before the next run after an error of this kind, or `None` if the
    /// transaction should not run again.
    pub fn after(&mut self, kind: ErrorKind, rng: &mut impl Rng) -> Option<Duration> {
        if !kind.is_retryable() || self.attempts >= self.attempts_max {
            return None;
        }
        let doublings = (self.attempts - 1).min(16);
        self.attempts += 1;
        let ceiling = (FIRST_WAIT * (1 << doublings)).min(LONGEST_WAIT);
        let nanos = u64::try_from(ceiling.as_nanos()).unwrap_or(u64::MAX);
        let wait = Duration::from_nanos(rng.below(nanos));
        Some(match kind {
            ErrorKind::Overloaded { retry_after } => retry_after + wait,
            _ => wait,
        })
    }
}

#[cfg(test)]
mod tests {
    use carnet_base::SeededRng;

    use super::*;

    #[test]
    fn waits_grow_and_end() {
        let mut backoff = Backoff::attempts(12);
        let mut rng = SeededRng::new(1);
        let mut waits = Vec::new();
        while let Some(wait) = backoff.after(ErrorKind::Conflict, &mut rng) {
            waits.push(wait);
        }
        assert_eq!((waits.len(), backoff.made()), (11, 12));
        assert!(waits[0] < FIRST_WAIT);
        assert!(waits.iter().all(|wait| *wait < LONGEST_WAIT));
        assert!(waits.iter().any(|wait| *wait > FIRST_WAIT * 8));
    }

    #[test]
    fn only_retryable_errors_are_retried() {
        let mut rng = SeededRng::new(1);
        let unknown = ErrorKind::Unknown { start: carnet_base::Timestamp::ZERO };
        for kind in [unknown, ErrorKind::Invalid, ErrorKind::Aborted] {
            assert_eq!(Backoff::attempts(9).after(kind, &mut rng), None);
        }
        let hint = Duration::from_secs(2);
        let busy = ErrorKind::Overloaded { retry_after: hint };
        assert!(Backoff::attempts(9).after(busy, &mut rng).unwrap() >= hint);
    }
}
