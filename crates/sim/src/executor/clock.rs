//! Timers and clocks of virtual time.

use std::future::poll_fn;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::Duration;

use carnet_base::sync::lock;
use carnet_base::{Clock, Moment, Timer, Wait, WallTime};

/// Wall time at the begin of virtual time: 2020-09-13 12:26:40 UTC.
const EPOCH_MICROS: i64 = 1_600_000_000_000_000;

/// A timer of virtual time.
#[derive(Clone)]
pub struct SimTimer {
    pub(super) nanos: Arc<AtomicU64>,
    pub(super) sleepers: Arc<Mutex<Vec<(u64, Waker)>>>,
}

impl Timer for SimTimer {
    fn now(&self) -> Moment {
        Moment(Duration::from_nanos(self.nanos.load(Ordering::Relaxed)))
    }

    fn wait(&self, wait: Duration) -> Wait {
        let this = self.clone();
        let until = this.nanos.load(Ordering::Relaxed).saturating_add(nanos(wait));
        let mut is_set = false;
        Box::pin(poll_fn(move |context| {
            if this.nanos.load(Ordering::Relaxed) >= until {
                return Poll::Ready(());
            }
            // The machine polls a task only after it was woken, always with the same waker.
            if !std::mem::replace(&mut is_set, true) {
                lock(&this.sleepers).push((until, context.waker().clone()));
            }
            Poll::Pending
        }))
    }
}

/// A clock of virtual time.
#[derive(Clone)]
pub struct SimClock {
    pub(super) nanos: Arc<AtomicU64>,
    pub(super) jumped_micros: Arc<AtomicI64>,
}

impl SimClock {
    /// Sets the wall clock forward or back.
    pub fn jump(&self, micros: i64) {
        self.jumped_micros.fetch_add(micros, Ordering::Relaxed);
    }
}

impl Clock for SimClock {
    fn now(&self) -> Moment {
        Moment(Duration::from_nanos(self.nanos.load(Ordering::Relaxed)))
    }

    fn wall(&self) -> WallTime {
        let passed = i64::try_from(self.nanos.load(Ordering::Relaxed) / 1_000).unwrap_or(i64::MAX);
        let jumped = self.jumped_micros.load(Ordering::Relaxed);
        WallTime(EPOCH_MICROS.saturating_add(passed).saturating_add(jumped))
    }
}

pub(super) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
