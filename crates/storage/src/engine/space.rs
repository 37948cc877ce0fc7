//! Full disk: which work is retried, and when.
//!
//! Work that found no space is retried if incomplete results are harmless:
//!
//! | operation without space | state on disk | retry |
//! | --- | --- | --- |
//! | a table, in a flush or a compaction | a part of a file that no manifest names | the file is removed, and the table is written again |
//! | the manifest's next version | a part of `MANIFEST.tmp` | the old version is valid; the edit is applied again |
//! | a new segment of the log | a file without a segment's name | it is created again |
//! | records of the log | any part of them, after all acknowledged records | the same bytes are written to the same offset |
//!
//! Other errors stop the store for good: a failed sync may have lost any write, and a failed rename
//! may or may not have happened.
//!
//! While the log or a flush has no space, new writes are refused and waiting writers get an error.
//! Commits with a position in the log wait: they take effect when there is space. A compaction
//! without space refuses no writes, and does not throttle writers. Each kind of work is retried
//! after a pause that doubles from [`PAUSE_MIN`] to [`PAUSE_MAX`].

use std::time::Duration;

use carnet_base::{Error, Moment, Result};

use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Mutex, lock};

/// Pause before the first retry.
const PAUSE_MIN: Duration = Duration::from_millis(100);
/// Maximum pause between retries.
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// Work that needs space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    Log,
    Flush,
    Compaction,
}

/// Work that found no space.
#[derive(Default)]
pub(super) struct Space {
    /// Blocked work by kind.
    blocked: Mutex<[Option<Blocked>; 3]>,
    /// Whether any work is blocked; avoids the lock in the usual case.
    any: AtomicBool,
}

struct Blocked {
    cause: String,
    pause: Duration,
    retry_at: Moment,
}

impl Space {
    /// Records that work found no space; returns `true` if its previous attempt succeeded.
    pub(super) fn block(&self, work: Work, cause: &Error, now: Moment) -> bool {
        let mut blocked = lock(&self.blocked);
        let slot = &mut blocked[work as usize];
        let is_first = slot.is_none();
        let pause = slot.as_ref().map_or(PAUSE_MIN, |last| (last.pause * 2).min(PAUSE_MAX));
        *slot = Some(Blocked { cause: cause.to_string(), pause, retry_at: now.after(pause) });
        self.any.store(true, Ordering::SeqCst);
        is_first
    }

    /// Records that work found space; returns `true` if its previous attempt failed.
    pub(super) fn unblock(&self, work: Work) -> bool {
        if !self.any.load(Ordering::SeqCst) {
            return false;
        }
        let mut blocked = lock(&self.blocked);
        let had = blocked[work as usize].take().is_some();
        self.any.store(blocked.iter().any(Option::is_some), Ordering::SeqCst);
        had
    }

    /// Ends the pause of work.
    pub(super) fn retry_now(&self, work: Work) {
        if let Some(blocked) = &mut lock(&self.blocked)[work as usize] {
            blocked.retry_at = Moment(Duration::ZERO);
        }
    }

    /// Returns `true` if the last attempt of work found no space.
    pub(super) fn is_blocked(&self, work: Work) -> bool {
        self.any.load(Ordering::SeqCst) && lock(&self.blocked)[work as usize].is_some()
    }

    /// Returns the remaining pause of work; `None` if it may be tried now.
    pub(super) fn pause(&self, work: Work, now: Moment) -> Option<Duration> {
        if !self.any.load(Ordering::SeqCst) {
            return None;
        }
        let blocked = lock(&self.blocked);
        let rest = blocked[work as usize].as_ref()?.retry_at.since(now);
        (rest > Duration::ZERO).then_some(rest)
    }

    /// Checks that the log has space.
    ///
    /// # Errors
    ///
    /// `Unavailable`, with the cause.
    pub(super) fn check_log(&self) -> Result<()> {
        if self.is_blocked(Work::Log) { self.check() } else { Ok(()) }
    }

    /// Checks that writes are accepted.
    ///
    /// # Errors
    ///
    /// `Unavailable`, with the cause.
    pub(super) fn check(&self) -> Result<()> {
        if !self.any.load(Ordering::SeqCst) {
            return Ok(());
        }
        let blocked = lock(&self.blocked);
        let refuses = [Work::Log, Work::Flush].map(|work| blocked[work as usize].as_ref());
        match refuses.into_iter().flatten().next() {
            None => Ok(()),
            Some(Blocked { cause, .. }) => Err(Error::unavailable(format!(
                "the disk is full ({cause}); reads go on, and writes resume once there is space"
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_limit() {
        let (space, error) = (Space::default(), Error::unavailable("no space"));
        let mut now = Moment(Duration::ZERO);
        let mut pauses = Vec::new();
        for round in 0..8 {
            assert_eq!(space.block(Work::Flush, &error, now), round == 0);
            let pause = space.pause(Work::Flush, now).unwrap();
            pauses.push(pause.as_millis());
            now = now.after(pause);
            assert_eq!(space.pause(Work::Flush, now), None);
        }
        assert_eq!(pauses, [100, 200, 400, 800, 1600, 3200, 5000, 5000]);
        assert!(space.check().is_err() && !space.is_blocked(Work::Log));
        assert!(space.unblock(Work::Flush) && !space.unblock(Work::Flush));
        space.block(Work::Compaction, &error, now);
        assert!(space.check().is_ok(), "a compaction without space refuses no write");
    }
}
