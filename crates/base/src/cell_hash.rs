//! The hash of a cell, which errors and read sets name it by.

/// Hash that stands for a cell where a false match only costs a retry. Two cells of a database have
/// the same hash with a probability of 2⁻⁶⁴.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CellHash(pub u64);
