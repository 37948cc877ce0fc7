//! The turns of long statements on the processors, like on the server's threads for them.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::task::Waker;
use std::time::Duration;

use carnet_admission::{Asked, Asking, LevelId, RunQueue, TurnId};

/// The run queue, and the statements waiting in it.
pub(super) struct Turns(pub(super) RefCell<TurnsState>);

pub(super) struct TurnsState {
    pub(super) queue: RunQueue,
    wakers: BTreeMap<TurnId, Waker>,
    granted: BTreeSet<TurnId>,
}

impl Turns {
    pub(super) fn new(turns_max: usize) -> Self {
        let (queue, wakers, granted) = (RunQueue::new(turns_max), BTreeMap::new(), BTreeSet::new());
        Self(RefCell::new(TurnsState { queue, wakers, granted }))
    }

    /// Returns `true` if no statement has a turn or waits for one.
    pub(super) fn is_empty(&self) -> bool {
        let state = self.0.borrow();
        state.queue.running() == 0 && state.queue.waiting() == 0 && state.granted.is_empty()
    }

    pub(super) fn end(&self, level: LevelId, took: Duration) {
        let mut state = self.0.borrow_mut();
        let next = state.queue.end(level, took);
        state.grant(next);
    }

    pub(super) fn go_on(&self, asking: Asking, took: Duration) -> Turn {
        let mut state = self.0.borrow_mut();
        let (asked, next) = state.queue.go_on(asking, took);
        state.grant(next);
        asked.into()
    }

    pub(super) fn is_granted(&self, id: TurnId, waker: &Waker) -> bool {
        let mut state = self.0.borrow_mut();
        let is_granted = state.granted.remove(&id);
        if !is_granted {
            state.wakers.insert(id, waker.clone());
        }
        is_granted
    }

    pub(super) fn cancel(&self, level: LevelId, id: TurnId) {
        let mut state = self.0.borrow_mut();
        state.wakers.remove(&id);
        let was_granted = !state.queue.cancel(level, id) && state.granted.remove(&id);
        drop(state);
        if was_granted {
            self.end(level, Duration::ZERO);
        }
    }
}

impl TurnsState {
    fn grant(&mut self, next: Option<TurnId>) {
        if let Some(id) = next {
            self.granted.insert(id);
            self.wakers.remove(&id).into_iter().for_each(Waker::wake);
        }
    }
}

#[derive(Clone, Copy)]
pub(super) enum Turn {
    None,
    Waits(TurnId),
    Granted,
}

impl From<Asked> for Turn {
    fn from(asked: Asked) -> Self {
        match asked {
            Asked::Granted => Self::Granted,
            Asked::Waits(id) => Self::Waits(id),
        }
    }
}
