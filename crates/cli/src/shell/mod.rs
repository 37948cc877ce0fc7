//! The shell: CQL scripts and typed statements, and a few commands of its own.
//!
//! ```text
//!   text ── carnet_cql::split ─▶ pieces ─┬─ Command::parse ─▶ HELP, SOURCE, COPY, EXIT
//!                                        └─ Executor::query ─▶ pages ─▶ Printer
//! ```
//!
//! [`Session`] runs statements and commands, [`interactive`] prompts for them. [`command`] parses
//! the shell's commands, without I/O; [`print`](self::print) and [`value`] format results.

mod command;
mod interactive;
pub(crate) mod lexer;
mod print;
mod session;
pub(crate) mod value;

pub(crate) use interactive::interactive;
pub(crate) use print::{Format, Printer};
pub(crate) use session::Session;
