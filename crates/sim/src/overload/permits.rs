//! Waits for permits, and holds them; mutants leak them.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use carnet::Result;
use carnet_admission::{Permit, Place};

use super::world::World;
use crate::mutant::Mutant;

/// A statement that waits at the gate.
pub(super) struct InQueue {
    pub(super) place: Option<Place>,
    pub(super) leaks: bool,
}

impl Future for InQueue {
    type Output = Result<Permit>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<Permit>> {
        let place = self.place.as_mut().expect("it is not polled after its end");
        let polled = Pin::new(place).poll(context);
        if polled.is_ready() {
            self.place = None;
        }
        polled
    }
}

impl Drop for InQueue {
    fn drop(&mut self) {
        if self.leaks {
            std::mem::forget(self.place.take());
        }
    }
}

/// Counts a permit while its statement has it.
pub(super) struct Held<'w> {
    pub(super) world: &'w World,
    pub(super) level: usize,
    /// Leaked, in some statements of a mutant.
    leaked: Option<Arc<Permit>>,
}

impl<'w> Held<'w> {
    pub(super) fn new(world: &'w World, level: usize, permit: &Arc<Permit>) -> Self {
        world.tally.borrow_mut().count_held(level, true);
        let leaks = world.breaks(Mutant::PermitNotGivenBack) && world.executor.below(50) == 0;
        Self { world, level, leaked: leaks.then(|| Arc::clone(permit)) }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.world.tally.borrow_mut().count_held(self.level, false);
        std::mem::forget(self.leaked.take());
    }
}
