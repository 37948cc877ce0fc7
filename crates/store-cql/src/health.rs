//! Whether the cluster answers: a pure record of the ends of requests.

use std::time::Duration;

use carnet_base::Moment;

/// Time without any success after which the cluster counts as away.
const AWAY_AFTER: Duration = Duration::from_secs(5);

/// Time after which a failure tells nothing about the present.
const STALE_AFTER: Duration = Duration::from_secs(15);

/// Failures since the last success.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Health {
    failing: Option<Failing>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Failing {
    since: Moment,
    last: Moment,
    count: u64,
    why: String,
}

/// A cluster that answers nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Away {
    /// Time since the first failure after the last success.
    pub(crate) time: Duration,
    pub(crate) failures: u64,
    /// The last failure.
    pub(crate) why: String,
}

impl Health {
    /// Records a request that the cluster carried out, or refused as wrong.
    pub(crate) fn answered(&mut self) {
        self.failing = None;
    }

    /// Records a request that had no answer, or that too few replicas took.
    pub(crate) fn failed(&mut self, now: Moment, why: &dyn std::fmt::Display) {
        let why = why.to_string();
        match &mut self.failing {
            Some(failing) => {
                failing.last = now;
                failing.count += 1;
                failing.why = why;
            }
            None => self.failing = Some(Failing { since: now, last: now, count: 1, why }),
        }
    }

    /// Returns why the cluster counts as away, if it does.
    pub(crate) fn away(&self, now: Moment) -> Option<Away> {
        let Failing { since, last, count, why } = self.failing.as_ref()?;
        let time = now.since(*since);
        let is_away = time >= AWAY_AFTER && now.since(*last) < STALE_AFTER;
        is_away.then(|| Away { time, failures: *count, why: why.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Moment {
        Moment(Duration::from_secs(seconds))
    }

    #[test]
    fn cluster_is_away_after_failures_without_a_success() {
        let mut health = Health::default();
        assert_eq!(health.away(at(100)), None);
        health.failed(at(10), &"one");
        assert_eq!(health.away(at(12)), None, "one failure soon after a success");
        health.failed(at(16), &"two");
        let away = health.away(at(17)).unwrap();
        assert_eq!((away.time, away.failures, &*away.why), (Duration::from_secs(7), 2, "two"));
        // No request was sent since: it may be back.
        assert_eq!(health.away(at(40)), None);
        health.failed(at(41), &"three");
        assert!(health.away(at(42)).is_some());
        health.answered();
        assert!(health.away(at(43)).is_none());
    }
}
