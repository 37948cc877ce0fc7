//! Number of levels.

/// Number of levels; with a fan-out of ten, the last one holds a million times the first.
pub const LEVELS: usize = 7;
