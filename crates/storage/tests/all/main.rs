//! Tests of the engine, in one binary: each binary would link all crates again.

#![expect(clippy::unwrap_used, reason = "helpers outside of #[test] functions unwrap as well")]

mod at_rest;
mod backup;
mod checkpoint;
mod crash;
mod damage;
mod deltas;
mod errors;
mod faults;
mod memory;
mod model;
mod passing;
mod policy_scripts;
mod quarantine;
mod read_only;
mod recycle;
mod scripts;
mod support;
mod swept;
mod table_use;
