//! Messages by which a server forwards a statement of an open transaction to the server that holds
//! the transaction, and asks other servers for their open transactions.
//!
//! ```text
//!   client ──statement──▶ server ──[`Request`]──▶ holder of the transaction
//!          ◀──answer────         ◀──[`Answer`]───
//! ```
//!
//! The messages are the bytes of [`Db::forward`](carnet::Db::forward). The decoder accepts exactly the
//! bytes that the encoder writes, and reserves no memory for a length whose bytes have not arrived.
//! Each message begins with a version: a server answers a request of another version with
//! [`Answer::Refused`], whose encoding is the same in every version.
//!
//! ```text
//! request   version 1, call 8, transaction 16, caller, 0 or 1 and the µs until the deadline 8, kind 1:
//!           0 statement: statement, page rows, paging state, time in µs (each 0, or 1 and the value)
//!           1 batch: kind 1, statements after their number in 4, 0 or 1 and the time in µs 8
//!           2 cancel: ends the statement of this call
//!           3 transactions: lists the open ones of the server; versions before it refuse it
//! caller    name, 0 or 1 and the user or 2 and the role, address: 0 none, 4 and 4 bytes, 6 and 16 bytes
//! statement text, 0 or 1 and the keyspace, values after their number in 4, 0 or 1 and the preparation
//! value     0 null, 1 unset, 2 and the bytes after their length in 4
//! answer    version 1, kind 1: 0 not held here; 1 refused: text; 2 nothing; 3 rows; 4 error. Warnings
//!           after their number in 4 follow kinds 2 to 4
//! ```
//!
//! Texts have their length in 4 before them. All numbers are big-endian.

mod decode;
mod encode;
mod fields;
mod kinds;
mod message;
#[cfg(test)]
mod tests;

pub use fields::Malformed;
pub use message::{Answer, Caller, Preparation, Request, Statement, Task};
