//! The rows that a statement reads, and their order.

use std::ops::Bound;

use carnet::catalog::KeptColumns;
use carnet::{KeyRange, PartitionKey};
use carnet_base::{Bytes, TableId, Token};

/// Partitions that a statement reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Partitions {
    /// Listed partitions, in the order of their key values, without duplicates.
    Keys(Vec<PartitionKey>),
    /// All partitions whose token lies within the bounds.
    Tokens(Bound<Token>, Bound<Token>),
}

/// Rows that a statement reads within a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Clustering {
    /// All rows; the statement does not restrict the clustering key.
    All,
    /// Rows with these clustering keys, in their order, without duplicates.
    Cells(Vec<Bytes>),
    /// Rows whose clustering key lies in one of the spans, which are in key order.
    Spans(Vec<(Bound<Bytes>, Bound<Bytes>)>),
}

/// Rows that a statement reads, and their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Access {
    pub(crate) table: TableId,
    pub(crate) partitions: Partitions,
    pub(crate) clustering: Clustering,
    /// Whether the rows of a partition are read from the last to the first; partitions stay in
    /// their order.
    pub(crate) reverse: bool,
    pub(crate) has_clustering: bool,
    pub(crate) has_statics: bool,
    pub(crate) kept: KeptColumns,
}

/// Index entries whose rows a statement reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct IndexAccess {
    /// Position of the index among those of the table.
    pub(crate) index: usize,
    /// Ranges of entries, disjoint, in the order in which they are read.
    pub(crate) ranges: Vec<KeyRange>,
    /// Tokens of the partitions whose rows the statement reads.
    pub(crate) tokens: (Bound<Token>, Bound<Token>),
}
