//! CQL, the Cassandra query language, as Carnet speaks it.
//!
//! ```text
//! text ──lexer──▶ tokens ──parser──▶ ast::Statement ──Display──▶ text
//!   ▲                                     │
//!   └── split: a script's statements      └── bind_sites: what each ? and :name stands for
//! ```
//!
//! [`parse`] reads one statement: the grammar of CQL 3.4.7 as far as Carnet executes it, with
//! `BEGIN TRANSACTION … COMMIT TRANSACTION` in Accord's spelling and a few extensions of it
//! ([`ast::Extension`]). What CQL has and Carnet has not ends in one of three ways, so that
//! nothing is ever half understood:
//!
//! * a whole family of statements (indexes, roles, functions …) becomes
//!   [`ast::Statement::Unsupported`], whatever its details;
//! * a form that costs nothing to read (a `LIKE`, a list literal, a counter) becomes a syntax tree
//!   that the executor refuses, because it knows the table and can say more;
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
//! Invariants, each with a test that breaks without it:
//!
//! * No text makes the parser panic, overflow the stack or take more than time in proportion to
//!   the text and its nesting ([`NESTING_MAX`]).
//! * A syntax tree's text is read back as the same tree.
//! * Bind markers are numbered in the order of the text, as drivers send their values.
//! * The error reported is the first in the text, with its line, column and byte offset.
//!
//! Deliberately absent: recovery after an error (one error, the first, is what a client can
//! show), and any knowledge of tables: names are not resolved here.

pub mod ast;
mod base;
mod compile;
pub mod describe;
mod display;
mod duration;
mod error;
mod exec;
mod json;
mod keyword;
mod lexer;
mod parser;
mod position;
pub mod result;
mod split;
pub mod system;

pub use error::{ParseError, ParseErrorKind};
pub use exec::{
    AnswerMemory, BatchItem, Bound, CqlError, CqlErrorKind, Executor, Grant, Outline, Parameters,
    Prepared, Session, Terms, Timeouts, Timestamps, Values,
};
pub use keyword::is_reserved;
pub use parser::{
    IN_VALUES_MAX, Limits, MARKERS_MAX, Marker, NESTING_MAX, NUMBER_DIGITS_MAX, Parsed,
    STATEMENT_BYTES_MAX, TERMS_MAX, parse,
};
pub use position::{Location, Position};
pub use split::{Piece, PieceEnd, split};
