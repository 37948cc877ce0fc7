//! Tests of Maelstrom's simulated environment, in one binary: each binary would link all crates again.

#![expect(clippy::unwrap_used, reason = "helpers outside of #[test] functions unwrap as well")]

mod pictures;
mod simulated;
