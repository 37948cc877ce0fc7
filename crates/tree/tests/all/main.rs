//! Tests of the tree, in one binary: each binary would link all crates again.

#![expect(clippy::unwrap_used, reason = "helpers outside of #[test] functions unwrap as well")]

mod callers;
mod cost;
mod damage;
mod late;
mod model;
mod sim;
