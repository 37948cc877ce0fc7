//! The classical write path, kept for comparison: writers form groups, and a group waits until
//! all of its members have inserted and the log is settled before the next one begins.
//!
//! That is what an engine has to do whose readers take the newest sequence number for a snapshot.
//! Here readers take the newest *published* commit, and the groups are not needed: what they cost
//! is what [`WritePath::Grouped`](crate::options::WritePath) measures.

use crate::sync::{Condvar, Mutex, lock};
use std::sync::PoisonError;

/// Lets one group of writers in at a time.
#[derive(Default)]
pub(super) struct Groups {
    state: Mutex<State>,
    next_group: Condvar,
}

#[derive(Default)]
struct State {
    /// The number of the group that is in.
    group: u64,
    /// Its members that have not left.
    inside: usize,
    /// Those who will be the next group.
    waiting: usize,
}

/// A place in a group. Dropping it leaves the group.
pub(super) struct Turn<'a>(&'a Groups);

impl Groups {
    /// Waits for the group that is in to end, together with everybody else who waits.
    pub(super) fn enter(&self) -> Turn<'_> {
        let mut state = lock(&self.state);
        if state.inside == 0 {
            state.inside = 1;
            return Turn(self);
        }
        let group = state.group;
        state.waiting += 1;
        while state.group == group {
            state = self.next_group.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        Turn(self)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut state = lock(&self.0.state);
        state.inside -= 1;
        if state.inside == 0 {
            state.inside = std::mem::take(&mut state.waiting);
            state.group += 1;
            self.0.next_group.notify_all();
        }
    }
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    use super::*;

    #[test]
    fn a_group_is_as_large_as_the_queue_was_and_nobody_is_left_out() {
        let groups = Groups::default();
        let (inside, most, done) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..500 {
                        let turn = groups.enter();
                        most.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                        thread::yield_now();
                        inside.fetch_sub(1, Ordering::SeqCst);
                        drop(turn);
                        done.fetch_add(1, Ordering::SeqCst);
                    }
                });
            }
        });
        assert_eq!(done.into_inner(), 4000);
        assert!((2..=8).contains(&most.into_inner()), "writers shared groups");
        let state = lock(&groups.state);
        assert_eq!((state.inside, state.waiting), (0, 0));
    }
}
