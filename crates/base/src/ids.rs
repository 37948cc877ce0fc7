//! Newtypes for the numbers that must never be mixed up.

use std::fmt;

/// A point on the database's one logical clock: a positive 63-bit integer.
///
/// [`Timestamp::ZERO`] lies before every transaction and is never handed out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The moment before every transaction.
    pub const ZERO: Self = Self(0);
    /// The last timestamp there is, 2⁶³ − 1.
    pub const MAX: Self = Self(i64::MAX as u64);

    /// Returns the timestamp of that number, or `None` above 2⁶³ − 1.
    #[must_use]
    pub const fn new(number: u64) -> Option<Self> {
        if number <= Self::MAX.0 { Some(Self(number)) } else { None }
    }

    /// Returns the number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Returns the timestamp `steps` later, or `None` when the clock has no such number.
    #[must_use]
    pub const fn checked_add(self, steps: u64) -> Option<Self> {
        match self.0.checked_add(steps) {
            Some(number) => Self::new(number),
            None => None,
        }
    }

    /// Returns the timestamp just before this one, or `None` at [`Timestamp::ZERO`].
    #[must_use]
    pub const fn previous(self) -> Option<Self> {
        match self.0.checked_sub(1) {
            Some(number) => Some(Self(number)),
            None => None,
        }
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Names a table for good: a dropped table's id is never given to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableId(pub u32);

impl TableId {
    /// The first that a user's table has: those below are the system's.
    pub const FIRST: Self = Self(1000);

    /// Tells whether a table is the system's.
    #[must_use]
    pub const fn is_system(self) -> bool {
        self.0 < Self::FIRST.0
    }
}

impl fmt::Display for TableId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Names a column of a table for good: a dropped column's id is never given to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ColumnId(pub u16);

impl fmt::Display for ColumnId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A partition's place in token order, as Cassandra's `Murmur3Partitioner` computes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub i64);

impl Token {
    /// The smallest token. Only the empty partition key has it.
    pub const MIN: Self = Self(i64::MIN);
    /// The largest token.
    pub const MAX: Self = Self(i64::MAX);
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Counts the leaders that a database has had.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub u64);
