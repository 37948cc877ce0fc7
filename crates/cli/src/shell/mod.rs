//! The shell: CQL scripts and typed statements, and a few commands of its own.
//!
//! ```text
//!   text ── pieces ─┬─ Command::parse ─▶ HELP, SOURCE, COPY, EXIT, settings
//!                   └─ Database::query ─▶ pages ─▶ Printer ─▶ terminal, pager or file
//! ```
//!
//! [`Session`] runs statements and commands, [`interactive`] prompts for them. [`command`] parses
//! the shell's commands, without I/O; [`print`](self::print) and [`value`] format results; `hints`
//! knows typical mistakes.

mod build;
pub(crate) mod command;
mod complete;
mod feedback;
mod help;
mod hints;
mod interactive;
mod pager;
pub(crate) mod pieces;
mod print;
mod session;
mod setting;
pub(crate) mod value;

pub(crate) use hints::hint;
pub(crate) use interactive::interactive;
pub(crate) use print::{Format, Printer};
pub(crate) use session::{Session, read_script};
