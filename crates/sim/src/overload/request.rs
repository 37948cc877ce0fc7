//! A request of a simulated client.

use carnet_base::Moment;

/// Cells that a statement reads.
#[derive(Clone, Copy, Debug)]
pub(super) enum Reads {
    Keys { first: u64, count: u64 },
    Range { first: u64, count: u64 },
}

/// Request of a simulated client.
#[derive(Clone, Debug)]
pub(super) struct SimRequest {
    pub(super) number: usize,
    pub(super) level: usize,
    pub(super) reads: Reads,
    pub(super) deadline: Option<Moment>,
}
