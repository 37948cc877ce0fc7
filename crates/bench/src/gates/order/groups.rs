//! Classical group commit: writers form groups, and a group waits until all members have inserted
//! and published their records before the next group starts.
//!
//! An engine needs this if readers use the newest sequence number as a snapshot. Carnet's readers
//! use the newest *published* commit, so it needs no groups; here they are put before its engine to
//! measure their cost.

use std::sync::{Condvar, Mutex, PoisonError};

use carnet_base::sync::lock;

/// Admits one group of writers at a time.
#[derive(Default)]
pub(super) struct Groups {
    state: Mutex<GroupState>,
    next_group: Condvar,
}

#[derive(Default)]
struct GroupState {
    /// Number of the current group.
    group: u64,
    /// Number of its members that have not left.
    inside: usize,
    /// Number of writers in the next group.
    waiting: usize,
}

/// Membership in a group. Dropping it leaves the group.
pub(super) struct Turn<'a>(&'a Groups);

impl Groups {
    /// Waits for the current group to end, together with all other waiting writers.
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
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    use super::*;

    #[test]
    fn groups_admit_all_waiting_writers() {
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
