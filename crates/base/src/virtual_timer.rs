//! Virtual time, for tests.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::{Clock, Moment, Timer, Wait, WallTime, lock};

/// A timer and clock whose time stands still until it is advanced. Clones share the time.
#[derive(Clone, Debug, Default)]
pub struct VirtualTimer(Arc<Mutex<VirtualTimerState>>);

#[derive(Debug, Default)]
struct VirtualTimerState {
    now: Moment,
    /// Pending waits, by their end and then by the order of their first polls.
    waiting: BTreeMap<(Moment, u64), Waker>,
    tickets: u64,
}

impl VirtualTimer {
    /// Returns the end of the earliest pending wait.
    #[must_use]
    pub fn next(&self) -> Option<Moment> {
        lock(&self.0).waiting.first_key_value().map(|((moment, _), _)| *moment)
    }

    /// Advances to the end of the earliest pending wait, and completes this wait alone. Returns
    /// `false` if there is none.
    pub fn advance(&self) -> bool {
        let mut state = lock(&self.0);
        let Some(((moment, _), waker)) = state.waiting.pop_first() else { return false };
        state.now = state.now.max(moment);
        drop(state);
        waker.wake();
        true
    }

    /// Advances to a moment, and completes all waits that end by then, in order.
    pub fn advance_to(&self, moment: Moment) {
        let mut state = lock(&self.0);
        let now = state.now.max(moment);
        state.now = now;
        let later = state.waiting.split_off(&(now, u64::MAX));
        let due = std::mem::replace(&mut state.waiting, later);
        drop(state);
        due.into_values().for_each(Waker::wake);
    }
}

impl Clock for VirtualTimer {
    fn now(&self) -> Moment {
        lock(&self.0).now
    }

    /// Returns virtual time since 1970.
    fn wall(&self) -> WallTime {
        let passed = Clock::now(self).0.as_micros();
        WallTime(i64::try_from(passed).unwrap_or(i64::MAX))
    }
}

impl Timer for VirtualTimer {
    fn now(&self) -> Moment {
        Clock::now(self)
    }

    fn wait(&self, wait: Duration) -> Wait {
        let until = Clock::now(self).after(wait);
        Box::pin(Waiting { timer: self.clone(), until, ticket: None })
    }
}

struct Waiting {
    timer: VirtualTimer,
    until: Moment,
    ticket: Option<u64>,
}

impl Future for Waiting {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let shared = Arc::clone(&self.timer.0);
        let mut state = lock(&shared);
        if state.now >= self.until {
            return Poll::Ready(());
        }
        let ticket = *self.ticket.get_or_insert_with(|| {
            state.tickets += 1;
            state.tickets
        });
        let before = state.waiting.insert((self.until, ticket), context.waker().clone());
        // A waker may drop its task, and with it another wait of this timer.
        drop(state);
        drop(before);
        Poll::Pending
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            let waker = lock(&self.timer.0).waiting.remove(&(self.until, ticket));
            drop(waker);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_done(wait: &mut Wait) -> bool {
        wait.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn waits_complete_in_virtual_time() {
        let timer = VirtualTimer::default();
        let mut waits = [3, 1, 2].map(|seconds| timer.wait(Duration::from_secs(seconds)));
        assert!(waits.iter_mut().all(|wait| !is_done(wait)));
        assert!(timer.advance());
        assert_eq!(waits.each_mut().map(is_done), [false, true, false]);
        timer.advance_to(Moment(Duration::from_secs(3)));
        assert_eq!(waits.each_mut().map(is_done), [true; 3]);
        assert_eq!((timer.wall(), timer.advance()), (WallTime(3_000_000), false));
    }

    #[test]
    fn dropped_waits_do_not_advance_time() {
        let timer = VirtualTimer::default();
        let mut wait = timer.wait(Duration::from_secs(1));
        assert!(!is_done(&mut wait));
        assert_eq!(timer.next(), Some(Moment(Duration::from_secs(1))));
        drop(wait);
        assert_eq!((timer.next(), timer.advance()), (None, false));
    }
}
