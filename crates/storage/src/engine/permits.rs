//! Read permits: limit the disk reads that wait, and their memory.
//!
//! ```text
//!  read ──► all data is in memory: no permit, no wait
//!    └────► otherwise ──► permit (1 read, n bytes) ──► disk reads ──► permit released
//!                                      └ none is free: FIFO queue
//! ```
//!
//! A read that is answered by memtables and cache needs no permit, and completes at its first poll.
//! A read that waits for the disk holds buffers, whose memory is counted. The queue is first-in,
//! first-out: a large read at its head blocks smaller ones until it fits, so it cannot starve. A
//! read that exceeds the limit is admitted alone.
//!
//! A read holds at most one permit, so reads cannot deadlock while permit holders are polled.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;

use std::task::{Context, Poll, Waker};

use carnet_base::{WaitNote, note_wait};

use crate::sync::{Mutex, lock};

/// Memory that a read of one table is assumed to hold while it waits: an index page and a block,
/// raw and decoded. Enough for blocks of 12 KiB, three times the default.
pub(super) const READ_BYTES: usize = 64 << 10;

/// Limits, current usage and queue.
pub(super) struct Permits {
    reads_max: usize,
    bytes_max: usize,
    state: Mutex<PermitState>,
}

#[derive(Default)]
struct PermitState {
    reads: usize,
    bytes: usize,
    next_ticket: u64,
    waiting: VecDeque<Ticket>,
    /// Tickets that were granted, but whose futures have not been polled since.
    called: Vec<u64>,
}

struct Ticket {
    number: u64,
    bytes: usize,
    waker: Waker,
}

/// A permit to wait for the disk. Dropping it releases the permit.
pub(super) struct Permit<'a> {
    permits: &'a Permits,
    bytes: usize,
}

impl Permits {
    pub(super) fn new(reads_max: usize, bytes_max: usize) -> Self {
        Self { reads_max, bytes_max, state: Mutex::default() }
    }

    /// Waits for a permit for one read of about `bytes` bytes.
    pub(super) fn take(&self, bytes: usize) -> Take<'_> {
        Take { permits: self, bytes: bytes.min(self.bytes_max), ticket: None }
    }

    /// Returns the number of granted permits, their bytes, and the number of waiting reads.
    pub(super) fn in_use(&self) -> (usize, usize, usize) {
        let state = lock(&self.state);
        (state.reads, state.bytes, state.waiting.len())
    }

    fn fits(&self, state: &PermitState, bytes: usize) -> bool {
        state.reads < self.reads_max && state.bytes + bytes <= self.bytes_max
    }

    /// Grants permits to the head of the queue.
    fn call(&self, state: &mut PermitState) -> Vec<Waker> {
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

/// Future of a permit.
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
    use carnet_base::{Rng, SeededRng, take_wait_note};

    use super::*;

    fn poll<'a>(take: &mut Pin<Box<Take<'a>>>) -> Option<Permit<'a>> {
        match take.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(permit) => Some(permit),
            Poll::Pending => None,
        }
    }

    #[test]
    fn large_read_is_not_overtaken() {
        let permits = Permits::new(3, 100);
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
    fn dropped_head_admits_the_next_read() {
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
    fn permits_never_exceed_limits() {
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
            // Each remaining future gets its permit and releases it.
            for _ in 0..taking.len() {
                taking.retain_mut(|take| poll(take).is_none());
            }
            assert!(taking.is_empty(), "seed {seed}: {} still wait", taking.len());
            assert_eq!(permits.in_use(), (0, 0, 0), "seed {seed}");
        }
    }
}
