//! The environment of a process (time, tasks, randomness) and its options.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use carnet_base::{Clock, Encoding, Tasks, Timer, Timestamp};
use carnet_store::CommitOrder;

use crate::candidate::LeaseOptions;
use crate::sweep::SweepOptions;

/// The environment of a process: timer, clock and tasks.
#[derive(Clone)]
pub struct Doors {
    /// Timer for waits and timeouts.
    pub timer: Arc<dyn Timer>,
    /// Wall clock; its times are stored beside timestamps.
    pub clock: Arc<dyn Clock>,
    /// Spawner of background tasks.
    pub tasks: Arc<dyn Tasks>,
}

impl fmt::Debug for Doors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Doors")
    }
}

/// Creates the commit order of a term from its first timestamp, which is consumed.
pub type MakeOrder = Arc<dyn Fn(Timestamp) -> Box<dyn CommitOrder> + Send + Sync>;

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
    pub patience: Duration,
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
            patience: Duration::from_secs(10),
            client_timeout: Duration::from_secs(30),
            sweep: SweepOptions::default(),
            row_starts: 4096,
            cell_cache_bytes: 64 << 20,
        }
    }
}
