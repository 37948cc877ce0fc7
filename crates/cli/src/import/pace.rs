//! Pace of the reads from the source. Pure.
//!
//! ```text
//!   pages    rows up to PAGE_BYTES, if each weighs as much as the heaviest of the last page; at
//!            most twice as many rows as in the last page, and half as many after a failure
//!   pause    after a failure, each time twice as long; after a slow answer, as long as it took,
//!            so that the source has half of the time for others
//!   limit    rows per second of all readers together
//! ```

use std::time::Duration;

use carnet_base::Moment;

/// Target size of a page in bytes.
const PAGE_BYTES: u64 = 1 << 20;
/// Rows of the first page, before the size of rows is known.
const PAGE_ROWS_FIRST: u16 = 32;
const PAGE_ROWS_MAX: u16 = 1_000;
/// Duration of a page read above which the source counts as busy.
const SLOW: Duration = Duration::from_secs(1);
const PAUSE_FIRST: Duration = Duration::from_millis(200);
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// Pace of all readers of one source.
#[derive(Clone, Debug)]
pub(super) struct Pace {
    rows_per_second: Option<u32>,
    pause_first: Duration,
    /// Row limit of the next page by the weight of earlier rows.
    rows_by_weight: u16,
    /// Row limit of the next page after failures.
    rows_at_most: u16,
    /// Time of the next read.
    not_before: Moment,
}

impl Pace {
    pub(super) const fn new(rows_per_second: Option<u32>) -> Self {
        Self {
            rows_per_second,
            pause_first: PAUSE_FIRST,
            rows_by_weight: PAGE_ROWS_FIRST,
            rows_at_most: PAGE_ROWS_MAX,
            not_before: Moment(Duration::ZERO),
        }
    }

    /// Returns the pace with another first pause, for tests that fail often.
    #[cfg(test)]
    pub(super) const fn with_pause(self, pause_first: Duration) -> Self {
        Self { pause_first, ..self }
    }

    /// Returns the row limit of the next page.
    pub(super) fn page_rows(&self) -> u16 {
        let rows = self.rows_by_weight.min(self.rows_at_most);
        // A page has at most the rows of a quarter of a second.
        let quarter = self.rows_per_second.map_or(u32::MAX, |rows| rows / 4);
        rows.min(u16::try_from(quarter).unwrap_or(u16::MAX)).max(1)
    }

    /// Returns the wait before the next page.
    pub(super) fn wait(&self, now: Moment) -> Duration {
        self.not_before.since(now)
    }

    /// Records a page, and the bytes of its heaviest row.
    pub(super) fn answered(&mut self, now: Moment, took: Duration, rows: usize, heaviest: u64) {
        self.rows_at_most = self.rows_at_most.saturating_mul(2).min(PAGE_ROWS_MAX);
        let rows = u64::try_from(rows).unwrap_or(u64::MAX);
        if rows > 0 {
            let fitting = u16::try_from(PAGE_BYTES / heaviest.max(1)).unwrap_or(u16::MAX);
            let more = self.rows_by_weight.saturating_mul(2);
            self.rows_by_weight = fitting.min(more).clamp(1, PAGE_ROWS_MAX);
        }
        if let Some(limit) = self.rows_per_second {
            let worth = Duration::from_secs_f64(rows as f64 / f64::from(limit.max(1)));
            self.not_before = self.not_before.max(now).after(worth);
        }
        if took > SLOW {
            self.rest(now, took.min(PAUSE_MAX));
        }
    }

    /// Records a failure of the source or of the target database. `attempt` counts the caller's
    /// failures in a row, independent of successes elsewhere.
    pub(super) fn failed(&mut self, now: Moment, attempt: u32, retry_after: Duration) {
        let doubled = self.pause_first.saturating_mul(1 << attempt.saturating_sub(1).min(16));
        self.rows_at_most = (self.rows_at_most / 2).max(1);
        self.rest(now, doubled.min(PAUSE_MAX).max(retry_after));
    }

    fn rest(&mut self, now: Moment, pause: Duration) {
        self.not_before = self.not_before.max(now.after(pause));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUICK: Duration = Duration::from_millis(3);

    fn at(millis: u64) -> Moment {
        Moment(Duration::from_millis(millis))
    }

    #[test]
    fn pages_grow_until_they_weigh_enough() {
        let mut pace = Pace::new(None);
        let mut asked = Vec::new();
        for _ in 0..7 {
            asked.push(pace.page_rows());
            pace.answered(at(0), QUICK, pace.page_rows().into(), 100);
        }
        assert_eq!(asked, [32, 64, 128, 256, 512, 1000, 1000]);
        // Rows of a quarter of a megabyte.
        pace.answered(at(0), QUICK, 1000, 250 << 10);
        assert_eq!(pace.page_rows(), 4);
        pace.answered(at(0), QUICK, 1, 64 << 20);
        assert_eq!(pace.page_rows(), 1);
        // An empty page has no information.
        pace.answered(at(0), QUICK, 0, 0);
        assert_eq!(pace.page_rows(), 1);
        assert_eq!(pace.wait(at(0)), Duration::ZERO);
    }

    #[test]
    fn failures_make_pauses_longer_and_pages_shorter() {
        let mut pace = Pace::new(None);
        let mut waits = Vec::new();
        for attempt in 1..=8 {
            pace.failed(at(1000), attempt, Duration::ZERO);
            waits.push(pace.wait(at(1000)).as_millis());
        }
        assert_eq!(waits, [200, 400, 800, 1600, 3200, 6400, 10_000, 10_000]);
        assert_eq!(pace.page_rows(), 3);
        pace.answered(at(20_000), QUICK, 3, 30);
        assert_eq!((pace.page_rows(), pace.wait(at(20_000))), (6, Duration::ZERO));
        pace.failed(at(20_000), 1, Duration::ZERO);
        assert_eq!(pace.wait(at(20_000)), PAUSE_FIRST);
        // A success elsewhere does not shorten the pause.
        pace.answered(at(20_000), QUICK, 3, 30);
        pace.failed(at(20_000), 5, Duration::ZERO);
        assert_eq!(pace.wait(at(20_000)), PAUSE_FIRST * 16);
        // The overloaded source's own delay wins.
        pace.failed(at(20_000), 1, Duration::from_secs(30));
        assert_eq!(pace.wait(at(20_000)), Duration::from_secs(30));
    }

    #[test]
    fn slow_source_is_used_half_of_the_time() {
        let mut pace = Pace::new(None);
        pace.answered(at(5000), SLOW, 10, 10);
        assert_eq!(pace.wait(at(5000)), Duration::ZERO);
        pace.answered(at(5000), SLOW * 3, 10, 10);
        assert_eq!(pace.wait(at(5000)), SLOW * 3);
        pace.answered(at(9000), SLOW * 60, 10, 10);
        assert_eq!(pace.wait(at(9000)), PAUSE_MAX);
    }

    #[test]
    fn row_rate_stays_below_the_limit() {
        let mut pace = Pace::new(Some(400));
        assert_eq!(pace.page_rows(), 32);
        pace.answered(at(0), QUICK, 32, 32);
        assert_eq!(pace.page_rows(), 64);
        pace.answered(at(0), QUICK, 64, 64);
        pace.answered(at(0), QUICK, 104, 104);
        assert_eq!(pace.page_rows(), 100);
        // Two hundred rows, by several readers at one moment.
        assert_eq!(pace.wait(at(0)), Duration::from_millis(500));
        // Unused budget is lost, so that there are no bursts.
        pace.answered(at(60_000), QUICK, 100, 100);
        assert_eq!(pace.wait(at(60_000)), Duration::from_millis(250));
        assert_eq!(Pace::new(Some(1)).page_rows(), 1);
    }
}
