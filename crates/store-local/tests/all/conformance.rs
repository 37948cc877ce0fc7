//! The local store passes the conformance suite, also with constant flushes.

use std::sync::Arc;
use std::time::Duration;

use carnet_base::{Encoding, SystemClock, ThreadSpawn};
use carnet_storage::Options;
use carnet_storage::disk::sim::SimDisk;
use carnet_storage::disk::{Disk, RealDisk};
use carnet_store::conformance::{PlainOrder, run};
use carnet_store::{CommitOrder, LogStart};
use carnet_store_local::{DEFAULT_ENCODING, LocalStore};

/// No retention: compaction drops everything that no snapshot in use can see.
const RETENTION: Duration = Duration::ZERO;

fn order(life: LogStart) -> Box<dyn CommitOrder> {
    Box::new(PlainOrder::starting_above(life.first))
}

fn run_with(options: &Options, encoding: Encoding, mut disk: impl FnMut() -> Arc<dyn Disk>) {
    run(|| {
        let (options, clock) = (options.clone(), Arc::new(SystemClock));
        let opened =
            LocalStore::open(disk(), clock, &ThreadSpawn, options, RETENTION, encoding, order);
        let store = opened.unwrap();
        store.row_tables().set_all_raw();
        store
    });
}

/// Makes a new directory each time.
fn directories() -> impl FnMut() -> Arc<dyn Disk> {
    let dirs = tempfile::tempdir().unwrap();
    let mut count = 0;
    move || {
        count += 1;
        Arc::new(RealDisk::open(dirs.path().join(format!("{count}"))).unwrap())
    }
}

fn flushing() -> Options {
    Options { flush_bytes: 2_000, ..Options::default() }
}

#[test]
fn local_store_conforms() {
    run_with(&Options::default(), DEFAULT_ENCODING, directories());
}

#[test]
fn local_store_conforms_with_constant_flushes() {
    run_with(&flushing(), DEFAULT_ENCODING, directories());
}

#[test]
fn local_store_conforms_in_every_encoding() {
    for encoding in [Encoding::V1, Encoding::V2, Encoding::V3] {
        run_with(&flushing(), encoding, || Arc::new(SimDisk::new(1)));
    }
}
