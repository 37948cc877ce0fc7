//! The local store passes the suite, also when it flushes all the time.

#![expect(clippy::unwrap_used, reason = "helpers outside of #[test] functions unwrap as well")]

use std::sync::Arc;
use std::time::Duration;

use carnet_base::{SystemClock, ThreadSpawn};
use carnet_storage::Options;
use carnet_storage::disk::RealDisk;
use carnet_store::conformance::{PlainOrder, run};
use carnet_store::{CommitOrder, Life};
use carnet_store_local::LocalStore;

/// None: compaction forgets whatever no snapshot in use can see.
const RETENTION: Duration = Duration::ZERO;

fn order(life: Life) -> Box<dyn CommitOrder> {
    Box::new(PlainOrder::starting_above(life.first))
}

fn run_with(options: &Options) {
    let dirs = tempfile::tempdir().unwrap();
    let mut count = 0;
    run(|| {
        count += 1;
        let disk = RealDisk::open(dirs.path().join(format!("{count}"))).unwrap();
        let clock = Arc::new(SystemClock);
        LocalStore::open(Arc::new(disk), clock, &ThreadSpawn, options.clone(), RETENTION, order)
            .unwrap()
    });
}

#[test]
fn the_local_store_conforms() {
    run_with(&Options::default());
}

#[test]
fn the_local_store_conforms_when_it_flushes_all_the_time() {
    run_with(&Options { flush_bytes: 2_000, ..Options::default() });
}
