//! Token bucket of device time.

use std::time::Duration;

use carnet_base::Moment;

/// Nanoseconds per second.
pub(super) const SECOND: u64 = 1_000_000_000;

/// Maximum debt, which bounds the wait if the device is faster than its model.
const DEBT_MAX: i64 = 100_000_000;

/// Token bucket of device time, in nanoseconds. The tokens may become negative: foreground requests
/// may exceed them, and other requests wait until the debt is paid.
#[derive(Clone, Debug)]
pub(super) struct Bucket {
    tokens: i64,
    /// Tokens per second.
    rate: u64,
    /// Maximum number of tokens.
    depth: u64,
    filled: Moment,
}

impl Bucket {
    /// Makes a full bucket.
    pub(super) fn new(rate: u64, depth: u64) -> Self {
        Self { tokens: signed(depth), rate, depth, filled: Moment::default() }
    }

    /// Makes an empty bucket.
    pub(super) fn empty(rate: u64, depth: u64) -> Self {
        Self { tokens: 0, ..Self::new(rate, depth) }
    }

    /// Sets the rate from `now` on.
    pub(super) fn set_rate(&mut self, rate: u64, now: Moment) {
        self.fill(now);
        self.rate = rate;
    }

    pub(super) fn fill(&mut self, now: Moment) {
        let passed = now.since(self.filled);
        let new = self.worth(passed);
        // Time worth less than a token is kept for the next call.
        if new > 0 {
            self.tokens = self.tokens.saturating_add(signed(new)).min(signed(self.depth));
            self.filled = now;
        }
    }

    /// Returns when a request can be paid for; a request that costs more than the depth needs a
    /// full bucket.
    pub(super) fn ready_at(&mut self, cost: u64, now: Moment) -> Moment {
        self.fill(now);
        let missing = signed(cost.min(self.depth)).saturating_sub(self.tokens);
        match u64::try_from(missing) {
            Ok(missing) if missing > 0 => {
                let wait = u128::from(missing) * u128::from(SECOND);
                let wait = wait.div_ceil(u128::from(self.rate.max(1)));
                let wait = u64::try_from(wait).unwrap_or(u64::MAX);
                Moment(self.filled.0.saturating_add(Duration::from_nanos(wait))).max(now)
            }
            _ => now,
        }
    }

    /// Takes tokens; missing ones become a debt.
    pub(super) fn take(&mut self, cost: u64) {
        self.tokens = self.tokens.saturating_sub(signed(cost)).max(-DEBT_MAX);
    }

    /// Takes at most the available tokens.
    pub(super) fn take_above_zero(&mut self, cost: u64) {
        self.tokens = self.tokens.saturating_sub(signed(cost)).max(self.tokens.min(0));
    }

    fn worth(&self, passed: Duration) -> u64 {
        let worth = passed.as_nanos() * u128::from(self.rate) / u128::from(SECOND);
        u64::try_from(worth).unwrap_or(u64::MAX)
    }
}

fn signed(tokens: u64) -> i64 {
    i64::try_from(tokens).unwrap_or(i64::MAX)
}
