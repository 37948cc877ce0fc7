//! Kinds of operations of a simulated disk.

/// Kinds of operations, which are counted and can fail separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Read of bytes.
    Read,
    /// Write of bytes, or change of a length.
    Write,
    /// Sync of a file.
    Sync,
    /// Sync of the directory.
    SyncDirectory,
    /// Creation of a file.
    Create,
    /// Opening of a file.
    Open,
    /// Renaming of a file.
    Rename,
    /// Removal of a file.
    Remove,
    /// Listing of the names.
    List,
}

impl Kind {
    /// All kinds of operations.
    pub const ALL: [Self; 9] = [
        Self::Read,
        Self::Write,
        Self::Sync,
        Self::SyncDirectory,
        Self::Create,
        Self::Open,
        Self::Rename,
        Self::Remove,
        Self::List,
    ];
}
