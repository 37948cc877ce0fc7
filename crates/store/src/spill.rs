//! Spills: storage for the writes of a large transaction until its commit.

use std::future::Future;
use std::pin::Pin;

use carnet_base::{Bytes, CellKey, CellKeyRef, KeyRange, Result, Timestamp};

use crate::commit_request::CommitRequest;
use crate::context::Context;

/// Future of a method of the trait object.
pub type Spilling<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

/// Sorted cells, each with its last write; `None` is a deletion.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpilledPage {
    /// Cells of the page.
    pub cells: Vec<(CellKey, Option<Bytes>)>,
    /// Whether the range has more cells.
    pub more: bool,
}

/// Storage for the writes of one transaction that do not fit into memory. Other transactions do not
/// see them. Dropping it before a commit discards them.
pub trait Spill: Send + Sync + 'static {
    /// Adds writes: newer than all before, in the order of their cells, one for each cell. It may
    /// block its thread while it writes.
    ///
    /// # Errors
    ///
    /// `Unavailable`: nothing was added.
    fn add<'a>(
        &self,
        writes: &mut dyn Iterator<Item = (CellKeyRef<'a>, Option<&'a [u8]>)>,
    ) -> Result<()>;

    /// Returns the number of additions so far.
    fn runs(&self) -> usize;

    /// Returns the last write to a cell, if there is one.
    fn get<'a>(&'a self, key: &'a CellKey) -> Spilling<'a, Option<Option<Bytes>>>;

    /// Returns the first written cells of a range, at most `cells_max`, in the requested order.
    fn range<'a>(
        &'a self,
        range: &'a KeyRange,
        reverse: bool,
        cells_max: usize,
    ) -> Spilling<'a, SpilledPage>;

    /// Like [`CommitLog::commit`](crate::CommitLog::commit), for everything that was added and,
    /// newer than that, the request's writes. The request drops no table.
    fn commit<'a>(
        &'a self,
        context: &'a Context,
        request: CommitRequest,
    ) -> Spilling<'a, Timestamp>;
}
