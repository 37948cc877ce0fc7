//! Shortages: errors that pass without damage, and can be retried.
//!
//! | error | shortage |
//! | --- | --- |
//! | `ENOSPC`, `EDQUOT` | space |
//! | `EMFILE`, `ENFILE` | file descriptors |
//! | `ENOMEM` | memory |
//! | `EINTR`, `EAGAIN` | the call was interrupted, or had to wait |
//!
//! The system refuses such an operation before it has an effect, with three exceptions:
//!
//! * A write may have written a part. It is repeated with the same bytes, or its file is given up.
//! * A sync may have lost writes if there was no space or memory ([`Shortage::loses_writes`]). The
//!   bytes are written again, or the file is given up.
//! * A rename is checked afterwards ([`rename`]), because some network file systems repeat requests.
//!
//! Every other error means damage, or leaves an unknown state: it stops the store.

use std::io;
use std::time::Duration;

use carnet_base::Signal;
use rustix::io::Errno;

use super::directory::Disk;

/// Pauses of [`retried`] before its attempts; the last one is repeated.
const PAUSE_MIN: Duration = Duration::from_millis(1);
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// Number of attempts of [`retried`], about ten minutes: an operator can end the shortage meanwhile.
const ATTEMPTS: u32 = 600;
/// Number of attempts for each line of the log.
const LOGGED_ATTEMPTS: u32 = 30;

/// Resource whose absence made an operation fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shortage {
    /// Space on the disk.
    Space,
    /// File descriptors of the process or the system.
    Descriptors,
    /// Memory of the system.
    Memory,
    /// Time: the call was interrupted, or would have had to wait.
    Interrupted,
}

impl Shortage {
    /// Returns the shortage that an error reports; `None` if the error does not pass.
    pub(crate) fn of(error: &io::Error) -> Option<Self> {
        let number = error.raw_os_error();
        if [Errno::MFILE, Errno::NFILE].iter().any(|of| number == Some(of.raw_os_error())) {
            return Some(Self::Descriptors);
        }
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Some(Self::Space),
            io::ErrorKind::OutOfMemory => Some(Self::Memory),
            io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock => Some(Self::Interrupted),
            _ => None,
        }
    }

    /// Returns `true` if a sync with this error may have lost writes.
    pub(crate) const fn loses_writes(self) -> bool {
        matches!(self, Self::Space | Self::Memory)
    }

    /// Returns what to do about it, as the end of a sentence.
    pub(crate) const fn advice(self) -> &'static str {
        match self {
            Self::Space => "; free some space",
            Self::Descriptors => {
                "; raise the limit of open files (`ulimit -n`), or close connections"
            }
            Self::Memory => "; free some memory of the machine",
            Self::Interrupted => "",
        }
    }
}

/// Repeats an operation that must not be left undone, for as long as its error may pass. The error of the
/// last attempt does not count as passing, because the caller does not know the state of the disk.
pub(crate) fn retried<T>(operation: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    retried_after(operation, |pause| {
        Signal::new().wait(Some(pause));
    })
}

fn retried_after<T>(
    mut operation: impl FnMut() -> io::Result<T>,
    mut wait: impl FnMut(Duration),
) -> io::Result<T> {
    let mut pause = PAUSE_MIN;
    for attempt in 1..ATTEMPTS {
        match operation() {
            Err(error) if Shortage::of(&error).is_some() => {
                if attempt % LOGGED_ATTEMPTS == 1 {
                    tracing::warn!(%error, attempt, "a file operation is retried");
                }
                wait(pause);
                pause = (2 * pause).min(PAUSE_MAX);
            }
            other => return other,
        }
    }
    operation().map_err(io::Error::other)
}

/// Renames a file. After an error that passes, the old name exists and the new one is unchanged.
pub(crate) fn rename(disk: &dyn Disk, from: &str, to: &str) -> io::Result<()> {
    let renamed = disk.rename(from, to);
    match renamed {
        Err(error) if Shortage::of(&error).is_some() => {
            if retried(|| disk.exists(from))? {
                Err(error)
            } else {
                Ok(())
            }
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::sim::{Kind, SimDisk};

    #[test]
    fn passing_errors_are_told_from_damage() {
        for (errno, shortage) in [
            (Errno::NOSPC, Some(Shortage::Space)),
            (Errno::DQUOT, Some(Shortage::Space)),
            (Errno::MFILE, Some(Shortage::Descriptors)),
            (Errno::NFILE, Some(Shortage::Descriptors)),
            (Errno::NOMEM, Some(Shortage::Memory)),
            (Errno::INTR, Some(Shortage::Interrupted)),
            (Errno::AGAIN, Some(Shortage::Interrupted)),
            (Errno::IO, None),
            (Errno::ROFS, None),
            (Errno::NOENT, None),
            (Errno::ACCESS, None),
        ] {
            assert_eq!(Shortage::of(&errno.into()), shortage, "{errno:?}");
        }
    }

    #[test]
    fn retried_operation_gives_up_with_damage() {
        let mut calls = 0;
        let done = retried(|| {
            calls += 1;
            if calls < 4 { Err(Errno::AGAIN.into()) } else { Ok(calls) }
        });
        assert_eq!(done.unwrap(), 4);
        let refused = retried(|| Err::<(), _>(io::Error::from(Errno::IO))).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(Errno::IO.raw_os_error()));
    }

    /// A shortage that an operator ends within minutes does not count as damage.
    #[test]
    fn retried_operation_gives_up_after_ten_minutes() {
        let mut waited = Duration::ZERO;
        let full = || Err::<(), _>(io::Error::from(Errno::NOSPC));
        let refused = retried_after(full, |pause| waited += pause).unwrap_err();
        assert_eq!(Shortage::of(&refused), None);
        assert_eq!(waited.as_secs() / 60, 9, "{waited:?}");
    }

    /// A failed rename of the simulated disk may have happened.
    #[test]
    fn failed_rename_is_known_to_have_happened_or_not() {
        let (mut happened, mut refused) = (0, 0);
        for seed in 0..20 {
            let disk = SimDisk::new(seed);
            disk.create("a").unwrap();
            disk.fail_nth(Kind::Rename, 1, Errno::NOSPC);
            let renamed = rename(&disk, "a", "b");
            assert_eq!(disk.contents("b").is_some(), renamed.is_ok());
            assert_eq!(disk.contents("a").is_some(), renamed.is_err());
            if renamed.is_ok() { happened += 1 } else { refused += 1 }
        }
        assert!(happened > 0 && refused > 0);
    }
}
