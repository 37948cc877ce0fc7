//! The audit log: a line of JSON for each log-in and statement that an operator wants to know of.
//!
//! ```text
//!   log-in, statement ─▶ Filter: category, user, keyspace ─▶ bounded queue ─▶ thread ─▶ file, or the log
//!                                                              │ full
//!                                                              ▼ counted, and told in the next line
//! ```
//!
//! ```json
//! {"time":"2026-11-30T01:16:47.120344Z","category":"ddl","operation":"CREATE TABLE","user":"ann",
//!  "client":"10.0.0.7:50312","keyspaces":["bank"],"statement":"CREATE TABLE bank.t (k int PRIMARY KEY)",
//!  "outcome":"ok"}
//! ```
//!
//! Invariants, each with a test that fails without it:
//!
//! * A statement never waits for the log. Entries that find the queue full are lost, and the next line
//!   says how many.
//! * A line is one JSON object: no text of a client begins another line.
//! * A file exceeds its limit by one write of at most 256 lines, and has a bounded number of predecessors.
//!
//! Deliberately absent: values of markers, rows, and passwords ([`carnet_cql::AuditEntry`]).

mod change_log;
mod filter;
mod line;
mod log;
mod rotated;

pub use change_log::ChangeLog;
pub use filter::Filter;
pub use log::{Audit, Destination};
