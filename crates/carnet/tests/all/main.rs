//! Tests of `carnet`, in one binary: each binary would link all crates again.

#![expect(clippy::unwrap_used, reason = "helpers outside of #[test] functions unwrap as well")]

mod admission;
mod contention;
mod crash;
mod diagnosis;
mod facade;
mod idle;
mod large;
mod levels;
mod limits;
mod newest;
mod outcomes;
mod pages;
mod past;
mod public_names;
mod read_only;
mod reads;
mod records;
mod snapshots;
