//! Tests of the local store, in one binary: each binary would link all crates again.

#![expect(clippy::unwrap_used, reason = "helpers outside of #[test] functions unwrap as well")]

mod backup;
mod conformance;
mod encodings;
mod newest;
