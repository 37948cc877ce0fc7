//! The environment of a process: timer, clock, tasks, and the maker of commit orders.

use std::fmt;
use std::sync::Arc;

use carnet_base::{Clock, Tasks, Timer};
use carnet_store::{CommitOrder, LogStart, RowTables};

/// The environment of a process: timer, clock and tasks.
#[derive(Clone)]
pub struct Environment {
    /// Timer for waits and timeouts.
    pub timer: Arc<dyn Timer>,
    /// Wall clock; its times are stored beside timestamps.
    pub clock: Arc<dyn Clock>,
    /// Spawner of background tasks.
    pub tasks: Arc<dyn Tasks>,
    /// Tables of rows, whose versions may be deltas. Until they are known, this process writes no
    /// deltas and sweeps nothing.
    pub row_tables: Arc<RowTables>,
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Environment")
    }
}

/// Creates the commit order of a term, from its first timestamp, which is consumed, and the mark of
/// the sweep: snapshots of earlier terms are taken up again from there on.
pub type MakeOrder = Arc<dyn Fn(LogStart) -> Box<dyn CommitOrder> + Send + Sync>;
