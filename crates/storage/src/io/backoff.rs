//! Back-off: lowers the rate of background requests while reads are slow in the device.
//!
//! Additive increase, multiplicative decrease, one step per [`WINDOW`]. It needs no model, because
//! the rate starts from the measured speed of background requests. So it also corrects a model that
//! is too optimistic.

use std::time::Duration;

use carnet_base::Moment;

use super::bucket::SECOND;
use super::latencies::Latencies;

/// Length of a window of measurements.
const WINDOW: Duration = Duration::from_millis(100);

/// Minimum number of reads to judge a window.
const READS_MIN: u64 = 20;

/// Maximum duration of a window with too few reads, in multiples of [`WINDOW`].
const WINDOWS_MAX: u32 = 5;

/// Number of consecutive slow windows after which the rate is lowered; a single one may be chance.
const SLOW_WINDOWS: u32 = 2;

/// Thousandths of its speed that background work keeps after a slow window.
const DECREASE_PERMILLE: u64 = 700;

/// Thousandths of the goal above which the rate is not increased.
const KEEP_PERMILLE: u64 = 750;

/// Thousandths of the highest speed by which one window increases the rate.
const INCREASE_PERMILLE: u64 = 40;

/// Thousandths of the highest speed above which a rate counts as unlimited.
const UNLIMITED_PERMILLE: u64 = 1_200;

/// Goal before the first quiet window, and minimum goal, in nanoseconds.
const GOAL_UNKNOWN: u64 = 2_000_000;
const GOAL_MIN: u64 = 300_000;

/// Goal of the 99th percentile of read latency, which background work must preserve.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Goal {
    /// One and a half times the latency of reads while there is little background work.
    #[default]
    Measured,
    /// A fixed latency.
    Fixed(Duration),
}

/// Additive increase and multiplicative decrease of the background rate. Rates are nanoseconds of
/// device time per second, by the model's costs.
#[derive(Clone, Debug)]
pub struct Backoff {
    goal: Goal,
    /// 99th percentile in windows with little background work.
    quiet: Option<u64>,
    reads: Latencies,
    opened: Moment,
    /// Device time of background requests in the window.
    moved: u64,
    /// Highest speed of background requests.
    peak: u64,
    /// Rate limit; `None` if unlimited.
    rate: Option<u64>,
    /// Speed at which reads last became slow; near it the rate is increased more slowly.
    ceiling: u64,
    last_p99: u64,
    /// Number of consecutive slow windows.
    slow_windows: u32,
    /// 99th percentile and speed at the first decrease.
    blamed: Option<(u64, u64)>,
    /// Whether the last window had reads.
    has_reads: bool,
}

impl Backoff {
    /// Makes an unlimited back-off. `quiet_nanos` is the 99th percentile of reads of the idle disk,
    /// if it was measured.
    #[must_use]
    pub fn new(goal: Goal, quiet_nanos: Option<u64>) -> Self {
        Self {
            goal,
            quiet: quiet_nanos,
            reads: Latencies::new(),
            opened: Moment::default(),
            moved: 0,
            peak: 0,
            rate: None,
            ceiling: u64::MAX,
            last_p99: 0,
            slow_windows: 0,
            blamed: None,
            has_reads: false,
        }
    }

    /// Counts a read with its latency in the device.
    pub fn read(&mut self, latency: Duration) {
        self.reads.add(u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Counts the device time of a background request.
    pub const fn moved(&mut self, cost: u64) {
        self.moved = self.moved.saturating_add(cost);
    }

    /// Returns the rate limit of background requests; `None` if unlimited.
    #[must_use]
    pub const fn rate(&self) -> Option<u64> {
        self.rate
    }

    /// Returns `true` if the last window or the current one has reads.
    #[must_use]
    pub const fn has_reads(&self) -> bool {
        self.has_reads || self.reads.count() > 0
    }

    /// Returns the highest speed of background requests.
    #[must_use]
    pub const fn peak(&self) -> u64 {
        self.peak
    }

    /// Returns the 99th percentile of read latency in the last window, in nanoseconds.
    #[must_use]
    pub const fn last_p99_nanos(&self) -> u64 {
        self.last_p99
    }

    /// Returns the goal in nanoseconds.
    #[must_use]
    pub fn goal_nanos(&self) -> u64 {
        match (self.goal, self.quiet) {
            (Goal::Fixed(goal), _) => u64::try_from(goal.as_nanos()).unwrap_or(u64::MAX),
            (Goal::Measured, Some(quiet)) => (quiet / 2).saturating_add(quiet).max(GOAL_MIN),
            (Goal::Measured, None) => GOAL_UNKNOWN,
        }
    }

    /// Ends the window if it is due, and sets the rate, which is at least `floor`. Returns `true`
    /// if the window ended.
    pub fn tick(&mut self, floor: u64, now: Moment) -> bool {
        let open = now.since(self.opened);
        let is_judged = self.reads.count() >= READS_MIN;
        if open < WINDOW || (!is_judged && open < WINDOW * WINDOWS_MAX) {
            return false;
        }
        let speed = u128::from(self.moved) * u128::from(SECOND) / open.as_nanos().max(1);
        let speed = u64::try_from(speed).unwrap_or(u64::MAX);
        self.peak = self.peak.max(speed);
        if is_judged {
            self.last_p99 = self.reads.p99();
            self.judge(speed, floor);
        } else if self.reads.count() == 0 {
            // No reads to protect.
            (self.rate, self.ceiling) = (None, u64::MAX);
        } else {
            self.increase();
        }
        self.rate = self.rate.map(|rate| rate.max(floor));
        self.has_reads = self.reads.count() > 0;
        self.reads.clear();
        (self.moved, self.opened) = (0, now);
        true
    }

    fn judge(&mut self, speed: u64, floor: u64) {
        let is_quiet = speed <= floor.saturating_mul(2).min(self.peak / 10);
        if is_quiet {
            self.learn();
        }
        let goal = self.goal_nanos();
        if self.last_p99 <= goal / 1000 * KEEP_PERMILLE || is_quiet {
            (self.slow_windows, self.blamed) = (0, None);
            self.increase();
        } else if self.last_p99 <= goal {
            self.slow_windows = 0;
        } else {
            self.slow_windows += 1;
            if self.slow_windows >= SLOW_WINDOWS {
                self.decrease(speed);
            }
        }
    }

    /// Lowers the rate, unless earlier decreases did not help: then the reads are slow for another
    /// reason.
    fn decrease(&mut self, speed: u64) {
        let from = self.rate.map_or(speed, |rate| rate.min(speed));
        let (p99, begun) = *self.blamed.get_or_insert((self.last_p99, from));
        if self.goal == Goal::Measured && from <= begun / 2 && self.last_p99 >= p99 / 5 * 4 {
            self.quiet = self.quiet.max(Some(self.last_p99));
            (self.slow_windows, self.blamed) = (0, None);
            (self.rate, self.ceiling) = (Some(begun), u64::MAX);
            return;
        }
        // Below half of the ceiling, reads are slow because of requests that are already queued in
        // the device.
        if from > self.ceiling / 2 || self.ceiling == u64::MAX {
            self.ceiling = from;
        }
        self.rate = Some(from / 1000 * DECREASE_PERMILLE);
    }

    /// Moves the quiet latency halfway up, but only slowly down, because rare slow reads are part
    /// of it.
    fn learn(&mut self) {
        let now = self.last_p99;
        self.quiet = Some(match self.quiet {
            None => now,
            Some(quiet) if now < quiet => quiet - (quiet - now) / 32,
            Some(quiet) => quiet + (now - quiet) / 2,
        });
    }

    fn increase(&mut self) {
        let Some(rate) = self.rate else { return };
        let step = self.peak / 1000 * INCREASE_PERMILLE;
        let is_near = rate > self.ceiling / 8 * 7;
        let rate = rate.saturating_add(if is_near { step / 8 } else { step });
        if rate > self.ceiling {
            self.ceiling = rate;
        }
        let is_unlimited = rate > self.peak / 1000 * UNLIMITED_PERMILLE;
        self.rate = (!is_unlimited).then_some(rate);
    }
}
