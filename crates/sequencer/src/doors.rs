//! Where time, tasks and randomness enter, and what can be set.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use carnet_base::{Clock, Encoding, Tasks, Timer, Timestamp};
use carnet_store::CommitOrder;

use crate::candidate::LeaseOptions;
use crate::sweep::SweepOptions;

/// The doors of a process's part.
#[derive(Clone)]
pub struct Doors {
    /// Waits.
    pub timer: Arc<dyn Timer>,
    /// Tells the wall time, which is written down beside timestamps.
    pub clock: Arc<dyn Clock>,
    /// Drives what nobody waits for.
    pub tasks: Arc<dyn Tasks>,
}

impl fmt::Debug for Doors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Doors")
    }
}

/// Makes the rules of order of a term, given its first timestamp, which is consumed.
pub type MakeOrder = Arc<dyn Fn(Timestamp) -> Box<dyn CommitOrder> + Send + Sync>;

/// What can be set.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The election's times.
    pub lease: LeaseOptions,
    /// The commit table's encoding, for a database that is new.
    pub encoding: Encoding,
    /// For so many starts beyond the bound the encoding is decided at a time: a migration is in
    /// force when they are used up.
    pub coordination_step: u64,
    /// An answer of the leader is waited for so long before he is asked again.
    pub call_timeout: Duration,
    /// A call that finds no leader is given up after so long, or at its deadline.
    pub patience: Duration,
    /// The snapshots of a process that was not heard of for so long are given up.
    pub client_timeout: Duration,
    /// How the sweep is paced.
    pub sweep: SweepOptions,
    /// So many starts in turn belong to one row of the commit table, and share its rounds.
    pub row_starts: u32,
    /// So much memory may cells take that are kept because they were read or written here; none are
    /// with 0.
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
