//! `carnet top`: what a server does, from its `system_views`.
//!
//! ```text
//!   a sample ─┐
//!             ├─▶ Activity: rates, sorted ──▶ draw: a frame of the terminal, or of text with --once
//!   a sample ─┘
//! ```
//!
//! A sample is a handful of queries of system tables, which the server answers while it refuses others. A
//! part that the user may not read shows why, and the others go on.

mod activity;
mod draw;
mod sample;

pub(crate) use activity::Activity;
pub(crate) use draw::{draw, height};
pub(crate) use sample::Sample;
