//! Numbers of the statements that write a version of a cell. Of two writes the larger number wins.

use carnet_store::cluster::Statement;

/// Number of the tombstones of a transaction's dropped tables; its writes take precedence.
pub(crate) const DROPPED: Statement = Statement(0);
/// Number of a transaction's writes.
pub(crate) const WRITTEN: Statement = Statement(1);
/// Number of the row that replaces a committed delta. It takes precedence over the delta, whenever
/// that arrives.
pub(crate) const MERGED: Statement = Statement(2);
