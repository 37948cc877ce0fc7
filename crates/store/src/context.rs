//! What travels with every call.

use carnet_base::{Clock, Error, ErrorKind, Moment, Result};

/// What travels with every call to a store.
#[derive(Clone, Copy, Debug, Default)]
pub struct Context {
    deadline: Option<Moment>,
    bypass_cache: bool,
    accepts_stale: bool,
}

impl Context {
    /// A context without a deadline.
    #[must_use]
    pub const fn unbounded() -> Self {
        Self { deadline: None, bypass_cache: false, accepts_stale: false }
    }

    /// A context whose calls give up at a moment of the store's clock.
    #[must_use]
    pub const fn until(deadline: Moment) -> Self {
        Self { deadline: Some(deadline), bypass_cache: false, accepts_stale: false }
    }

    /// The same context, whose reads leave the store's cache as it was.
    #[must_use]
    pub const fn bypassing_cache(self) -> Self {
        Self { bypass_cache: true, ..self }
    }

    /// Tells whether reads leave the store's cache as it was.
    #[must_use]
    pub const fn bypasses_cache(&self) -> bool {
        self.bypass_cache
    }

    /// The same context, in which a transaction may begin at a snapshot that leaves out what was
    /// acknowledged a moment ago by a leader that this one does not know of yet.
    #[must_use]
    pub const fn accepting_stale(self) -> Self {
        Self { accepts_stale: true, ..self }
    }

    /// Tells whether a snapshot may leave out what was acknowledged a moment ago.
    #[must_use]
    pub const fn accepts_stale(&self) -> bool {
        self.accepts_stale
    }

    /// Returns when calls give up.
    #[must_use]
    pub const fn deadline(&self) -> Option<Moment> {
        self.deadline
    }

    /// Fails when the deadline has passed by the clock, which is asked only where there is one.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Timeout`].
    pub fn check(&self, clock: &dyn Clock) -> Result<()> {
        match self.deadline {
            Some(deadline) if clock.now() >= deadline => Err(Error::new(
                ErrorKind::Timeout,
                "the deadline passed before the call was done; nothing was written",
            )),
            _ => Ok(()),
        }
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
