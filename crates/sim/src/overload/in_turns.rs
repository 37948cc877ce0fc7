//! Statements that are polled in turns, and their use of the processors.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use carnet_admission::{Asking, Permit};
use carnet_base::{Clock, TIME_SLICE};

use super::request::SimRequest;
use super::turns::Turn;
use super::world::World;

/// A running statement: its polls are measured, and those beyond the first slice wait for turns.
pub(super) struct InTurns<F> {
    work: Pin<Box<F>>,
    world: Rc<World>,
    permit: Arc<Permit>,
    request: SimRequest,
    pub(super) asking: Asking,
    is_long: bool,
    turn: Turn,
}

impl<F> InTurns<F> {
    pub(super) fn new(
        world: &Rc<World>,
        request: &SimRequest,
        permit: Arc<Permit>,
        is_long: bool,
        work: F,
    ) -> Self {
        let (level, shares) = permit.level();
        let asking = Asking { level, shares, begun: world.clock.now(), used: Duration::ZERO };
        let (world, request) = (Rc::clone(world), request.clone());
        Self { work: Box::pin(work), world, permit, request, asking, is_long, turn: Turn::None }
    }

    fn has_turn(&mut self, waker: &Waker) -> bool {
        if matches!(self.turn, Turn::None) {
            self.world.executor.lower_priority();
            self.turn = self.world.turns.0.borrow_mut().queue.ask(self.asking).into();
        }
        if let Turn::Waits(id) = self.turn
            && self.world.turns.is_granted(id, waker)
        {
            self.turn = Turn::Granted;
        }
        matches!(self.turn, Turn::Granted)
    }

    fn take_end(&mut self, took: Duration, goes_on: bool) {
        self.permit.count_processor(took);
        self.world.tally.borrow_mut().count_use(&self.request, took, self.world.clock.now());
        self.asking.used += took;
        if !self.is_long {
            self.is_long = self.asking.used >= TIME_SLICE;
        } else if goes_on && took >= TIME_SLICE {
            self.turn = self.world.turns.go_on(self.asking, took);
        } else {
            self.turn = Turn::None;
            self.world.turns.end(self.asking.level, took);
        }
    }
}

impl<F: Future> Future for InTurns<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = &mut *self;
        if this.is_long && !this.has_turn(context.waker()) {
            return Poll::Pending;
        }
        let begun = this.world.clock.now();
        let polled = this.work.as_mut().poll(context);
        let took = this.world.clock.now().since(begun);
        this.take_end(took, polled.is_pending());
        polled
    }
}

impl<F> Drop for InTurns<F> {
    fn drop(&mut self) {
        match self.turn {
            Turn::None => {}
            Turn::Waits(id) => self.world.turns.cancel(self.asking.level, id),
            Turn::Granted => self.world.turns.end(self.asking.level, Duration::ZERO),
        }
    }
}
