//! Permits of reads: who may wait for the disk, and with how much memory.
//!
//! ```text
//!  read ──► all of it is in memory: no permit, nothing is held across a wait
//!    └────► something is missing ──► permit (1 read, so many bytes) ──► reads ──► given back
//!                                      └ none is free: first come, first served
//! ```
//!
//! A read that memtables and cache answer holds nothing but its answer, and ends at its first poll.
//! It takes no permit and pays nothing for there being some. A read that has to wait holds
//! buffers while it does, and those are what is counted. Nobody is passed by: a large read at
//! the head of the queue holds up small ones behind it until it fits, so that it cannot starve.
//! A read that asks for more than there is at all is let in alone.
//!
//! A read takes one permit and never a second one before the first is given back, so that reads
//! cannot block each other for good, as long as those who hold permits are polled.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;

use std::task::{Context, Poll, Waker};

use crate::sync::{Mutex, lock};

/// What may be under way, and who waits.
pub(super) struct Permits {
    reads_max: usize,
    bytes_max: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    reads: usize,
    bytes: usize,
    next_ticket: u64,
    waiting: VecDeque<Ticket>,
    /// Tickets whose turn has come, and whose holders do not know it yet.
    called: Vec<u64>,
}

struct Ticket {
    number: u64,
    bytes: usize,
    waker: Waker,
}

/// A read that may wait for the disk. Dropping it gives the permit back.
pub(super) struct Permit<'a> {
    permits: &'a Permits,
    bytes: usize,
}

impl Permits {
    pub(super) fn new(reads_max: usize, bytes_max: usize) -> Self {
        Self { reads_max, bytes_max, state: Mutex::default() }
    }

    /// Waits for a permit for one read that holds about so many bytes.
    pub(super) fn take(&self, bytes: usize) -> Take<'_> {
        Take { permits: self, bytes: bytes.min(self.bytes_max), ticket: None }
    }

    /// How many reads hold permits, how many bytes they asked for, and how many reads wait.
    pub(super) fn in_use(&self) -> (usize, usize, usize) {
        let state = lock(&self.state);
        (state.reads, state.bytes, state.waiting.len())
    }

    fn fits(&self, state: &State, bytes: usize) -> bool {
        state.reads < self.reads_max && state.bytes + bytes <= self.bytes_max
    }

    /// Calls those at the head of the queue whose turn has come.
    fn call(&self, state: &mut State) -> Vec<Waker> {
        let mut wakers = Vec::new();
        while let Some(head) = state.waiting.front()
            && self.fits(state, head.bytes)
            && let Some(Ticket { number, bytes, waker }) = state.waiting.pop_front()
        {
            state.reads += 1;
            state.bytes += bytes;
            state.called.push(number);
            wakers.push(waker);
        }
        wakers
    }

    fn give_back(&self, bytes: usize) {
        let mut state = lock(&self.state);
        state.reads -= 1;
        state.bytes -= bytes;
        let wakers = self.call(&mut state);
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        self.permits.give_back(self.bytes);
    }
}

/// Waits for a permit.
pub(super) struct Take<'a> {
    permits: &'a Permits,
    bytes: usize,
    ticket: Option<u64>,
}

impl<'a> Future for Take<'a> {
    type Output = Permit<'a>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Permit<'a>> {
        let (permits, bytes) = (self.permits, self.bytes);
        let mut state = lock(&permits.state);
        match self.ticket {
            None if state.waiting.is_empty() && permits.fits(&state, bytes) => {
                state.reads += 1;
                state.bytes += bytes;
                return Poll::Ready(Permit { permits, bytes });
            }
            None => {
                let number = state.next_ticket;
                state.next_ticket += 1;
                state.waiting.push_back(Ticket { number, bytes, waker: context.waker().clone() });
                self.ticket = Some(number);
            }
            Some(number) => {
                if let Some(at) = state.called.iter().position(|called| *called == number) {
                    state.called.swap_remove(at);
                    self.ticket = None;
                    return Poll::Ready(Permit { permits, bytes });
                }
                let mut own = state.waiting.iter_mut().filter(|ticket| ticket.number == number);
                if let Some(ticket) = own.next() {
                    ticket.waker.clone_from(context.waker());
                }
            }
        }
        Poll::Pending
    }
}

impl Drop for Take<'_> {
    fn drop(&mut self) {
        let Some(number) = self.ticket else { return };
        let mut state = lock(&self.permits.state);
        if let Some(at) = state.called.iter().position(|called| *called == number) {
            state.called.swap_remove(at);
            drop(state);
            return self.permits.give_back(self.bytes);
        }
        state.waiting.retain(|ticket| ticket.number != number);
        // It may have stood in the way of those behind it.
        let wakers = self.permits.call(&mut state);
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests {
    use carnet_base::{Rng, SeededRng};

    use super::*;

    fn poll<'a>(take: &mut Pin<Box<Take<'a>>>) -> Option<Permit<'a>> {
        match take.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(permit) => Some(permit),
            Poll::Pending => None,
        }
    }

    #[test]
    fn a_large_read_is_not_passed_by() {
        let permits = Permits::new(3, 100);
        let first = poll(&mut Box::pin(permits.take(60))).unwrap();
        let mut large = Box::pin(permits.take(1000));
        let mut small = Box::pin(permits.take(10));
        assert!(poll(&mut large).is_none() && poll(&mut small).is_none());
        assert_eq!(permits.in_use(), (1, 60, 2));
        drop(first);
        assert!(poll(&mut small).is_none(), "it came behind the large one");
        let alone = poll(&mut large).unwrap();
        assert_eq!(permits.in_use(), (1, 100, 1), "more than there is counts as all there is");
        let mut another = Box::pin(permits.take(100));
        assert!(poll(&mut another).is_none());
        drop(alone);
        assert!(poll(&mut another).is_none());
        drop(another);
        assert!(poll(&mut small).is_some());
        assert_eq!(permits.in_use(), (0, 0, 0));
    }

    #[test]
    fn one_that_gives_up_at_the_head_of_the_queue_lets_the_next_one_go() {
        let permits = Permits::new(3, 100);
        let _first = poll(&mut Box::pin(permits.take(60))).unwrap();
        let mut large = Box::pin(permits.take(100));
        let mut small = Box::pin(permits.take(10));
        assert!(poll(&mut large).is_none() && poll(&mut small).is_none());
        drop(large);
        assert_eq!(permits.in_use(), (2, 70, 0));
        assert!(poll(&mut small).is_some());
    }

    fn draw(rng: &mut SeededRng, below: usize) -> usize {
        usize::try_from(rng.below(below as u64)).unwrap()
    }

    #[test]
    fn whatever_the_order_no_more_is_given_than_there_is_and_all_get_theirs() {
        for seed in 0..300 {
            let mut rng = SeededRng::new(seed);
            let permits = Permits::new(4, 100);
            let mut taking: Vec<Pin<Box<Take<'_>>>> = Vec::new();
            let mut held = Vec::new();
            for _ in 0..200 {
                match rng.below(4) {
                    0 => taking.push(Box::pin(permits.take(draw(&mut rng, 150)))),
                    1 if !held.is_empty() => drop(held.swap_remove(draw(&mut rng, held.len()))),
                    2 if !taking.is_empty() => {
                        let at = draw(&mut rng, taking.len());
                        if let Some(permit) = poll(&mut taking[at]) {
                            held.push(permit);
                            drop(taking.swap_remove(at));
                        }
                    }
                    3 if !taking.is_empty() && rng.chance(300) => {
                        drop(taking.swap_remove(draw(&mut rng, taking.len())));
                    }
                    _ => {}
                }
                let (reads, bytes, _) = permits.in_use();
                assert!(reads <= 4 && bytes <= 100, "seed {seed}: {reads} reads, {bytes} bytes");
                assert!(held.len() <= reads, "seed {seed}");
            }
            drop(held);
            // Everybody comes to his turn, each giving back what he got.
            for _ in 0..taking.len() {
                taking.retain_mut(|take| poll(take).is_none());
            }
            assert!(taking.is_empty(), "seed {seed}: {} wait for ever", taking.len());
            assert_eq!(permits.in_use(), (0, 0, 0), "seed {seed}");
        }
    }
}
