//! Queues for cells that many transactions change.
//!
//! # The problem
//!
//! Optimistic transactions that change one hot row all read it, and one of them commits; the others
//! run again and lose again. With 400 of them in flight most work is thrown away, and some lose
//! until their attempts are spent.
//!
//! # The queue
//!
//! A transaction that was refused names the cell that it *lost*. It joins that cell's queue and runs
//! again when it stands first: first come, first served.
//!
//! ```text
//!   cell #a   T3 ◀ first: runs        T3 commits and leaves: T7 is woken, with a snapshot
//!             T7   waits              behind the commit of T3
//!             T9   waits
//! ```
//!
//! A transaction that has not lost yet, and is about to commit a change that read or wrote a queued
//! cell, joins the queue instead ([`Contention::blocking`]): it would make the first one lose again.
//!
//! # Invariants
//!
//! * The queue is advice. It decides nothing: a transaction that runs out of its turn is checked
//!   like any other. Other processes and transactions that their caller commits do not take part.
//! * A transaction joins cells in the order of their hashes, and gives up those above before it joins
//!   one below. So no two wait for each other.
//! * Read-only transactions never look at it.
//! * A transaction leaves every queue when its [`Turns`] are dropped, however it ended.

use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Poll, Waker};

use carnet_base::CellHash;
use carnet_base::sync::lock;

/// Maximum number of places in all queues of a database.
const PLACES_MAX: usize = 1 << 16;

/// Name of a transaction in the queues.
type Ticket = u64;

/// The queues of all cells. Pure: without threads or time.
#[derive(Debug, Default)]
struct Queues {
    cells: HashMap<CellHash, VecDeque<Ticket>>,
    places: usize,
}

impl Queues {
    /// Adds a transaction to the end of a cell's queue; returns `false` if the queues are full.
    fn join(&mut self, cell: CellHash, ticket: Ticket) -> bool {
        if self.places >= PLACES_MAX {
            return false;
        }
        self.places += 1;
        self.cells.entry(cell).or_default().push_back(ticket);
        true
    }

    /// Removes a transaction from a cell's queue. Returns the transaction that becomes the first by
    /// that.
    fn leave(&mut self, cell: CellHash, ticket: Ticket) -> Option<Ticket> {
        let queue = self.cells.get_mut(&cell)?;
        let at = queue.iter().position(|waiting| *waiting == ticket)?;
        queue.remove(at);
        self.places -= 1;
        let next = queue.front().copied();
        if next.is_none() {
            self.cells.remove(&cell);
        }
        next.filter(|_| at == 0)
    }

    fn is_first(&self, cell: CellHash, ticket: Ticket) -> bool {
        self.cells.get(&cell).and_then(VecDeque::front) == Some(&ticket)
    }
}

/// The queues of a database. See the module documentation.
#[derive(Debug, Default)]
pub struct Contention {
    /// Number of places in the queues. It is mostly zero, and then a commit reads nothing else.
    places: AtomicUsize,
    state: Mutex<ContentionState>,
}

#[derive(Debug, Default)]
struct ContentionState {
    queues: Queues,
    wakers: HashMap<Ticket, Waker>,
    tickets: Ticket,
}

impl Contention {
    /// Creates empty queues.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the number of places in the queues. A transaction has one for each cell that it
    /// lost.
    #[must_use]
    pub fn places(&self) -> usize {
        self.places.load(Ordering::Relaxed)
    }

    /// Returns the first of the given cells that has a queue, and that `turns` does not hold.
    pub fn blocking(
        &self,
        turns: &Turns,
        mut cells: impl Iterator<Item = CellHash>,
    ) -> Option<CellHash> {
        if self.places() == 0 {
            return None;
        }
        let state = self.lock();
        cells.find(|cell| state.queues.cells.contains_key(cell) && !turns.holds(*cell))
    }

    fn lock(&self) -> MutexGuard<'_, ContentionState> {
        lock(&self.state)
    }

    fn join(&self, cell: CellHash, ticket: Ticket) -> bool {
        let mut state = self.lock();
        let joined = state.queues.join(cell, ticket);
        self.places.store(state.queues.places, Ordering::Relaxed);
        joined
    }

    fn leave(&self, cell: CellHash, ticket: Ticket) {
        let mut state = self.lock();
        let next = state.queues.leave(cell, ticket);
        self.places.store(state.queues.places, Ordering::Relaxed);
        let waker = next.and_then(|next| state.wakers.remove(&next));
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// The places of one transaction in the queues.
#[derive(Debug)]
pub struct Turns {
    contention: Arc<Contention>,
    ticket: Option<Ticket>,
    /// Cells in whose queues it stands, in the order of their hashes.
    joined: Vec<CellHash>,
}

impl Turns {
    /// Creates the places of a transaction that has lost no cell yet.
    #[must_use]
    pub const fn new(contention: Arc<Contention>) -> Self {
        Self { contention, ticket: None, joined: Vec::new() }
    }

    /// Returns `true` if the transaction is in the queue of a cell.
    #[must_use]
    pub fn holds(&self, cell: CellHash) -> bool {
        self.joined.contains(&cell)
    }

    /// Waits until the transaction is first in the queue of a cell that it lost, and is first again
    /// in the queues of earlier lost cells with higher hashes. Returns `false` immediately if too
    /// many transactions wait already.
    pub async fn take(&mut self, cell: CellHash) -> bool {
        if self.holds(cell) {
            return true;
        }
        let ticket = self.ticket();
        let above = self.joined.partition_point(|joined| joined.0 < cell.0);
        let mut wanted = self.joined.split_off(above);
        for cell in &wanted {
            self.contention.leave(*cell, ticket);
        }
        wanted.insert(0, cell);
        for cell in wanted {
            if !self.contention.join(cell, ticket) {
                return false;
            }
            self.joined.push(cell);
            self.first_at(cell, ticket).await;
        }
        true
    }

    /// Leaves all queues.
    pub fn leave(&mut self) {
        let Some(ticket) = self.ticket else { return };
        for cell in std::mem::take(&mut self.joined) {
            self.contention.leave(cell, ticket);
        }
        let waker = self.contention.lock().wakers.remove(&ticket);
        drop(waker);
    }

    fn ticket(&mut self) -> Ticket {
        *self.ticket.get_or_insert_with(|| {
            let mut state = self.contention.lock();
            state.tickets += 1;
            state.tickets
        })
    }

    async fn first_at(&self, cell: CellHash, ticket: Ticket) {
        poll_fn(|context| {
            let mut state = self.contention.lock();
            if state.queues.is_first(cell, ticket) {
                return Poll::Ready(());
            }
            let before = state.wakers.insert(ticket, context.waker().clone());
            drop(state);
            // Drop the waker outside the lock: it may be the last owner of a task.
            drop(before);
            Poll::Pending
        })
        .await;
    }
}

impl Drop for Turns {
    fn drop(&mut self) {
        self.leave();
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::Context;

    use carnet_base::block_on;

    use super::*;

    const A: CellHash = CellHash(1);
    const B: CellHash = CellHash(2);

    fn is_ready(future: impl Future<Output = bool>) -> bool {
        pin!(future).poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn first_come_is_first_served() {
        let mut queues = Queues::default();
        for ticket in [3, 7, 9] {
            assert!(queues.join(A, ticket));
        }
        assert!(queues.is_first(A, 3) && !queues.is_first(A, 7));
        assert_eq!(queues.leave(A, 7), None, "it did not stand first");
        assert_eq!(queues.leave(A, 3), Some(9));
        assert_eq!(queues.leave(A, 9), None);
        assert!(queues.cells.is_empty() && queues.places == 0);
    }

    #[test]
    fn turn_passes_when_the_first_leaves() {
        let contention = Arc::new(Contention::new());
        let turns = || Turns::new(Arc::clone(&contention));
        let (mut first, mut second) = (turns(), turns());
        assert!(block_on(first.take(A)));
        {
            let mut waits = pin!(second.take(A));
            let mut context = Context::from_waker(Waker::noop());
            assert!(waits.as_mut().poll(&mut context).is_pending());
            drop(first);
            assert!(waits.as_mut().poll(&mut context).is_ready());
        }
        drop(second);
        assert_eq!(contention.places(), 0);
        assert!(contention.lock().wakers.is_empty());
    }

    #[test]
    fn waiting_wakes_another_thread() {
        let contention = Arc::new(Contention::new());
        let mut first = Turns::new(Arc::clone(&contention));
        assert!(block_on(first.take(A)));
        std::thread::scope(|scope| {
            let theirs = Arc::clone(&contention);
            let waits = scope.spawn(move || block_on(Turns::new(theirs).take(A)));
            while contention.places() < 2 {
                std::thread::yield_now();
            }
            drop(first);
            assert!(waits.join().unwrap());
        });
        assert_eq!(contention.places(), 0);
    }

    /// Two transactions want each other's cell: one gives up the higher cell before it joins the
    /// queue of the lower one.
    #[test]
    fn no_two_wait_for_each_other() {
        let contention = Arc::new(Contention::new());
        let turns = || Turns::new(Arc::clone(&contention));
        let (mut low, mut high) = (turns(), turns());
        assert!(block_on(low.take(A)) && block_on(high.take(B)));
        assert!(!is_ready(high.take(A)), "behind the other");
        assert!(is_ready(low.take(B)), "it was given up");
    }

    #[test]
    fn newcomer_is_blocked_by_a_queue() {
        let contention = Arc::new(Contention::new());
        let mut first = Turns::new(Arc::clone(&contention));
        let newcomer = Turns::new(Arc::clone(&contention));
        assert_eq!(contention.blocking(&newcomer, [A, B].into_iter()), None);
        assert!(block_on(first.take(B)));
        assert_eq!(contention.blocking(&newcomer, [A, B].into_iter()), Some(B));
        assert_eq!(contention.blocking(&first, [A, B].into_iter()), None);
    }

    #[test]
    fn queues_are_bounded() {
        let mut queues = Queues::default();
        assert!((0..PLACES_MAX as u64).all(|ticket| queues.join(A, ticket)));
        assert!(!queues.join(B, 0));
    }
}
