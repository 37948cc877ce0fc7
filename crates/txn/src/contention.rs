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

/// Number of a transaction in the queues of a database.
pub type Ticket = u64;

/// Transactions that take turns at a cell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TurnQueue {
    /// Bytes of the cell's key; `None` if they are not known, and for the queue of transactions that
    /// lost several cells.
    pub key: Option<Arc<[u8]>>,
    /// The transaction whose turn it is, then the waiting ones, in their order.
    pub tickets: VecDeque<Ticket>,
}

/// The queues of all cells. Pure: without threads or time.
#[derive(Debug, Default)]
struct Queues {
    cells: HashMap<CellHash, TurnQueue>,
    places: usize,
}

impl Queues {
    /// Adds a transaction to the end of a cell's queue; returns `false` if the queues are full.
    fn join(&mut self, (cell, key): (CellHash, Option<&Arc<[u8]>>), ticket: Ticket) -> bool {
        if self.places >= PLACES_MAX {
            return false;
        }
        self.places += 1;
        let queue = self.cells.entry(cell).or_default();
        if queue.key.is_none() {
            queue.key = key.cloned();
        }
        queue.tickets.push_back(ticket);
        true
    }

    /// Removes a transaction from a cell's queue. Returns the transaction that becomes the first by
    /// that.
    fn leave(&mut self, cell: CellHash, ticket: Ticket) -> Option<Ticket> {
        let queue = &mut self.cells.get_mut(&cell)?.tickets;
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
        self.cells.get(&cell).and_then(|queue| queue.tickets.front()) == Some(&ticket)
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

    /// Returns the longest queues, at most `queues_max`, the longest first.
    #[must_use]
    pub fn longest(&self, queues_max: usize) -> Vec<TurnQueue> {
        if self.places() == 0 {
            return Vec::new();
        }
        let mut queues: Vec<TurnQueue> = self.lock().queues.cells.values().cloned().collect();
        queues.sort_by(|a, b| {
            (b.tickets.len(), &a.key, &a.tickets).cmp(&(a.tickets.len(), &b.key, &b.tickets))
        });
        queues.truncate(queues_max);
        queues
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

    fn join(&self, cell: (CellHash, Option<&Arc<[u8]>>), ticket: Ticket) -> bool {
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
    /// Cells in whose queues it stands, in the order of their hashes, with their keys.
    joined: Vec<(CellHash, Option<Arc<[u8]>>)>,
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
        self.joined.iter().any(|(joined, _)| *joined == cell)
    }

    /// Waits until the transaction is first in the queue of a cell that it lost, and is first again
    /// in the queues of earlier lost cells with higher hashes. Returns `false` immediately if too
    /// many transactions wait already. `key` is the key of the cell, which [`Contention::longest`] shows.
    pub async fn take(&mut self, cell: CellHash, key: Option<&[u8]>) -> bool {
        if self.holds(cell) {
            return true;
        }
        let ticket = self.ticket();
        let above = self.joined.partition_point(|(joined, _)| joined.0 < cell.0);
        let mut wanted = self.joined.split_off(above);
        for (cell, _) in &wanted {
            self.contention.leave(*cell, ticket);
        }
        wanted.insert(0, (cell, key.map(Arc::from)));
        for (cell, key) in wanted {
            if !self.contention.join((cell, key.as_ref()), ticket) {
                return false;
            }
            self.joined.push((cell, key));
            self.first_at(cell, ticket).await;
        }
        true
    }

    /// Leaves all queues.
    pub fn leave(&mut self) {
        let Some(ticket) = self.ticket else { return };
        for (cell, _) in std::mem::take(&mut self.joined) {
            self.contention.leave(cell, ticket);
        }
        let waker = self.contention.lock().wakers.remove(&ticket);
        drop(waker);
    }

    /// Returns the number of the transaction, which it gets at the first call.
    pub fn ticket(&mut self) -> Ticket {
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
            assert!(queues.join((A, None), ticket));
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
        assert!(block_on(first.take(A, None)));
        {
            let mut waits = pin!(second.take(A, None));
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
        assert!(block_on(first.take(A, None)));
        std::thread::scope(|scope| {
            let theirs = Arc::clone(&contention);
            let waits = scope.spawn(move || block_on(Turns::new(theirs).take(A, None)));
            while contention.places() < 2 {
                std::thread::yield_now();
            }
            drop(first);
            assert!(waits.join().unwrap());
        });
        assert_eq!(contention.places(), 0);
    }

    #[test]
    fn queues_show_whose_turn_it_is() {
        let contention = Arc::new(Contention::new());
        let turns = || Turns::new(Arc::clone(&contention));
        let (mut alone, mut first, mut second) = (turns(), turns(), turns());
        let tickets = [alone.ticket(), first.ticket(), second.ticket()];
        assert!(block_on(alone.take(A, Some(b"a"))) && block_on(first.take(B, Some(b"b"))));
        let mut waits = pin!(second.take(B, None));
        assert!(waits.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        let queue = |key: &[u8], tickets: &[Ticket]| TurnQueue {
            key: Some(key.into()),
            tickets: tickets.iter().copied().collect(),
        };
        let (longest, other) = (queue(b"b", &tickets[1..]), queue(b"a", &tickets[..1]));
        assert_eq!(contention.longest(9), [longest.clone(), other]);
        assert_eq!(contention.longest(1), [longest]);
        drop((alone, first));
        assert_eq!(contention.longest(9), [queue(b"b", &tickets[2..])]);
    }

    /// Two transactions want each other's cell: one gives up the higher cell before it joins the
    /// queue of the lower one.
    #[test]
    fn no_two_wait_for_each_other() {
        let contention = Arc::new(Contention::new());
        let turns = || Turns::new(Arc::clone(&contention));
        let (mut low, mut high) = (turns(), turns());
        assert!(block_on(low.take(A, None)) && block_on(high.take(B, None)));
        assert!(!is_ready(high.take(A, None)), "behind the other");
        assert!(is_ready(low.take(B, None)), "it was given up");
    }

    #[test]
    fn newcomer_is_blocked_by_a_queue() {
        let contention = Arc::new(Contention::new());
        let mut first = Turns::new(Arc::clone(&contention));
        let newcomer = Turns::new(Arc::clone(&contention));
        assert_eq!(contention.blocking(&newcomer, [A, B].into_iter()), None);
        assert!(block_on(first.take(B, None)));
        assert_eq!(contention.blocking(&newcomer, [A, B].into_iter()), Some(B));
        assert_eq!(contention.blocking(&first, [A, B].into_iter()), None);
    }

    #[test]
    fn queues_are_bounded() {
        let mut queues = Queues::default();
        assert!((0..PLACES_MAX as u64).all(|ticket| queues.join((A, None), ticket)));
        assert!(!queues.join((B, None), 0));
    }
}
