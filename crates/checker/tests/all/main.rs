//! Tests of the checker, in one binary: each binary would link all crates again.

#![expect(clippy::unwrap_used, reason = "helpers outside of #[test] functions unwrap as well")]

mod command;
mod linear;
mod mutants;
mod oracle;
mod page;
mod porcupine;
mod stories;
mod support;
