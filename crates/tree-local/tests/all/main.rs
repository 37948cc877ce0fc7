//! Tests of the tree in a directory.

#![expect(clippy::unwrap_used, reason = "helpers outside of #[test] functions unwrap as well")]

mod collect;
mod crash;
mod damage;
mod support;
