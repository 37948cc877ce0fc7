//! Tests of transactions, in one binary: each binary would link all crates again.

#![expect(clippy::unwrap_used, reason = "helpers outside of #[test] functions unwrap as well")]

mod deltas;
mod idle;
mod reader;
mod scripts;
