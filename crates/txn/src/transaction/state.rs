//! TransactionState of a transaction: its read set, its writes, and whether it has ended.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use carnet_base::{CellKey, CellKeyRef, Error, ErrorKind, KeyRange, TableId};
use carnet_store::{Spill, Writes};

use crate::limits::Written;
use crate::memory::SetMemory;
use crate::reads::Reads;

#[derive(Default)]
pub(super) struct TransactionState {
    pub(super) ended: Option<Ended>,
    /// Number of calls that wait for the store; while it is not zero, the transaction is not idle.
    pub(super) calls: u32,
    /// Time of the last call, in coarse time.
    pub(super) touched: u64,
    /// Whether it has read anything, with or without an entry in the read set.
    pub(super) has_read: bool,
    pub(super) reads: Reads,
    pub(super) writes: Writes,
    /// Number of calls that changed the write set.
    pub(super) changes: u64,
    /// Cells whose own write is a delta, see [`super::change`].
    pub(super) deltas: BTreeSet<CellKey>,
    /// Memory of `writes`.
    pub(super) write_memory: SetMemory,
    /// Whether `writes` are spilled as soon as the next write is made, for which there was no memory.
    pub(super) spills_next: bool,
    /// Earlier writes than those in `writes`, spilled because they were too large for memory.
    pub(super) spilled: Option<Spilled>,
    pub(super) drops: Vec<TableId>,
}

/// Writes in a spill file.
pub(super) struct Spilled {
    pub(super) spill: Arc<dyn Spill>,
    pub(super) bytes: u64,
    pub(super) cells: u64,
}

/// Reason why the transaction has ended.
#[derive(Clone, Copy)]
pub(super) enum Ended {
    /// By a commit or a rollback.
    ByCall,
    /// By the idle watch, after this idle time.
    Idle(Duration),
}

impl TransactionState {
    pub(super) fn spill(&self) -> Option<Arc<dyn Spill>> {
        self.spilled.as_ref().map(|spilled| Arc::clone(&spilled.spill))
    }

    /// Returns `true` if the own write of a cell in a range is a delta.
    pub(super) fn has_delta_in(&self, range: &KeyRange) -> bool {
        self.deltas.iter().any(|key| range.contains(key))
    }

    pub(super) fn runs(&self) -> usize {
        self.spilled.as_ref().map_or(0, |spilled| spilled.spill.runs())
    }

    /// Returns the size including a write of `bytes` to one more cell.
    pub(super) fn grown(&self, bytes: u64) -> Written {
        let (spilled_bytes, spilled_cells) =
            self.spilled.as_ref().map_or((0, 0), |spilled| (spilled.bytes, spilled.cells));
        Written {
            bytes: self.writes.bytes() + bytes,
            cells: self.writes.len() as u64 + 1,
            spilled_bytes,
            spilled_cells,
        }
    }

    /// Like [`TransactionState::grown`], for a write to a cell that may have been written before.
    pub(super) fn grown_by(&self, key: CellKeyRef<'_>, bytes: u64) -> Written {
        let mut grown = self.grown(bytes);
        if let Some(before) = self.writes.bytes_of(key) {
            grown.bytes -= before;
            grown.cells -= 1;
        }
        grown
    }

    /// Ends the transaction, and returns its state.
    pub(super) fn end(&mut self, why: Ended) -> Self {
        let ended = Self { ended: Some(why), calls: self.calls, ..Self::default() };
        std::mem::replace(self, ended)
    }
}

impl From<Ended> for Error {
    fn from(ended: Ended) -> Self {
        match ended {
            Ended::ByCall => Self::invalid("the transaction has ended; begin a new one"),
            Ended::Idle(limit) => Self::new(
                ErrorKind::Timeout,
                format!(
                    "the transaction was rolled back, because nothing was called on it for \
                     {limit:?}; begin a new one, or raise the idle timeout"
                ),
            ),
        }
    }
}
