//! Tables to be removed.

/// Removals of tables that are not in the manifest any more.
#[derive(Default)]
pub(super) struct Removals {
    /// Number of checkpoints and backups in progress; while it is not zero, removals are deferred.
    pub(super) held: usize,
    /// Numbers of the tables whose removal is deferred.
    pub(super) deferred: Vec<u64>,
}
