//! A connection, including its client's side.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::task::{Poll, Waker};

use carnet_admission::Place;

use super::request::SimRequest;
use super::tally::Outcome;

/// Maximum number of answers that wait for a client; with more, the connection is not read.
const UNREAD_MAX: usize = 8;

/// A connection, including its client's side.
pub(super) struct Connection {
    pub(super) number: u64,
    pub(super) is_slow: bool,
    pub(super) received: RefCell<VecDeque<SimRequest>>,
    /// Answers that a slow reader has not read.
    pub(super) unread: RefCell<VecDeque<(usize, Outcome)>>,
    pub(super) under_way: Cell<usize>,
    pub(super) throttled: Cell<usize>,
    pub(super) is_closed: Cell<bool>,
    pub(super) wakers: RefCell<Vec<Waker>>,
    /// Woken when the connection is closed.
    pub(super) statements: RefCell<Vec<Waker>>,
}

impl Connection {
    pub(super) fn receive(&self, request: SimRequest) {
        self.received.borrow_mut().push_back(request);
        self.under_way.set(self.under_way.get() + 1);
        self.wake();
    }

    /// Closes the connection: its client disconnected.
    pub(super) fn close(&self) {
        self.is_closed.set(true);
        self.wake();
        self.statements.take().into_iter().for_each(Waker::wake);
    }

    pub(super) fn wake(&self) {
        self.wakers.take().into_iter().for_each(Waker::wake);
    }

    /// Completes once a condition holds.
    pub(super) async fn until(&self, holds: impl Fn(&Self) -> bool) {
        poll_fn(|context| {
            if holds(self) {
                return Poll::Ready(());
            }
            self.wakers.borrow_mut().push(context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    pub(super) fn may_read(&self) -> bool {
        self.unread.borrow().len() < UNREAD_MAX && self.throttled.get() == 0
    }
}

/// Counts a throttled statement of a connection.
pub(super) struct Throttled<'c>(Option<&'c Connection>);

impl<'c> Throttled<'c> {
    pub(super) fn new(connection: &'c Connection, place: &Place) -> Self {
        let counted = place.is_throttled().then_some(connection);
        if let Some(connection) = counted {
            connection.throttled.set(connection.throttled.get() + 1);
        }
        Self(counted)
    }
}

impl Drop for Throttled<'_> {
    fn drop(&mut self) {
        if let Some(connection) = self.0 {
            connection.throttled.set(connection.throttled.get() - 1);
            connection.wake();
        }
    }
}
