//! Time travel: wall times of commits, reads of the past, and garbage collection.

#![expect(clippy::unwrap_used, reason = "helpers outside of #[test] functions unwrap as well")]

mod expiry;
mod sweep;
mod times;
mod world;
