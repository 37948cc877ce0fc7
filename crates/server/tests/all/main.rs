//! Tests of the server, in one binary: each binary would link all crates again.

#![expect(clippy::unwrap_used, reason = "helpers outside of #[test] functions unwrap as well")]

mod admission;
mod backlog;
mod connections;
mod dashboard;
mod forwarded;
mod inline;
mod levels;
mod log_lines;
mod page_codes;
mod page_limits;
mod recorded_drivers;
mod running;
mod scripts;
mod statements;
mod support;
mod tls;
