//! Classes of statements.

/// Kinds of statements that do not wait for each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// Statements that only read.
    Read,
    /// Statements that may write.
    Write,
    /// Reads of system tables, schema changes, and all other statements that drivers need to
    /// connect.
    System,
}

impl Class {
    /// All classes, in the order of their gates.
    pub const ALL: [Self; 3] = [Self::Read, Self::Write, Self::System];

    /// Returns the name in metrics and messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::System => "system",
        }
    }
}
