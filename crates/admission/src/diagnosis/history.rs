//! Sums of waiting time over a sliding window.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use carnet_base::Moment;

use super::report::{Cause, Report};
use super::sketch::Sketch;
use super::{Waiter, Waits, Why, nanos};

/// Length of a window.
const WINDOW: Duration = Duration::from_millis(500);
/// Number of windows in a report.
const WINDOWS: u32 = 20;
/// Maximum number of distinct levels; further ones are counted together.
const LEVELS_MAX: usize = 64;
/// Name of the levels that are counted together.
const OTHERS: &str = "others";
/// Minimum interval between two dumps.
const DUMP_EVERY: Duration = Duration::from_secs(30);

/// Figures of a statement that ends.
#[derive(Clone, Copy, Debug)]
pub struct Ended<'a> {
    /// Name of the statement's level.
    pub level: &'a Arc<str>,
    /// Time that the statement waited, by reason.
    pub waits: [Duration; Why::ALL.len()],
    /// Time that the statement held its permit.
    pub held: Duration,
    /// Processor time without use: the statement ended late, or its client had disconnected.
    pub wasted: Duration,
    /// The statement and its user.
    pub waiter: Option<&'a Waiter>,
}

impl<'a> Ended<'a> {
    /// Makes the figures of a statement that held no permit.
    #[must_use]
    pub(crate) fn without_permit(level: &'a Arc<str>, waits: &'a Waits) -> Self {
        let (held, wasted) = (Duration::ZERO, Duration::ZERO);
        Self { level, waits: waits.untold(), held, wasted, waiter: waits.waiter() }
    }
}

/// Figures of a level since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Time that the level's statements waited, by reason.
    pub waited: [Duration; Why::ALL.len()],
    /// Processor time without use.
    pub wasted: Duration,
}

#[derive(Clone, Copy, Debug, Default)]
struct Integral {
    waited: Duration,
    waits: u64,
}

type Integrals = [Integral; Why::ALL.len()];

/// Sums of one window of half a second.
#[derive(Debug, Default)]
struct Window {
    number: u128,
    held: Duration,
    levels: BTreeMap<Arc<str>, Integrals>,
    statements: [Sketch; Why::ALL.len()],
}

/// Waiting time by level and reason, of the last 10 s and in total since the start.
///
/// The waits of a statement are added when it ends, to the window of that moment, and twice a second while it runs. Memory is
/// bounded: 64 levels, and 16 statements per reason, in each of 20 windows.
#[derive(Debug)]
pub struct History {
    opened: Moment,
    windows: VecDeque<Window>,
    totals: BTreeMap<Arc<str>, Totals>,
    dumped: Option<Moment>,
}

fn number(now: Moment) -> u128 {
    now.0.as_nanos() / WINDOW.as_nanos()
}

impl History {
    /// Makes an empty history that begins now.
    #[must_use]
    pub const fn new(now: Moment) -> Self {
        Self { opened: now, windows: VecDeque::new(), totals: BTreeMap::new(), dumped: None }
    }

    /// Adds a statement that ends now.
    pub fn add(&mut self, ended: Ended<'_>, now: Moment) {
        let level = self.level(ended.level);
        let totals = self.totals.entry(Arc::clone(&level)).or_default();
        totals.wasted += ended.wasted;
        let window = open(&mut self.windows, number(now));
        window.held += ended.held;
        let integrals = window.levels.entry(Arc::clone(&level)).or_default();
        for why in Why::ALL {
            let (at, waited) = (why as usize, ended.waits[why as usize]);
            if waited.is_zero() {
                continue;
            }
            totals.waited[at] += waited;
            integrals[at].waited += waited;
            integrals[at].waits += 1;
            if let Some(waiter) = ended.waiter {
                window.statements[at].add(&level, waiter, nanos(waited));
            }
        }
    }

    /// Returns the report of the last 10 s.
    #[must_use]
    pub fn report(&self, now: Moment) -> Report {
        let oldest = (number(now) + 1).saturating_sub(u128::from(WINDOWS));
        let windows = || self.windows.iter().filter(|window| window.number >= oldest);
        let mut sums: BTreeMap<(&Arc<str>, Why), Integral> = BTreeMap::new();
        for (level, integrals) in windows().flat_map(|window| &window.levels) {
            for why in Why::ALL {
                let (sum, one) = (sums.entry((level, why)).or_default(), integrals[why as usize]);
                sum.waited += one.waited;
                sum.waits += one.waits;
            }
        }
        let waited = sums.into_iter().filter(|(_, integral)| integral.waits > 0);
        let causes = waited.map(|((level, why), Integral { waited, waits })| {
            let sketches = windows().map(|window| &window.statements[why as usize]);
            let (level, waiter) = (Arc::clone(level), heaviest(sketches, level));
            Cause { why, level, waited, waits, share: 0.0, waiter }
        });
        let held = windows().map(|window| window.held).sum();
        Report::new(causes.collect(), held, self.span(now))
    }

    /// Returns a report for the log, unless there was one in the last 30 s.
    pub fn dump(&mut self, now: Moment) -> Option<Report> {
        if self.dumped.is_some_and(|dumped| now.since(dumped) < DUMP_EVERY) {
            return None;
        }
        self.dumped = Some(now);
        Some(self.report(now))
    }

    /// Returns the figures of each level since the start.
    pub fn totals(&self) -> impl Iterator<Item = (&Arc<str>, &Totals)> {
        self.totals.iter()
    }

    /// Time that a report covers: less than 10 s shortly after the start.
    fn span(&self, now: Moment) -> Duration {
        now.since(self.opened).clamp(WINDOW, WINDOW * WINDOWS)
    }

    fn level(&self, level: &Arc<str>) -> Arc<str> {
        let is_told_apart = self.totals.contains_key(level) || self.totals.len() < LEVELS_MAX - 1;
        if is_told_apart { Arc::clone(level) } else { OTHERS.into() }
    }
}

/// Returns the window with a number, appending it unless it is the last one.
fn open(windows: &mut VecDeque<Window>, number: u128) -> &mut Window {
    if windows.back().is_none_or(|window| window.number < number) {
        if windows.len() == WINDOWS as usize {
            windows.pop_front();
        }
        windows.push_back(Window { number, ..Window::default() });
    }
    windows.back_mut().expect("there is one")
}

/// Returns the statement of a level with the largest weight in all sketches.
fn heaviest<'s>(sketches: impl Iterator<Item = &'s Sketch>, level: &str) -> Option<Waiter> {
    let mut weights: HashMap<&Waiter, u64> = HashMap::new();
    for (waiter, weight) in sketches.flat_map(|sketch| sketch.of_level(level)) {
        *weights.entry(waiter).or_default() += weight;
    }
    let heaviest = weights.into_iter().max_by_key(|(waiter, weight)| (*weight, *waiter));
    heaviest.map(|(waiter, _)| waiter.clone())
}
