//! State of statements that are forwarded to other servers: calls in progress, and their cancellation.
//! [`session::forward`](super::session) runs them.

mod cancel;
mod state;

pub(super) use state::ForwardState;
