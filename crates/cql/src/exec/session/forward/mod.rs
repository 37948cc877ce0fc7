//! Statements of open transactions that another server holds.
//!
//! ```text
//!   statement that names a transaction
//!     ├─ its transaction is known here ──▶ exec::session runs it
//!     └─ another server has its tag ─────▶ send: forwards it ──▶ serve: runs it there, as its caller
//!                                           └─ no server holds it, or no answer ──▶ lost: what became
//!                                                                                   of the transaction
//! ```
//!
//! File `list` asks all other servers for their open transactions.
//!
//! Invariants, each with a test that fails without it:
//!
//! * A forwarded statement is never forwarded again.
//! * A statement runs with the user, the deadline and the limits that it has at the server to which its
//!   client sent it.
//! * An error without an answer of the holder is definite only if the commit table says so.
//! * A statement whose client is gone is cancelled at the holder. A commit is not: its client may ask
//!   for it again.
//! * A statement that waits for the holder does not count as running here. Two servers that wait for
//!   permits of each other would otherwise wait until their deadlines.

mod list;
mod lost;
mod send;
mod serve;

pub(super) use lost::{Absence, Step};
