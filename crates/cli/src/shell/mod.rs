//! The shell: scripts and lines of CQL, and a few commands of its own.
//!
//! ```text
//!   text ── carnet_cql::split ─▶ pieces ─┬─ Command::parse ─▶ HELP, SOURCE, COPY, EXIT
//!                                        └─ Executor::query ─▶ pages ─▶ Printer
//! ```
//!
//! [`Session`] runs pieces, [`interactive`] asks a person for them. What the shell's commands are
//! is decided in [`command`], without I/O; what results look like in [`print`](self::print) and
//! [`value`].

mod command;
mod interactive;
pub(crate) mod lexer;
mod print;
mod session;
pub(crate) mod value;

pub(crate) use interactive::interactive;
pub(crate) use print::{Format, Printer};
pub(crate) use session::Session;
