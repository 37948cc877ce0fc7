//! Naming of a statement, for the diagnosis.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;

use carnet_admission::Permit;
use carnet_admission::diagnosis::Waiter;

use super::prepared::Statements;

/// Names a statement at its first wait, or at its end, whatever its outcome. A statement that did not wait gets no name,
/// because naming costs too much.
pub(super) struct Naming<'s> {
    pub(super) statements: &'s Statements,
    pub(super) keyspace: Option<&'s str>,
    pub(super) user: Option<&'s Arc<str>>,
    pub(super) permit: Option<&'s Permit>,
}

impl Naming<'_> {
    /// Runs the statement, and names it before its first wait: the diagnosis counts waits of statements that run for
    /// long.
    pub(super) async fn run<F: Future>(&self, mut statement: Pin<&mut F>) -> F::Output {
        poll_fn(|context| {
            let polled = statement.as_mut().poll(context);
            if polled.is_pending() {
                self.name();
            }
            polled
        })
        .await
    }

    /// Names the statement, unless it has its name.
    pub(super) fn name(&self) {
        if let Some(permit) = self.permit {
            permit.waits().name(|| Waiter {
                named: self.statements.named(self.keyspace),
                user: self.user.cloned(),
            });
        }
    }
}

impl Drop for Naming<'_> {
    fn drop(&mut self) {
        if self.permit.is_some_and(|permit| permit.waits().is_worth_counting()) {
            self.name();
        }
    }
}
