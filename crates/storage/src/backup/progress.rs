//! Progress of a backup.

/// Progress of a backup, its verification or its restore.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Bytes of completed files.
    pub bytes: u64,
    /// Bytes of all files.
    pub bytes_total: u64,
}
