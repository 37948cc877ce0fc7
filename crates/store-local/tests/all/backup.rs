//! Restored stores have separate timestamps.

use std::sync::Arc;
use std::time::Duration;

use carnet_base::{SeededRng, SystemClock, ThreadSpawn, Timestamp, block_on};
use carnet_storage::Options;
use carnet_storage::backup::sim::SimVault;
use carnet_storage::disk::Disk;
use carnet_storage::disk::sim::SimDisk;
use carnet_store::conformance::PlainOrder;
use carnet_store::{BeginKind, CommitLog, CommitOrder, Context, LogStart};
use carnet_store_local::{DEFAULT_ENCODING, LocalStore};

fn order(life: LogStart) -> Box<dyn CommitOrder> {
    Box::new(PlainOrder::starting_above(life.first))
}

fn open(disk: &SimDisk) -> LocalStore {
    let (disk, clock, options) =
        (Arc::new(disk.clone()), Arc::new(SystemClock), Options::default());
    let retention = Duration::ZERO;
    let opened =
        LocalStore::open(disk, clock, &ThreadSpawn, options, retention, DEFAULT_ENCODING, order);
    let store = opened.unwrap();
    store.row_tables().set_all_raw();
    store
}

fn first_start(store: &LocalStore) -> Timestamp {
    block_on(store.begin(&Context::unbounded(), BeginKind::ReadWrite)).unwrap().start.unwrap()
}

#[test]
fn restored_stores_share_no_timestamp() {
    let vault = SimVault::new(1);
    let old = open(&SimDisk::new(1));
    let backup = old.begin_backup(&vault, "test", Duration::ZERO).unwrap().run(|_| {}).unwrap();
    let from: Arc<dyn Disk> = Arc::new(vault.disk(&backup.name).unwrap());
    let starts = [1, 2].map(|seed| {
        let disk = SimDisk::new(seed);
        let to: Arc<dyn Disk> = Arc::new(disk.clone());
        let layout = Options::default().table_options;
        let mut rng = SeededRng::new(seed);
        LocalStore::restore(&from, &to, None, false, layout, &mut rng, |_| {}).unwrap();
        first_start(&open(&disk)).get()
    });
    let least = first_start(&old).get() + (1 << 43);
    assert!(starts.iter().all(|start| *start > least), "{starts:?}");
    assert!(starts[0].abs_diff(starts[1]) > 1_000_000_000, "{starts:?}");
}
