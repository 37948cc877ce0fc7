//! Leader election: the state machine of one process, without I/O or a clock.
//!
//! ```text
//!             another's, renewed in time
//!            ┌───────┐
//!   watching ◀───────┘
//!      │ no owner, released, or not renewed within the timeout
//!      ▼
//!   taking    compare-and-set: epoch + 1, bound raised       lost ──▶ watching
//!      ▼
//!   fencing   every row from fence_from to the bound         a later epoch ──▶ watching
//!      ▼
//!   recording compare-and-set: fence_from = first            lost ──▶ watching
//!      ▼
//!   leading ◀──▶ renewing (and raising the bound, whose new rows are fenced before its use)
//!      │ lost, or a later epoch found anywhere
//!      ▼
//!   step down ──▶ watching
//! ```
//!
//! Safety depends on no clock: time decides only when to try. A leader that sleeps for an hour
//! wakes to fenced rows and to a lease that another process owns. `fence_from` moves only after
//! every row is raised. If a leader dies in between, the next one starts fencing where the dead one
//! had to start.
//!
//! If the answer to a compare-and-set is lost, a SERIAL read settles it: the lease is the new
//! value, the expected one (then the same write is tried again), or another process's. No value of
//! the lease ever recurs, so the three cases cannot be confused.

use std::time::Duration;

use carnet_base::{Epoch, Moment, Timestamp, WallTime};

use crate::lease::{Lease, Owner};

/// Timing of the election, and the step by which bounds are raised.
#[derive(Clone, Copy, Debug)]
pub struct LeaseOptions {
    /// Interval at which a leader renews its lease, and at which candidates read it.
    pub renew_every: Duration,
    /// Time without a renewal after which the lease may be taken. Use several times `renew_every`:
    /// a shorter timeout costs only changes of leader.
    pub timeout: Duration,
    /// Delay before the next try after a failed call.
    pub retry_after: Duration,
    /// Number of timestamps that one write of the lease reserves.
    pub bound_step: u64,
}

impl Default for LeaseOptions {
    fn default() -> Self {
        Self {
            renew_every: Duration::from_millis(250),
            timeout: Duration::from_secs(1),
            retry_after: Duration::from_millis(20),
            bound_step: 10_000_000,
        }
    }
}

/// State of a leader that its next renewal stores in the lease.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Standing {
    /// No start below this one will be written to the commit table any more.
    pub(crate) fence_from: Timestamp,
    pub(crate) latest: Timestamp,
    pub(crate) wall: WallTime,
    /// Number of timestamps left below the bound.
    pub(crate) headroom: u64,
}

/// An event for the state machine.
#[derive(Clone, Debug)]
pub(crate) enum Input {
    /// The lease was read.
    Lease(Option<Lease>),
    /// The lease was set.
    Set,
    /// The lease had another value.
    NotSet(Option<Lease>),
    /// The result of setting the lease is unknown.
    Unsure,
    /// Rows were fenced.
    Fenced,
    /// A later epoch was found.
    Superseded,
    /// The requested action failed.
    Failed,
    /// The requested action succeeded, or a wait is over. A leader passes its standing.
    Next(Option<Standing>),
    /// The process shuts down.
    Release,
}

/// The action that the driver has to take next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Read,
    Set { expected: Option<Lease>, new: Lease },
    Fence { epoch: Epoch, from: Timestamp, to: Timestamp },
    Serve(Term),
    Extend(Timestamp),
    StepDown,
    Wait(Duration),
    Stop,
}

/// The term of a leader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Term {
    pub(crate) epoch: Epoch,
    pub(crate) nonce: u64,
    /// First timestamp of the term. It is consumed.
    pub(crate) first: Timestamp,
    pub(crate) bound: Timestamp,
}

/// State machine of one process in the election.
#[derive(Debug)]
pub(crate) struct Candidate {
    owner: Owner,
    options: LeaseOptions,
    state: CandidateState,
}

#[derive(Clone, Debug)]
enum CandidateState {
    Watching { seen: Option<(Lease, Moment)> },
    Setting { expected: Option<Lease>, new: Lease, then: Then },
    Fencing { lease: Lease, first: Timestamp, from: Timestamp, is_serving: bool },
    Leading { lease: Lease, first: Timestamp, renewed: Moment },
    Stopped,
}

/// The step that follows once the lease is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    Fence { first: Timestamp },
    Serve { first: Timestamp },
    Go { first: Timestamp, old_bound: Timestamp },
    Stop,
}

/// The first timestamp of a database.
const FIRST: Timestamp = match Timestamp::new(1) {
    Some(first) => first,
    None => Timestamp::ZERO,
};

impl Candidate {
    pub(crate) const fn new(owner: Owner, options: LeaseOptions) -> Self {
        Self { owner, options, state: CandidateState::Watching { seen: None } }
    }

    /// Returns the lease as last seen, unless this process owns it.
    pub(crate) fn others(&self) -> Option<&Lease> {
        match &self.state {
            CandidateState::Watching { seen: Some((lease, _)) } if lease.owner != self.owner => {
                Some(lease)
            }
            _ => None,
        }
    }

    pub(crate) fn step(&mut self, input: Input, now: Moment) -> Action {
        if matches!(input, Input::Release) {
            return self.release();
        }
        match std::mem::replace(&mut self.state, CandidateState::Stopped) {
            CandidateState::Watching { seen } => self.watch(seen, input, now),
            CandidateState::Setting { expected, new, then } => {
                self.set(expected, new, then, input, now)
            }
            CandidateState::Fencing { lease, first, from, is_serving } => {
                self.fence(lease, first, from, is_serving, &input, now)
            }
            CandidateState::Leading { lease, first, renewed } => {
                self.lead(lease, first, renewed, &input, now)
            }
            CandidateState::Stopped => Action::Stop,
        }
    }

    fn watch(&mut self, seen: Option<(Lease, Moment)>, input: Input, now: Moment) -> Action {
        let lease = match input {
            Input::Lease(lease) | Input::NotSet(lease) => lease,
            Input::Failed | Input::Unsure => {
                self.state = CandidateState::Watching { seen };
                return Action::Wait(self.options.retry_after);
            }
            _ => {
                self.state = CandidateState::Watching { seen };
                return Action::Read;
            }
        };
        let Some(lease) = lease else { return self.take(None, now) };
        let since = match seen {
            Some((before, since)) if before == lease => since,
            _ => now,
        };
        let is_silent = now.since(since) >= self.options.timeout;
        // A half-restored database must not be served, however long the restore takes.
        if !lease.is_restoring && (lease.released || is_silent) {
            return self.take(Some(lease), now);
        }
        self.state = CandidateState::Watching { seen: Some((lease, since)) };
        Action::Wait(self.options.renew_every)
    }

    /// Takes a lease that has no owner, or that its owner no longer renews.
    fn take(&mut self, expected: Option<Lease>, now: Moment) -> Action {
        let first = expected.as_ref().map_or(FIRST, |old| old.bound);
        let Some(bound) = first.checked_add(self.options.bound_step) else {
            tracing::error!("the database has used up its 2⁶³ timestamps; export and import it");
            self.state = CandidateState::Watching { seen: expected.map(|lease| (lease, now)) };
            return Action::Wait(self.options.timeout);
        };
        let new = Lease {
            epoch: Epoch(expected.as_ref().map_or(1, |old| old.epoch.0 + 1)),
            renewal: 0,
            bound,
            fence_from: expected.as_ref().map_or(first, |old| old.fence_from),
            wall: expected.as_ref().map_or((Timestamp::ZERO, WallTime(i64::MIN)), |old| old.wall),
            released: false,
            is_restoring: false,
            owner: self.owner.clone(),
        };
        self.setting(expected, new, Then::Fence { first })
    }

    fn setting(&mut self, expected: Option<Lease>, new: Lease, then: Then) -> Action {
        let action = Action::Set { expected: expected.clone(), new: new.clone() };
        self.state = CandidateState::Setting { expected, new, then };
        action
    }

    fn set(
        &mut self,
        expected: Option<Lease>,
        new: Lease,
        then: Then,
        input: Input,
        now: Moment,
    ) -> Action {
        match input {
            Input::Set => self.is_set(new, then, now),
            Input::Lease(Some(lease)) if lease == new => self.is_set(new, then, now),
            Input::Lease(lease) if lease == expected => self.setting(expected, new, then),
            Input::Lease(lease) | Input::NotSet(lease) => {
                // The lease may be this process's own, set by a try whose answer was lost.
                if lease.as_ref() == Some(&new) {
                    return self.is_set(new, then, now);
                }
                if then == Then::Stop {
                    // The lease may also have its previous value, if the outcome of the last change
                    // was unknown.
                    let own = lease.filter(|lease| lease.owner == self.owner && !lease.released);
                    return own.map_or(Action::Stop, |own| self.give_up(own));
                }
                self.state = CandidateState::Watching { seen: lease.map(|lease| (lease, now)) };
                if matches!(then, Then::Go { .. }) { Action::StepDown } else { self.rest() }
            }
            Input::Superseded if matches!(then, Then::Go { .. }) => self.step_down(),
            Input::Failed | Input::Unsure => {
                self.state = CandidateState::Setting { expected, new, then };
                Action::Wait(self.options.retry_after)
            }
            _ => {
                self.state = CandidateState::Setting { expected, new, then };
                Action::Read
            }
        }
    }

    fn is_set(&mut self, lease: Lease, then: Then, now: Moment) -> Action {
        match then {
            Then::Fence { first } => {
                let from = lease.fence_from;
                self.fencing(lease, first, from, false)
            }
            Then::Serve { first } => {
                let (epoch, nonce, bound) = (lease.epoch, lease.owner.nonce, lease.bound);
                self.state = CandidateState::Leading { lease, first, renewed: now };
                Action::Serve(Term { epoch, nonce, first, bound })
            }
            Then::Go { first, old_bound } if lease.bound > old_bound => {
                self.fencing(lease, first, old_bound, true)
            }
            Then::Go { first, .. } => {
                self.state = CandidateState::Leading { lease, first, renewed: now };
                self.rest()
            }
            Then::Stop => Action::Stop,
        }
    }

    fn fencing(
        &mut self,
        lease: Lease,
        first: Timestamp,
        from: Timestamp,
        is_serving: bool,
    ) -> Action {
        let action = Action::Fence { epoch: lease.epoch, from, to: lease.bound };
        self.state = CandidateState::Fencing { lease, first, from, is_serving };
        action
    }

    fn fence(
        &mut self,
        lease: Lease,
        first: Timestamp,
        from: Timestamp,
        is_serving: bool,
        input: &Input,
        now: Moment,
    ) -> Action {
        match input {
            Input::Fenced if is_serving => {
                let bound = lease.bound;
                self.state = CandidateState::Leading { lease, first, renewed: now };
                Action::Extend(bound)
            }
            Input::Fenced => {
                let new = Lease { fence_from: first, renewal: lease.renewal + 1, ..lease.clone() };
                self.setting(Some(lease), new, Then::Serve { first })
            }
            Input::Superseded if is_serving => self.step_down(),
            Input::Superseded => {
                self.state = CandidateState::Watching { seen: None };
                Action::Read
            }
            Input::Failed => {
                self.state = CandidateState::Fencing { lease, first, from, is_serving };
                Action::Wait(self.options.retry_after)
            }
            _ => self.fencing(lease, first, from, is_serving),
        }
    }

    fn lead(
        &mut self,
        lease: Lease,
        first: Timestamp,
        renewed: Moment,
        input: &Input,
        now: Moment,
    ) -> Action {
        let standing = match input {
            Input::Superseded => return self.step_down(),
            Input::Next(standing) => *standing,
            _ => None,
        };
        let step = self.options.bound_step;
        let is_due = now.since(renewed) >= self.options.renew_every;
        let is_low = standing.is_some_and(|standing| standing.headroom < step / 2);
        let Some(standing) = standing.filter(|_| is_due || is_low) else {
            self.state = CandidateState::Leading { lease, first, renewed };
            return self.rest();
        };
        let old_bound = lease.bound;
        let raised = if is_low { old_bound.checked_add(step) } else { None };
        let new = Lease {
            renewal: lease.renewal + 1,
            bound: raised.unwrap_or(old_bound),
            fence_from: standing.fence_from.max(lease.fence_from),
            wall: (standing.latest.max(lease.wall.0), standing.wall.max(lease.wall.1)),
            ..lease.clone()
        };
        self.setting(Some(lease), new, Then::Go { first, old_bound })
    }

    fn step_down(&mut self) -> Action {
        self.state = CandidateState::Watching { seen: None };
        Action::StepDown
    }

    fn release(&mut self) -> Action {
        match std::mem::replace(&mut self.state, CandidateState::Stopped) {
            // Rows that are not fenced yet stay recorded in the lease; the next leader fences them.
            CandidateState::Leading { lease, .. } | CandidateState::Fencing { lease, .. } => {
                self.give_up(lease)
            }
            // Whether this write was applied is unknown. If it was not, the release is refused.
            CandidateState::Setting { new, .. } => self.give_up(new),
            CandidateState::Watching { .. } | CandidateState::Stopped => Action::Stop,
        }
    }

    fn give_up(&mut self, lease: Lease) -> Action {
        let new = Lease { released: true, renewal: lease.renewal + 1, ..lease.clone() };
        self.setting(Some(lease), new, Then::Stop)
    }

    const fn rest(&self) -> Action {
        Action::Wait(self.options.renew_every)
    }
}

#[cfg(test)]
mod script_tests;
#[cfg(test)]
mod tests;
