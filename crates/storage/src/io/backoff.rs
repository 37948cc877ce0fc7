//! Lowers the rate of background requests while reads are slow in the device.
//!
//! Additive increase, multiplicative decrease, a step each [`WINDOW`]. It needs no model: the rate is set by
//! what background requests really got. So it also corrects a model that promises too much.

use std::time::Duration;

use carnet_base::Moment;

use super::bucket::SECOND;
use super::latencies::Latencies;

/// Length of a window of measurements.
const WINDOW: Duration = Duration::from_millis(100);

/// Number of reads by which a window is judged.
const READS_MIN: u64 = 20;

/// A window with too few reads goes on for up to so many times [`WINDOW`].
const WINDOWS_MAX: u32 = 5;

/// Number of slow windows after which the rate is lowered: one may be chance.
const SLOW_WINDOWS: u32 = 2;

/// Parts in a thousand of its speed that background work keeps after a window of slow reads.
const DECREASE_PERMILLE: u64 = 700;

/// From this part of the goal on, in thousandths, the rate stays as it is.
const KEEP_PERMILLE: u64 = 750;

/// Parts in a thousand of the highest speed by which the rate rises after any other window.
const INCREASE_PERMILLE: u64 = 40;

/// Rates beyond so many parts in a thousand of the highest speed limit nothing.
const UNLIMITED_PERMILLE: u64 = 1_200;

/// The goal before there was a quiet window, and the least one ever, in nanoseconds.
const GOAL_UNKNOWN: u64 = 2_000_000;
const GOAL_MIN: u64 = 300_000;

/// The 99th percentile of the latency of reads that background work leaves alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Goal {
    /// Half as much again as the reads take while there is little background work.
    #[default]
    Measured,
    /// A fixed one.
    Fixed(Duration),
}

/// Additive increase and multiplicative decrease of the background rate. Rates are nanoseconds of device
/// time a second, at the model's costs.
#[derive(Clone, Debug)]
pub struct Backoff {
    goal: Goal,
    /// The 99th percentile in windows with little background work.
    quiet: Option<u64>,
    reads: Latencies,
    opened: Moment,
    /// Device time that background requests got in the window.
    moved: u64,
    /// The highest speed of background requests.
    peak: u64,
    /// `None` where nothing limits.
    rate: Option<u64>,
    /// The speed at which reads became slow last, towards which the rate rises more slowly.
    ceiling: u64,
    last_p99: u64,
    /// Consecutive windows of slow reads.
    slow_windows: u32,
    /// The 99th percentile and the speed when the rate was lowered first.
    blamed: Option<(u64, u64)>,
    /// Whether the last window had reads.
    has_reads: bool,
}

impl Backoff {
    /// Makes one that limits nothing yet. `quiet_nanos` is the 99th percentile of reads of an idle disk,
    /// where it was measured before.
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

    /// Counts a read that took so long in the device.
    pub fn read(&mut self, latency: Duration) {
        self.reads.add(u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Counts device time that was given to a background request.
    pub const fn moved(&mut self, cost: u64) {
        self.moved = self.moved.saturating_add(cost);
    }

    /// Returns the rate of background requests; `None` where nothing limits them.
    #[must_use]
    pub const fn rate(&self) -> Option<u64> {
        self.rate
    }

    /// Returns `true` if there are reads to protect: in the last window or this one.
    #[must_use]
    pub const fn has_reads(&self) -> bool {
        self.has_reads || self.reads.count() > 0
    }

    /// Returns the highest speed that background requests had.
    #[must_use]
    pub const fn peak(&self) -> u64 {
        self.peak
    }

    /// Returns the 99th percentile of the last window of reads, in nanoseconds.
    #[must_use]
    pub const fn last_p99_nanos(&self) -> u64 {
        self.last_p99
    }

    /// Returns the goal, in nanoseconds.
    #[must_use]
    pub fn goal_nanos(&self) -> u64 {
        match (self.goal, self.quiet) {
            (Goal::Fixed(goal), _) => u64::try_from(goal.as_nanos()).unwrap_or(u64::MAX),
            (Goal::Measured, Some(quiet)) => (quiet / 2).saturating_add(quiet).max(GOAL_MIN),
            (Goal::Measured, None) => GOAL_UNKNOWN,
        }
    }

    /// Ends the window if it is due, and sets the rate, which never falls below `floor`. Returns whether it
    /// ended.
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
            // There is nothing to protect.
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

    /// Lowers the rate, unless that has not helped so far: then something else makes reads slow.
    fn decrease(&mut self, speed: u64) {
        let from = self.rate.map_or(speed, |rate| rate.min(speed));
        let (p99, begun) = *self.blamed.get_or_insert((self.last_p99, from));
        if self.goal == Goal::Measured && from <= begun / 2 && self.last_p99 >= p99 / 5 * 4 {
            self.quiet = self.quiet.max(Some(self.last_p99));
            (self.slow_windows, self.blamed) = (0, None);
            (self.rate, self.ceiling) = (Some(begun), u64::MAX);
            return;
        }
        // Below it reads are slow because of what the device still has queued.
        if from > self.ceiling / 2 || self.ceiling == u64::MAX {
            self.ceiling = from;
        }
        self.rate = Some(from / 1000 * DECREASE_PERMILLE);
    }

    /// Moves the quiet latency half of the way up, and slowly down: what is rare is quiet, too.
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
