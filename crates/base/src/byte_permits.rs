//! Byte permits: limit the memory of works that run at a time; further works wait.
//!
//! ```text
//!  read from the disk ──► permit (1, n bytes) ──► buffers ──► permit released
//!                            └ none is free: FIFO queue
//! ```
//!
//! The queue is first-in, first-out: large work at its head blocks smaller work until it fits, so it
//! cannot starve. Work that exceeds the limit is admitted alone.
//!
//! A holder must not wait for a second permit: then holders cannot deadlock while they are polled.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Mutex;
use std::task::{Context, Poll, Waker};

use crate::{WaitNote, lock, note_wait};

/// Limits, current usage and queue.
///
/// ```
/// # use carnet_base::{BytePermits, block_on};
/// let permits = BytePermits::new(8, 1 << 20);
/// let permit = block_on(permits.take(64 << 10));
/// assert_eq!(permits.in_use(), (1, 64 << 10, 0));
/// assert!(permits.try_take(1 << 20).is_none(), "it would have to wait");
/// drop(permit);
/// assert!(permits.try_take(1 << 20).is_some());
/// ```
#[derive(Debug)]
pub struct BytePermits {
    holders_max: usize,
    bytes_max: usize,
    state: Mutex<PermitState>,
}

#[derive(Debug)]
struct PermitState {
    holders: usize,
    bytes: usize,
    next_ticket: u64,
    waiting: VecDeque<Ticket>,
    /// Tickets that were granted, but whose futures have not been polled since.
    called: Vec<u64>,
}

impl PermitState {
    const NEW: Self =
        Self { holders: 0, bytes: 0, next_ticket: 0, waiting: VecDeque::new(), called: Vec::new() };
}

#[derive(Debug)]
struct Ticket {
    number: u64,
    bytes: usize,
    waker: Waker,
}

/// Permit to hold bytes. Dropping it releases the permit.
#[derive(Debug)]
pub struct BytePermit<'a> {
    permits: &'a BytePermits,
    bytes: usize,
}

impl BytePermits {
    /// Creates permits for `holders_max` holders of together `bytes_max` bytes.
    #[must_use]
    pub const fn new(holders_max: usize, bytes_max: usize) -> Self {
        Self { holders_max, bytes_max, state: Mutex::new(PermitState::NEW) }
    }

    /// Waits for a permit to hold about `bytes` bytes.
    pub fn take(&self, bytes: usize) -> Take<'_> {
        Take { permits: self, bytes: bytes.min(self.bytes_max), ticket: None }
    }

    /// Returns a permit to hold about `bytes` bytes, or `None` if the caller would have to wait.
    pub fn try_take(&self, bytes: usize) -> Option<BytePermit<'_>> {
        let bytes = bytes.min(self.bytes_max);
        let mut state = lock(&self.state);
        (state.waiting.is_empty() && self.fits(&state, bytes))
            .then(|| self.grant(&mut state, bytes))
    }

    fn grant(&self, state: &mut PermitState, bytes: usize) -> BytePermit<'_> {
        state.holders += 1;
        state.bytes += bytes;
        BytePermit { permits: self, bytes }
    }

    /// Returns the number of granted permits, their bytes, and the number of waiting callers.
    pub fn in_use(&self) -> (usize, usize, usize) {
        let state = lock(&self.state);
        (state.holders, state.bytes, state.waiting.len())
    }

    fn fits(&self, state: &PermitState, bytes: usize) -> bool {
        state.holders < self.holders_max && state.bytes + bytes <= self.bytes_max
    }

    /// Grants permits to the head of the queue.
    fn call(&self, state: &mut PermitState) -> Vec<Waker> {
        let mut wakers = Vec::new();
        while let Some(head) = state.waiting.front()
            && self.fits(state, head.bytes)
            && let Some(Ticket { number, bytes, waker }) = state.waiting.pop_front()
        {
            state.holders += 1;
            state.bytes += bytes;
            state.called.push(number);
            wakers.push(waker);
        }
        wakers
    }

    fn give_back(&self, bytes: usize) {
        let mut state = lock(&self.state);
        state.holders -= 1;
        state.bytes -= bytes;
        let wakers = self.call(&mut state);
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }
}

impl Drop for BytePermit<'_> {
    fn drop(&mut self) {
        self.permits.give_back(self.bytes);
    }
}

/// Future of a permit. It notes that it waits for memory.
#[derive(Debug)]
pub struct Take<'a> {
    permits: &'a BytePermits,
    bytes: usize,
    ticket: Option<u64>,
}

impl<'a> Future for Take<'a> {
    type Output = BytePermit<'a>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<BytePermit<'a>> {
        let (permits, bytes) = (self.permits, self.bytes);
        let mut state = lock(&permits.state);
        match self.ticket {
            None if state.waiting.is_empty() && permits.fits(&state, bytes) => {
                return Poll::Ready(permits.grant(&mut state, bytes));
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
                    return Poll::Ready(BytePermit { permits, bytes });
                }
                let mut own = state.waiting.iter_mut().filter(|ticket| ticket.number == number);
                if let Some(ticket) = own.next() {
                    ticket.waker.clone_from(context.waker());
                }
            }
        }
        note_wait(WaitNote::Memory);
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
        // The dropped ticket may have blocked the tickets after it.
        let wakers = self.permits.call(&mut state);
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests {
    use crate::{Rng, SeededRng, take_wait_note};

    use super::*;

    fn poll<'a>(take: &mut Pin<Box<Take<'a>>>) -> Option<BytePermit<'a>> {
        match take.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(permit) => Some(permit),
            Poll::Pending => None,
        }
    }

    #[test]
    fn large_work_is_not_overtaken() {
        let permits = BytePermits::new(3, 100);
        let first = poll(&mut Box::pin(permits.take(60))).unwrap();
        let mut large = Box::pin(permits.take(1000));
        let mut small = Box::pin(permits.take(10));
        assert!(poll(&mut large).is_none() && poll(&mut small).is_none());
        assert_eq!(take_wait_note(), Some(WaitNote::Memory));
        assert_eq!(permits.in_use(), (1, 60, 2));
        drop(first);
        assert!(poll(&mut small).is_none(), "it came behind the large one");
        let alone = poll(&mut large).unwrap();
        assert_eq!(permits.in_use(), (1, 100, 1), "a request above the limit counts as the limit");
        let mut another = Box::pin(permits.take(100));
        assert!(poll(&mut another).is_none());
        drop(alone);
        assert!(poll(&mut another).is_none());
        drop(another);
        assert!(poll(&mut small).is_some());
        assert_eq!(permits.in_use(), (0, 0, 0));
    }

    #[test]
    fn dropped_head_admits_the_next() {
        let permits = BytePermits::new(3, 100);
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
    fn permits_never_exceed_limits() {
        for seed in 0..300 {
            let mut rng = SeededRng::new(seed);
            let permits = BytePermits::new(4, 100);
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
            // Each remaining future gets its permit and releases it.
            for _ in 0..taking.len() {
                taking.retain_mut(|take| poll(take).is_none());
            }
            assert!(taking.is_empty(), "seed {seed}: {} still wait", taking.len());
            assert_eq!(permits.in_use(), (0, 0, 0), "seed {seed}");
        }
    }
}
