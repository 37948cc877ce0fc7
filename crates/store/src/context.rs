//! Options of a call to a store.

use carnet_base::{Clock, Error, ErrorKind, Moment, Result};

/// Options that every call to a store carries.
#[derive(Clone, Copy, Debug, Default)]
pub struct Context {
    deadline: Option<Moment>,
    bypass_cache: bool,
    accepts_stale: bool,
}

impl Context {
    /// Creates a context without a deadline.
    #[must_use]
    pub const fn unbounded() -> Self {
        Self { deadline: None, bypass_cache: false, accepts_stale: false }
    }

    /// Creates a context with a deadline on the store's clock.
    #[must_use]
    pub const fn until(deadline: Moment) -> Self {
        Self { deadline: Some(deadline), bypass_cache: false, accepts_stale: false }
    }

    /// Returns the context with reads that do not change the store's cache.
    #[must_use]
    pub const fn bypassing_cache(self) -> Self {
        Self { bypass_cache: true, ..self }
    }

    /// Returns `true` if reads do not change the store's cache.
    #[must_use]
    pub const fn bypasses_cache(&self) -> bool {
        self.bypass_cache
    }

    /// Returns the context with stale begins allowed. A transaction may then begin at a snapshot
    /// without the latest commits that another, still unknown leader acknowledged.
    #[must_use]
    pub const fn accepting_stale(self) -> Self {
        Self { accepts_stale: true, ..self }
    }

    /// Returns `true` if a snapshot may lack the latest acknowledged commits.
    #[must_use]
    pub const fn accepts_stale(&self) -> bool {
        self.accepts_stale
    }

    /// Returns the deadline of calls.
    #[must_use]
    pub const fn deadline(&self) -> Option<Moment> {
        self.deadline
    }

    /// Fails if the deadline has passed. The clock is read only if there is a deadline.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Timeout`].
    pub fn check(&self, clock: &dyn Clock) -> Result<()> {
        match self.deadline {
            Some(deadline) if clock.now() >= deadline => Err(Self::passed()),
            _ => Ok(()),
        }
    }

    /// Returns the error of a call whose deadline passed before it wrote anything.
    #[must_use]
    pub fn passed() -> Error {
        const WHY: &str = "the deadline passed before the call was done; nothing was written";
        Error::new(ErrorKind::Timeout, WHY)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use carnet_base::WallTime;

    use super::*;

    struct Stopped(Moment);

    impl Clock for Stopped {
        fn now(&self) -> Moment {
            self.0
        }

        fn wall(&self) -> WallTime {
            WallTime::default()
        }
    }

    #[test]
    fn a_deadline_is_reached_at_its_moment() {
        let at = |ms| Moment(Duration::from_millis(ms));
        let clock = |ms| Stopped(at(ms));
        let context = Context::until(at(5));
        assert!(context.check(&clock(4)).is_ok());
        let late = context.check(&clock(5)).expect_err("the deadline is now");
        assert_eq!(late.kind(), ErrorKind::Timeout);
        assert!(Context::unbounded().check(&clock(u64::MAX)).is_ok());
    }
}
