//! The commit order of a store, and the error of commits that are not acknowledged when the store
//! stops.

use std::sync::Arc;

use carnet_base::{Error, ErrorKind, Timestamp};
use carnet_store::CommitOrder;

/// The commit order, shared by the store and its workers.
pub(crate) type SharedOrder = Arc<dyn CommitOrder>;

pub(crate) fn stopped(start: Timestamp, error: Error) -> Error {
    Error::new(
        ErrorKind::Unknown { start },
        format!("the store stopped before the commit of start {start} was acknowledged"),
    )
    .with_source(error)
}
