//! Tests of the sequencer, in one binary: each binary would link all crates again.

#![expect(clippy::unwrap_used, reason = "helpers outside of #[test] functions unwrap as well")]

mod backup;
mod cells;
mod commit;
mod conformance;
mod failover;
mod folds;
mod members;
mod random;
mod refused;
mod support;
mod sweep;
mod wire;
