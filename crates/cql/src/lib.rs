//! CQL, the Cassandra query language, in Carnet's dialect.
//!
//! ```text
//! text ──lexer──▶ tokens ──parser──▶ ast::Statement ──Display──▶ text
//!   ▲                                     │
//!   └── split: a script's statements      └── bind_sites: role of each ? and :name
//! ```
//!
//! [`parse`] parses one statement: the grammar of CQL 3.4.7 as far as Carnet executes it, with
//! `BEGIN TRANSACTION … COMMIT TRANSACTION` in Accord's syntax and a few extensions
//! ([`ast::Extension`]). CQL that Carnet does not support is handled in one of three ways, so that
//! no statement is understood in part:
//!
//! * a whole family of statements (functions, aggregates, triggers …) becomes
//!   [`ast::Statement::Unsupported`], whatever its details;
//! * a form that is easy to parse (a `LIKE` in `IF`, `!=` in `WHERE`) becomes a syntax tree that the
//!   executor refuses, because it knows the table and can give a better message;
//! * the rest is a [`ParseError`] of kind [`Unsupported`](ParseErrorKind::Unsupported).
//!
//! ```
//! use carnet_cql::{Limits, parse};
//!
//! let parsed = parse("select name FROM bank.accounts WHERE id = ?;", &Limits::default())?;
//! assert_eq!(parsed.statement.to_string(), "SELECT name FROM bank.accounts WHERE id = ?");
//! assert_eq!(parsed.markers.len(), 1);
//!
//! let error = parse("SELECT name WHERE id = 1", &Limits::default()).unwrap_err();
//! assert_eq!(
//!     error.to_string(),
//!     "expected FROM, found WHERE (line 1, column 13)\n  \
//!      SELECT name WHERE id = 1\n              ^",
//! );
//! # Ok::<(), carnet_cql::ParseError>(())
//! ```
//!
//! Invariants, each with a test that fails without it:
//!
//! * No text makes the parser panic, overflow the stack or take more than time in proportion to the
//!   text and its nesting ([`NESTING_MAX`]).
//! * A syntax tree's text parses to the same tree.
//! * Bind markers are numbered in the order of the text, in which drivers send their values.
//! * The reported error is the first in the text, with its line, column and byte offset.
//!
//! Deliberately absent: recovery after an error (clients show one error, the first), and any
//! knowledge of tables: names are not resolved here.

mod access;
pub mod ast;
mod audit;
mod bound;
mod compile;
mod cql_error;
mod cut;
pub mod describe;
mod display;
mod duration;
mod error;
mod exec;
mod fingerprint;
pub mod forward;
mod json;
mod lexer;
mod parser;
mod position;
mod redact;
pub mod result;
mod shown;
mod split;
mod steps;
pub mod system;
mod timestamps;
mod trace;
mod uuids;

pub use audit::{AuditCategory, AuditEntry, AuditLog};
pub use bound::{Bound, Values};
pub use carnet_data::keyword::is_reserved;
pub use cql_error::{CqlError, CqlErrorKind, LostRow, StatementId};
pub use error::{ParseError, ParseErrorKind};
pub use exec::{
    AnswerMemory, BatchItem, Executor, Found, Grant, Hashing, OpenLimits, OpenTotals, Outline,
    Parameters, Prepared, RequestTimes, RunningStatement, Session, StatementKind, StatementSource,
    Terms, Timeouts, WarnThresholds,
};
pub use json::write_shown as write_shown_json;
pub use parser::{
    IN_VALUES_MAX, Limits, MARKERS_MAX, Marker, NESTING_MAX, NUMBER_DIGITS_MAX, Parsed,
    STATEMENT_BYTES_MAX, TERMS_MAX, parse,
};
pub use position::{Location, Position};
pub use redact::redacted;
pub use split::{Piece, PieceEnd, split};
pub use steps::SECTION_STEPS_MAX;
pub use timestamps::Timestamps;
pub use trace::Trace;
