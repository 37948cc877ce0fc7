//! File descriptors of the process: a part is reserved for the files of the database.
//!
//! The system gives each new file the lowest free number. So the number of an accepted connection
//! tells how many descriptors are in use, without counting them.

use std::os::fd::RawFd;

use rustix::process::{Resource, getrlimit};

/// Limits of the reserve.
const RESERVE_MIN: u64 = 32;
const RESERVE_MAX: u64 = 1024;

/// Share of the descriptors that connections may use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Descriptors {
    /// Limit of the process.
    limit: u64,
    /// Connections with this number or a greater one are refused.
    reserved_from: u64,
}

impl Descriptors {
    /// Reads the limit of this process.
    pub(crate) fn of_process() -> Self {
        Self::with_limit(getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX))
    }

    /// Reserves a quarter, within limits, for the log, for new tables, and for the inputs of
    /// compactions.
    fn with_limit(limit: u64) -> Self {
        let reserve = (limit / 4).clamp(RESERVE_MIN, RESERVE_MAX).min(limit / 2);
        Self { limit, reserved_from: limit - reserve }
    }

    /// Returns the limit of the process.
    pub(crate) const fn limit(self) -> u64 {
        self.limit
    }

    /// Returns `true` if a new connection with this descriptor leaves the reserve free.
    pub(crate) fn leaves_reserve(self, descriptor: RawFd) -> bool {
        u64::try_from(descriptor).is_ok_and(|number| number < self.reserved_from)
    }

    /// Returns how many connections fit, if the newest descriptor of the process is this one.
    pub(crate) fn room(self, newest: RawFd) -> usize {
        let used = u64::try_from(newest).map_or(0, |number| number + 1);
        usize::try_from(self.reserved_from.saturating_sub(used)).unwrap_or(usize::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserve_is_a_quarter_within_limits() {
        for (limit, reserved_from) in [
            (16, 8),
            (128, 96),
            (1024, 768),
            (1 << 20, (1 << 20) - 1024),
            (u64::MAX, u64::MAX - 1024),
        ] {
            let descriptors = Descriptors::with_limit(limit);
            assert_eq!(descriptors.reserved_from, reserved_from, "{limit}");
        }
        let descriptors = Descriptors::with_limit(1024);
        assert!(descriptors.leaves_reserve(767) && !descriptors.leaves_reserve(768));
        assert_eq!(
            (descriptors.room(67), descriptors.room(767), descriptors.room(900)),
            (700, 0, 0)
        );
    }
}
