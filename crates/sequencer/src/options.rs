//! The options of a process.

use std::time::Duration;

use carnet_base::Encoding;

use crate::candidate::LeaseOptions;
use crate::sweep::SweepOptions;

/// Options of a process.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Timing of the election.
    pub lease: LeaseOptions,
    /// Encoding of the commit table for a new database.
    pub encoding: Encoding,
    /// Number of starts beyond the bound for which the encoding is fixed at a time. A migration
    /// takes effect when they are used up.
    pub coordination_step: u64,
    /// Timeout for one answer of the leader, before the request is sent again.
    pub call_timeout: Duration,
    /// Time after which a call that finds no leader fails, unless its deadline comes first.
    pub leader_timeout: Duration,
    /// Time of silence after which the snapshots of a process are given up.
    pub client_timeout: Duration,
    /// Pacing of the sweep.
    pub sweep: SweepOptions,
    /// Number of consecutive starts that are drawn for one row of the commit table and share its
    /// rounds.
    pub row_starts: u32,
    /// Maximum memory for cached cells that were read or written by this process; 0 disables the
    /// cache.
    pub cell_cache_bytes: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            lease: LeaseOptions::default(),
            encoding: Encoding::V3,
            coordination_step: 5_000_000,
            call_timeout: Duration::from_secs(2),
            leader_timeout: Duration::from_millis(4_500),
            client_timeout: Duration::from_secs(30),
            sweep: SweepOptions::default(),
            row_starts: 4096,
            cell_cache_bytes: 64 << 20,
        }
    }
}
