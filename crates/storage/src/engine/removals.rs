//! Tables to be removed.

/// Tables that are not in the manifest any more, and files whose removal is deferred.
#[derive(Default)]
pub(super) struct Removals {
    pub(super) held: usize,
    pub(super) deferred: Vec<u64>,
}
