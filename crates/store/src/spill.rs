//! Where the writes of a large transaction wait for its commit.

use std::future::Future;
use std::pin::Pin;

use carnet_base::{Bytes, CellKey, CellKeyRef, KeyRange, Result, Timestamp};

use crate::commit_log::CommitRequest;
use crate::context::Context;

/// A future of a trait object's method.
pub type Spilling<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

/// Cells in order, each with what was written to it last; `None` is a deletion.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpilledPage {
    /// The cells.
    pub cells: Vec<(CellKey, Option<Bytes>)>,
    /// Whether the range goes on behind them.
    pub more: bool,
}

/// Where the writes of one transaction wait that are too many to be kept in memory. Nobody else
/// sees them. When it is dropped before a commit, they are gone.
pub trait Spill: Send + Sync + 'static {
    /// Takes writes over: newer than all before, in the order of their cells, one for a cell. It
    /// may block its thread for as long as writing them takes.
    ///
    /// # Errors
    ///
    /// `Unavailable`: nothing was taken.
    fn add<'a>(
        &self,
        writes: &mut dyn Iterator<Item = (CellKeyRef<'a>, Option<&'a [u8]>)>,
    ) -> Result<()>;

    /// How often something was added.
    fn runs(&self) -> usize;

    /// Returns what was written last to a cell, if anything was.
    fn get<'a>(&'a self, key: &'a CellKey) -> Spilling<'a, Option<Option<Bytes>>>;

    /// Returns the first cells of a range that were written, at most so many, in the order asked
    /// for.
    fn range<'a>(
        &'a self,
        range: &'a KeyRange,
        reverse: bool,
        cells_max: usize,
    ) -> Spilling<'a, SpilledPage>;

    /// As [`CommitLog::commit`](crate::CommitLog::commit), of everything that was added and, newer
    /// than that, the request's writes. The request drops no table.
    fn commit<'a>(
        &'a self,
        context: &'a Context,
        request: CommitRequest,
    ) -> Spilling<'a, Timestamp>;
}
