//! Integrals of waiting time.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use carnet_base::Moment;

use super::report::{Cause, Report};
use super::sketch::Sketch;
use super::{Named, Waits, Why, nanos};

/// How long a window is.
const WINDOW: Duration = Duration::from_millis(500);
/// Number of windows that a report is about.
const WINDOWS: u32 = 20;
/// Maximum number of levels that are told apart; the others are one.
const LEVELS_MAX: usize = 64;
/// The name of the levels that are not told apart.
const OTHERS: &str = "others";
/// Least time between two dumps.
const DUMP_EVERY: Duration = Duration::from_secs(30);

/// A statement at its end.
#[derive(Clone, Copy, Debug)]
pub struct Ended<'a> {
    /// Its level.
    pub level: &'a Arc<str>,
    /// Time that it waited, by reason.
    pub waits: [Duration; Why::ALL.len()],
    /// Time that it held its permit.
    pub held: Duration,
    /// Processor time that it used for nothing: it ended late, or its client had gone.
    pub wasted: Duration,
    /// Its name.
    pub named: Option<&'a Arc<Named>>,
}

impl<'a> Ended<'a> {
    /// Returns the end of a statement that held no permit.
    #[must_use]
    pub(crate) fn of(level: &'a Arc<str>, waits: &'a Waits) -> Self {
        let (held, wasted) = (Duration::ZERO, Duration::ZERO);
        Self { level, waits: waits.by_why(), held, wasted, named: waits.named() }
    }
}

/// Figures of a level since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Time that its statements waited, by reason.
    pub waited: [Duration; Why::ALL.len()],
    /// Processor time that was used for nothing.
    pub wasted: Duration,
}

#[derive(Clone, Copy, Debug, Default)]
struct Integral {
    waited: Duration,
    waits: u64,
}

type Integrals = [Integral; Why::ALL.len()];

/// Half a second.
#[derive(Debug, Default)]
struct Window {
    number: u128,
    held: Duration,
    levels: BTreeMap<Arc<str>, Integrals>,
    statements: [Sketch; Why::ALL.len()],
}

/// The waiting of the last 10 s by level and reason, and all of it since the start.
///
/// A statement's waits are added at its end, all of them to the window of that moment. The memory is
/// bounded: 64 levels, and 16 statements for each reason, in each of 20 windows.
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
    /// Makes one that begins now.
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
            if let Some(named) = ended.named {
                window.statements[at].add(&level, named, nanos(waited));
            }
        }
    }

    /// Returns what statements waited for in the last 10 s.
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
            let (level, named) = (Arc::clone(level), heaviest(sketches, level));
            Cause { why, level, waited, waits, share: 0.0, named }
        });
        let held = windows().map(|window| window.held).sum();
        Report::new(causes.collect(), held, self.span(now))
    }

    /// Returns a report that belongs into the log, unless there was one in the last 30 s.
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

    /// Time that a report is about: shorter than 10 s at the beginning.
    fn span(&self, now: Moment) -> Duration {
        now.since(self.opened).clamp(WINDOW, WINDOW * WINDOWS)
    }

    fn level(&self, level: &Arc<str>) -> Arc<str> {
        let is_told_apart = self.totals.contains_key(level) || self.totals.len() < LEVELS_MAX - 1;
        if is_told_apart { Arc::clone(level) } else { OTHERS.into() }
    }
}

/// Returns the window of a number, which is the last one or comes behind it.
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
fn heaviest<'s>(sketches: impl Iterator<Item = &'s Sketch>, level: &str) -> Option<Arc<Named>> {
    let mut weights: HashMap<&Arc<Named>, u64> = HashMap::new();
    for (named, weight) in sketches.flat_map(|sketch| sketch.of_level(level)) {
        *weights.entry(named).or_default() += weight;
    }
    let heaviest = weights.into_iter().max_by_key(|(named, weight)| (*weight, *named));
    heaviest.map(|(named, _)| Arc::clone(named))
}
