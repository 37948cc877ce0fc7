//! Timer of a connection.

use std::future;
use std::pin::Pin;
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

/// Deadline of a timer that is not set yet.
const UNSET: Duration = Duration::from_secs(3600);

/// Timer that serves all deadlines of a connection.
///
/// Deadlines mostly move to later times, by each request and each answer. The timer stays where it
/// is then, fires early, and is set anew by the connection's next turn.
pub(super) struct Alarm(Pin<Box<Sleep>>);

impl Alarm {
    pub(super) fn new() -> Self {
        Self(Box::pin(sleep_until(Instant::now() + UNSET)))
    }

    /// Waits until a deadline or an earlier one passes; forever if there is none.
    pub(super) async fn passed(&mut self, deadline: Option<Instant>) {
        let Some(deadline) = deadline else { return future::pending().await };
        if self.0.is_elapsed() || deadline < self.0.deadline() {
            self.0.as_mut().reset(deadline);
        }
        self.0.as_mut().await;
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll, Waker};

    use super::*;

    const STEP: Duration = Duration::from_millis(20);

    #[tokio::test]
    async fn earlier_deadline_sets_the_timer() {
        let (mut alarm, start) = (Alarm::new(), Instant::now());
        for steps in [1, 2] {
            alarm.passed(Some(start + steps * STEP)).await;
            let passed = start.elapsed();
            assert!(passed >= steps * STEP && passed < UNSET / 2, "{passed:?}");
        }
    }

    #[tokio::test]
    async fn later_deadline_leaves_the_timer() {
        let (mut alarm, start) = (Alarm::new(), Instant::now());
        let far = start + UNSET / 2;
        for deadline in [start + STEP, far] {
            let mut waits = std::pin::pin!(alarm.passed(Some(deadline)));
            let polled = waits.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            assert_eq!(polled, Poll::Pending);
        }
        alarm.passed(Some(far)).await;
        assert!(start.elapsed() < UNSET / 2, "the timer of the first deadline");
        alarm.passed(Some(start + 2 * STEP)).await;
        assert!(start.elapsed() >= 2 * STEP, "it is set anew");
    }
}
