//! Classes of requests.

/// Class of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Writes of the log.
    Wal,
    /// Reads of statements. A queue orders them by service level before they reach the device.
    Read,
    /// Writes of flushed tables.
    Flush,
    /// Reads and writes of compactions.
    Compaction,
    /// Backups, verification, migrations.
    Maintenance,
}

impl Class {
    /// Number of classes.
    pub const KINDS: usize = 5;

    /// Names of the classes, in the order of [`Class::kind`].
    pub const NAMES: [&'static str; Self::KINDS] =
        ["wal", "read", "flush", "compaction", "maintenance"];

    /// Returns the index of the class in [`Class::NAMES`].
    #[must_use]
    pub const fn kind(self) -> usize {
        match self {
            Self::Wal => 0,
            Self::Read => 1,
            Self::Flush => 2,
            Self::Compaction => 3,
            Self::Maintenance => 4,
        }
    }

    /// Returns the index among background classes; `None` for the log and reads.
    pub(super) const fn background(self) -> Option<usize> {
        match self {
            Self::Wal | Self::Read => None,
            Self::Flush => Some(0),
            Self::Compaction => Some(1),
            Self::Maintenance => Some(2),
        }
    }
}
