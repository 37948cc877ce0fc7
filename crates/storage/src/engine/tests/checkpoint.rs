//! Order of the steps of a checkpoint.

use super::*;
use crate::engine::compact::LOOK_AGAIN;

/// Between a read of the manifest and a hold that comes after it, a compaction could remove a table of
/// the checkpoint.
#[test]
fn checkpoint_holds_removals_before_it_reads_the_manifest() {
    let (disk, workers) = (SimDisk::new(1), Stepped::default());
    let engine = open(&disk, &workers, Options::default());
    let core = &engine.core;
    let (held, frozen) = std::thread::scope(|scope| {
        let mut manifest = lock(&core.manifest);
        let freezing = scope.spawn(|| engine.freeze());
        // A checkpoint that reads the manifest first waits for it, and never holds.
        let is_held = || lock(&core.removals).held == 1;
        let held = (0..2_000).any(|_| {
            Signal::new().wait(Some(LOOK_AGAIN));
            is_held()
        });
        manifest.next_file += 100;
        drop(manifest);
        (held, freezing.join().unwrap())
    });
    assert!(held, "the manifest was read first");
    assert_eq!(frozen.manifest.next_file, lock(&core.manifest).next_file, "read while it holds");
    drop(frozen);
    assert_eq!(lock(&core.removals).held, 0);
}
