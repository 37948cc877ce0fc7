//! Newtypes for the numbers that must never be mixed up.

use std::fmt;

/// A point on the database's one logical clock: a positive 63-bit integer.
///
/// [`Timestamp::ZERO`] lies before every transaction and is never handed out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(u64);

impl Timestamp {
    /// Timestamp before every transaction.
    pub const ZERO: Self = Self(0);
    /// Largest timestamp, 2⁶³ − 1.
    pub const MAX: Self = Self(i64::MAX as u64);

    /// Returns the timestamp with a number, or `None` above 2⁶³ − 1.
    #[must_use]
    pub const fn new(number: u64) -> Option<Self> {
        if number <= Self::MAX.0 { Some(Self(number)) } else { None }
    }

    /// Returns the number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Returns the timestamp `steps` later, or `None` if it would exceed [`Timestamp::MAX`].
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

/// Permanent id of a table: the id of a dropped table is never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableId(pub u32);

impl TableId {
    /// Smallest id of a user's table; smaller ones are system tables.
    pub const FIRST: Self = Self(1000);

    /// Returns `true` for a system table.
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

/// Permanent id of a column of a table: the id of a dropped column is never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ColumnId(pub u16);

impl fmt::Display for ColumnId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Position of a partition in token order, as computed by Cassandra's `Murmur3Partitioner`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub i64);

impl Token {
    /// Smallest token; only the empty partition key has it.
    pub const MIN: Self = Self(i64::MIN);
    /// The largest token.
    pub const MAX: Self = Self(i64::MAX);

    /// Returns the part of all tokens that is below this one, from 0 to 1.
    #[must_use]
    pub fn part(self) -> f64 {
        let (below, all) = (self.0.cast_unsigned() ^ (1 << 63), u64::MAX);
        #[expect(clippy::cast_precision_loss, reason = "a part of a progress")]
        let part = below as f64 / all as f64;
        part
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Number of a leader's term; each new leader has a larger one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub u64);
