//! Calls of a store with slow answers.
//!
//! If a call were dropped at its timeout, a store whose answers always take longer would never
//! deliver an answer. So a call stays open while it is repeated, the first answer counts, and the
//! timeout adapts to the answer times.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use carnet_base::{Moment, Result, Timer, Wait};

/// Minimum timeout: a shorter one would only repeat calls.
const TIMEOUT_MIN: Duration = Duration::from_millis(1);

/// Estimate of a store's answer time.
///
/// Source: Jacobson and Karels, "Congestion Avoidance and Control", 1988, as in RFC 6298.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AnswerTime {
    mean: Duration,
    deviation: Duration,
}

impl AnswerTime {
    /// Records the time of one answer.
    pub(crate) fn learn(&mut self, took: Duration) {
        if self.mean.is_zero() {
            (self.mean, self.deviation) = (took, took / 2);
            return;
        }
        self.deviation = (self.deviation * 3 + took.abs_diff(self.mean)) / 4;
        self.mean = (self.mean * 7 + took) / 8;
    }

    /// Returns the time after which an answer is late: at least `min`, and at most the maximum of
    /// `min` and `max`.
    pub(crate) fn timeout(self, min: Duration, max: Duration) -> Duration {
        let min = min.max(TIMEOUT_MIN);
        (self.mean + self.deviation * 4).clamp(min, max.max(min))
    }
}

/// Open calls of one operation on a store.
pub(crate) struct Calls<'t, F> {
    timer: &'t dyn Timer,
    open: Vec<(Moment, Pin<Box<F>>)>,
}

impl<'t, T, F: Future<Output = Result<T>>> Calls<'t, F> {
    pub(crate) const fn new(timer: &'t dyn Timer) -> Self {
        Self { timer, open: Vec::new() }
    }

    pub(crate) fn start(&mut self, call: F) {
        self.open.push((self.timer.now(), Box::pin(call)));
    }

    /// Waits for the first answer and returns it with its time; `None` after the timeout. Calls
    /// stay open until they are answered.
    pub(crate) async fn first(
        &mut self,
        timeout: Option<Duration>,
    ) -> Option<(Duration, Result<T>)> {
        let timer = self.timer;
        let mut wait: Option<Wait> = None;
        poll_fn(|context| {
            for at in 0..self.open.len() {
                let (began, call) = &mut self.open[at];
                if let Poll::Ready(answer) = call.as_mut().poll(context) {
                    let took = timer.now().since(*began);
                    drop(self.open.swap_remove(at));
                    return Poll::Ready(Some((took, answer)));
                }
            }
            let Some(timeout) = timeout else { return Poll::Pending };
            let wait = wait.get_or_insert_with(|| timer.wait(timeout));
            wait.as_mut().poll(context).map(|()| None)
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLISECOND: Duration = Duration::from_millis(1);

    #[test]
    fn timeout_adapts_to_answer_times() {
        let (min, max) = (100 * MILLISECOND, 2000 * MILLISECOND);
        let mut time = AnswerTime::default();
        assert_eq!(time.timeout(min, max), min);
        time.learn(1100 * MILLISECOND);
        assert_eq!(time.timeout(min, max), max);
        (0..30).for_each(|_| time.learn(1100 * MILLISECOND));
        let settled = time.timeout(min, max);
        assert!(settled >= 1100 * MILLISECOND && settled < 1200 * MILLISECOND, "{settled:?}");
        (0..60).for_each(|_| time.learn(MILLISECOND));
        assert_eq!(time.timeout(min, max), min);
        assert_eq!(time.timeout(Duration::ZERO, Duration::ZERO), MILLISECOND);
    }
}
