//! Turns of long statements.

use std::collections::{HashMap, HashSet};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use carnet_admission::diagnosis::Why;
use carnet_admission::{
    Asked, Asking, LevelId, LongSlot, Permit, RunQueue, SHARES_DEFAULT, TurnId,
};
use carnet_base::{Moment, lock};

use super::meter::{Meter, Polled, Work};
use crate::metrics::Threads;

/// Run queue behind a lock, and the statements that wait in it.
pub(super) struct Turns(Mutex<TurnState>);

struct TurnState {
    queue: RunQueue,
    wakers: HashMap<TurnId, Waker>,
    /// Turns that are granted and not yet begun.
    granted: HashSet<TurnId>,
}

impl Turns {
    pub(super) fn new(turns_max: usize) -> Self {
        let (queue, wakers, granted) = (RunQueue::new(turns_max), HashMap::new(), HashSet::new());
        Self(Mutex::new(TurnState { queue, wakers, granted }))
    }

    fn lock(&self) -> MutexGuard<'_, TurnState> {
        lock(&self.0)
    }

    fn end(&self, level: LevelId, took: Duration) {
        let mut state = self.lock();
        let next = state.queue.end(level, took);
        let waker = next.and_then(|next| state.grant(next));
        drop(state);
        waker.into_iter().for_each(Waker::wake);
    }

    fn go_on(&self, asking: Asking, took: Duration) -> Turn {
        let mut state = self.lock();
        let (asked, next) = state.queue.go_on(asking, took);
        let waker = next.and_then(|next| state.grant(next));
        drop(state);
        waker.into_iter().for_each(Waker::wake);
        asked.into()
    }

    /// Returns `true` if a turn is granted; otherwise the waker is woken when it is.
    fn is_granted(&self, id: TurnId, waker: &Waker) -> bool {
        let mut state = self.lock();
        if state.granted.remove(&id) {
            return true;
        }
        let before = state.wakers.insert(id, waker.clone());
        drop(state);
        drop(before);
        false
    }

    fn cancel(&self, level: LevelId, id: TurnId) {
        let mut state = self.lock();
        let waker = state.wakers.remove(&id);
        let was_granted = !state.queue.cancel(level, id) && state.granted.remove(&id);
        drop(state);
        drop(waker);
        if was_granted {
            self.end(level, Duration::ZERO);
        }
    }
}

impl TurnState {
    fn grant(&mut self, id: TurnId) -> Option<Waker> {
        self.granted.insert(id);
        self.wakers.remove(&id)
    }
}

#[derive(Clone, Copy)]
enum Turn {
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

/// Statement that is polled in turns.
pub(super) struct InTurns<T> {
    work: Work<T>,
    asking: Asking,
    turn: Turn,
    /// Time at which it requested the turn that it waits for.
    asked: Moment,
    permit: Option<Arc<Permit>>,
    /// Dropped after the work, which may hold a slot of its own.
    _slot: Option<LongSlot>,
    turns: Arc<Turns>,
    meter: Meter,
}

impl<T> InTurns<T> {
    pub(super) fn new(
        work: Work<T>,
        used: Duration,
        permit: Option<Arc<Permit>>,
        turns: &Arc<Turns>,
        meter: Meter,
    ) -> Self {
        let of_permit = permit.as_ref().map(|permit| permit.level());
        let (level, shares) = of_permit.unwrap_or((LevelId::default(), SHARES_DEFAULT));
        let asked = meter.clock.now();
        let asking = Asking { level, shares, begun: asked, used };
        let (turn, slot, turns) =
            (Turn::None, permit.as_ref().and_then(Permit::run_long), Arc::clone(turns));
        Self { work, asking, turn, asked, permit, _slot: slot, turns, meter }
    }

    fn has_turn(&mut self, waker: &Waker) -> bool {
        if matches!(self.turn, Turn::None) {
            let asked = self.turns.lock().queue.ask(self.asking);
            self.turn = asked.into();
            self.asked = self.meter.clock.now();
        }
        if let Turn::Waits(id) = self.turn
            && self.turns.is_granted(id, waker)
        {
            self.turn = Turn::Granted;
            if let Some(permit) = &self.permit {
                let now = self.meter.clock.now();
                permit.waits().add(Why::Cpu, now.since(self.asked));
                permit.tell_waits(now);
            }
        }
        matches!(self.turn, Turn::Granted)
    }
}

impl<T> Future for InTurns<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let this = &mut *self;
        if !this.has_turn(context.waker()) {
            return Poll::Pending;
        }
        let permit = this.permit.as_ref();
        let Polled { poll, has_yielded, took } =
            this.meter.poll(&mut this.work, permit, Threads::Long, context);
        this.asking.used += took;
        if has_yielded {
            this.turn = this.turns.go_on(this.asking, took);
            this.asked = this.meter.clock.now();
        } else {
            this.turn = Turn::None;
            this.turns.end(this.asking.level, took);
        }
        poll
    }
}

impl<T> Drop for InTurns<T> {
    fn drop(&mut self) {
        match self.turn {
            Turn::None => {}
            Turn::Waits(id) => self.turns.cancel(self.asking.level, id),
            Turn::Granted => self.turns.end(self.asking.level, Duration::ZERO),
        }
    }
}

#[cfg(test)]
impl Turns {
    /// Returns the number of statements with a turn, and of those waiting for one.
    pub(super) fn size(&self) -> (usize, usize) {
        let state = self.lock();
        (state.queue.running(), state.queue.waiting())
    }
}
