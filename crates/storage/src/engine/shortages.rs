//! Shortages: which work is retried after an error that passes, and when.
//!
//! Work that found no space, no file descriptors or no memory, or that was interrupted, is retried
//! if incomplete results are harmless (see [`disk`](crate::disk)'s classes of errors):
//!
//! | operation | state on disk after the error | retry |
//! | --- | --- | --- |
//! | a table, in a flush or a compaction | a part of a file that no manifest names | the file is removed, and the table is written again |
//! | a read of a compaction's input | unchanged | the compaction is started again |
//! | the manifest's next version | a part of `MANIFEST.tmp`; the old version is valid | the edit is applied again |
//! | the sync of the directory after the manifest's rename | old or new version | at once, in [`retried`](crate::disk), up to a limit |
//! | a new segment of the log | a file without a segment's name, or an empty segment | it is created again |
//! | records of the log | any part of them, after all acknowledged records | the same bytes are written to the same offset |
//! | a sync of the log that lost no writes | unchanged | it is repeated |
//! | a sync of the log that may have lost writes | any part of the unsynced records | they are written and synced again, if the setting keeps them ([`Durability::Always`](crate::Durability::Always)) |
//!
//! All other errors stop the store for good: a failed sync may have lost any write, a failed rename
//! may or may not have happened, and a device with errors is not to be written.
//!
//! Commits with a position in the log wait: they take effect when the shortage ends. New writes are
//! refused, and waiting writers get an error, if the log or a flush has no space. Other shortages
//! often pass within milliseconds, so they refuse writes only when [`REFUSING_PAUSE`] is reached. A
//! compaction refuses no writes, and does not throttle writers meanwhile. Each kind of work is
//! retried after a pause that doubles up to [`PAUSE_MAX`].

use std::time::Duration;

use carnet_base::{Error, Moment, Result};

use crate::disk::Shortage;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Mutex, lock};

/// Pause before the first retry of work that found no space.
const SPACE_PAUSE_MIN: Duration = Duration::from_millis(100);
/// Pause before the first retry of other work.
const PAUSE_MIN: Duration = Duration::from_millis(10);
/// Maximum pause between retries.
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// Pause from which on writes are refused, about a second after the first attempt.
const REFUSING_PAUSE: Duration = Duration::from_millis(640);

/// Work that is retried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// Writes of the log.
    Log,
    /// Syncs of the log.
    Sync,
    Flush,
    Compaction,
}

/// Work without which there are no commits.
const NEEDED: [Work; 3] = [Work::Log, Work::Sync, Work::Flush];

/// Work that waits for the end of a shortage.
#[derive(Default)]
pub(super) struct Shortages {
    /// Blocked work by kind.
    blocked: Mutex<[Option<Blocked>; 4]>,
    /// Whether any work is blocked; avoids the lock in the usual case.
    any: AtomicBool,
}

struct Blocked {
    shortage: Shortage,
    cause: String,
    pause: Duration,
    retry_at: Moment,
}

impl Blocked {
    fn refuses(&self) -> bool {
        self.shortage == Shortage::Space || self.pause >= REFUSING_PAUSE
    }

    fn error(&self) -> Error {
        let Self { shortage, cause, .. } = self;
        let what = match shortage {
            Shortage::Space => "the disk is full",
            Shortage::Descriptors => "there are no free file descriptors",
            Shortage::Memory => "the system has no free memory",
            Shortage::Interrupted => "file operations are interrupted",
        };
        Error::unavailable(format!(
            "{what} ({cause}); reads go on, and writes resume once this has ended"
        ))
    }
}

/// Effect of an attempt that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Block {
    /// The previous attempt succeeded.
    pub(super) is_first: bool,
    /// From now on writes are refused.
    pub(super) refuses_now: bool,
}

impl Shortages {
    /// Records that work failed because of a shortage.
    pub(super) fn block(
        &self,
        work: Work,
        shortage: Shortage,
        cause: &Error,
        now: Moment,
    ) -> Block {
        let mut blocked = lock(&self.blocked);
        let slot = &mut blocked[work as usize];
        let pause_min = if shortage == Shortage::Space { SPACE_PAUSE_MIN } else { PAUSE_MIN };
        let pause = slot.as_ref().map_or(pause_min, |last| (last.pause * 2).min(PAUSE_MAX));
        let next =
            Blocked { shortage, cause: cause.to_string(), pause, retry_at: now.after(pause) };
        let refused = slot.as_ref().is_some_and(Blocked::refuses);
        let refuses_now = next.refuses() && !refused && NEEDED.contains(&work);
        let is_first = slot.replace(next).is_none();
        self.any.store(true, Ordering::SeqCst);
        Block { is_first, refuses_now }
    }

    /// Records that work succeeded; returns `true` if its previous attempt failed.
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

    /// Returns `true` if the last attempt of work failed.
    pub(super) fn is_blocked(&self, work: Work) -> bool {
        self.with(work, |_| ()).is_some()
    }

    /// Returns the remaining pause of work; `None` if it may be tried now.
    pub(super) fn pause(&self, work: Work, now: Moment) -> Option<Duration> {
        let rest = self.with(work, |blocked| blocked.retry_at.since(now))?;
        (rest > Duration::ZERO).then_some(rest)
    }

    /// Returns the pause of blocked work that does not refuse writes yet.
    pub(super) fn grace(&self, work: Work) -> Option<Duration> {
        self.with(work, |blocked| (!blocked.refuses()).then_some(blocked.pause))?
    }

    /// Checks that the last attempt of work succeeded.
    ///
    /// # Errors
    ///
    /// `Unavailable`, with the cause.
    pub(super) fn check_work(&self, work: Work) -> Result<()> {
        self.with(work, Blocked::error).map_or(Ok(()), Err)
    }

    /// Checks that writes are accepted.
    ///
    /// # Errors
    ///
    /// `Unavailable`, with the cause.
    pub(super) fn check(&self) -> Result<()> {
        let refusing = |work| self.with(work, |blocked| blocked.refuses().then(|| blocked.error()));
        NEEDED.into_iter().find_map(|work| refusing(work).flatten()).map_or(Ok(()), Err)
    }

    /// Returns `true` if writes are refused because of a shortage.
    pub(super) fn refuses_for(&self, is_meant: impl Fn(Shortage) -> bool) -> bool {
        let refusing = |blocked: &Blocked| blocked.refuses() && is_meant(blocked.shortage);
        NEEDED.into_iter().any(|work| self.with(work, refusing).unwrap_or(false))
    }

    fn with<T>(&self, work: Work, get: impl FnOnce(&Blocked) -> T) -> Option<T> {
        if !self.any.load(Ordering::SeqCst) {
            return None;
        }
        lock(&self.blocked)[work as usize].as_ref().map(get)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pauses(shortage: Shortage, rounds: usize) -> (Shortages, Vec<u128>, Vec<bool>) {
        let (shortages, error) = (Shortages::default(), Error::unavailable("refused"));
        let mut now = Moment(Duration::ZERO);
        let (mut pauses, mut refuses) = (Vec::new(), Vec::new());
        for round in 0..rounds {
            let block = shortages.block(Work::Flush, shortage, &error, now);
            assert_eq!(block.is_first, round == 0);
            let pause = shortages.pause(Work::Flush, now).unwrap();
            pauses.push(pause.as_millis());
            refuses.push(shortages.check().is_err());
            assert_eq!(shortages.grace(Work::Flush).is_none(), shortages.check().is_err());
            now = now.after(pause);
            assert_eq!(shortages.pause(Work::Flush, now), None);
        }
        (shortages, pauses, refuses)
    }

    #[test]
    fn pauses_double_up_to_a_limit() {
        let (shortages, pauses, refuses) = pauses(Shortage::Space, 8);
        assert_eq!(pauses, [100, 200, 400, 800, 1600, 3200, 5000, 5000]);
        assert!(refuses.iter().all(|refuses| *refuses), "a full disk refuses writes at once");
        assert!(!shortages.is_blocked(Work::Log));
        assert!(shortages.unblock(Work::Flush) && !shortages.unblock(Work::Flush));
        let error = Error::unavailable("refused");
        shortages.block(Work::Compaction, Shortage::Space, &error, Moment(Duration::ZERO));
        assert!(shortages.check().is_ok(), "a compaction without space refuses no write");
    }

    #[test]
    fn short_shortage_refuses_no_write() {
        let (shortages, pauses, refuses) = pauses(Shortage::Descriptors, 8);
        assert_eq!(pauses, [10, 20, 40, 80, 160, 320, 640, 1280]);
        assert_eq!(refuses.iter().filter(|refuses| !**refuses).count(), 6);
        let text = shortages.check().unwrap_err().to_string();
        assert!(text.contains("no free file descriptors (refused)"), "{text}");
    }
}
