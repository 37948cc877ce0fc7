//! Helpers of the tests.

pub(crate) mod blocks;
pub(crate) mod client;
pub(crate) mod cluster;
pub(crate) mod derived;
pub(crate) mod generate;
pub(crate) mod seeds;
pub(crate) mod servers;
pub(crate) mod slow_clock;
pub(crate) mod table;

pub(crate) use seeds::with_seeds;
