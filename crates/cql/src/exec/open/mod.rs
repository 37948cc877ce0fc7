//! Transactions that stay open between statements.
//!
//! ```text
//!   START TRANSACTION ──▶ registry: id → Tx ──▶ COMMIT, ROLLBACK, KILL, expiry, a closed connection
//!                             ▲    │
//!        enter: one statement │    │ leave: the transaction is idle again
//!        at a time            │    ▼
//!                       INSERT, UPDATE, DELETE, SELECT, BATCH
//! ```
//!
//! [`registry`](self::registry) decides, without I/O or a clock: which statement may enter, what
//! expires, which limit is exceeded. [`transactions`](self::transactions) holds the registry with the
//! transactions of the database, and ends the ones that have to end.
//! [`session`](super::session) runs the statements.
//!
//! Invariants, each with a test that fails without it:
//!
//! * A statement that fails after its first change ends the transaction: no part of a statement is
//!   ever committed.
//! * After a transaction of a connection has ended by itself, statements of the connection fail until
//!   its client says `ROLLBACK` or `COMMIT`: none runs outside by mistake.
//! * No permit and no deadline outlives its statement.
//! * A transaction that holds a place in the registry is ended by its client, by its expiry, or with
//!   its connection.

mod errors;
pub(super) mod id;
mod registry;
mod transactions;
mod using;

pub(super) use errors::{aborted, after, ended, refused};
pub(super) use id::{Parts, start_of};
pub(super) use registry::{End, Owner, Refusal};
pub use registry::{OpenLimits, OpenTotals};
pub(super) use transactions::{Binding, OpenTransactions};
pub(super) use using::{names_transaction, using_transaction};
