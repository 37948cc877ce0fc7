//! What was: wall times of commits, reads of the past, and the sweep that takes it away.

#![expect(clippy::unwrap_used, reason = "helpers outside of #[test] functions unwrap as well")]

mod sweep;
mod times;
mod world;
