//! Service levels are durable, and other processes see them.

use std::sync::Arc;
use std::time::Duration;

use carnet::cluster::{Address, LocalNetwork, MemoryCluster, SequencerOptions};
use carnet::levels::{DEFAULT, Setting};
use carnet::{Db, ErrorKind, Isolation, block_on};
use carnet_base::{ThreadSpawn, WorkerTasks};

fn shares(db: &Db, user: &str) -> u32 {
    db.levels().effective(&[user]).options.shares
}

fn create(db: &Db, name: &str, shares: u32) {
    let settings = [Setting::Shares(Some(shares))];
    block_on(db.change_levels(|levels| {
        levels.create(name, &settings)?;
        levels.attach(name, "ann")
    }))
    .unwrap();
}

#[test]
fn levels_survive_the_process() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("data");
    let db = Db::open(&path).unwrap();
    create(&db, "reports", 100);
    let timeout = Setting::Timeout(Some(Duration::from_millis(7)));
    block_on(db.change_levels(|levels| levels.alter(DEFAULT, &[timeout]))).unwrap();
    block_on(db.change_levels(|levels| levels.create("dropped", &[]))).unwrap();
    block_on(db.change_levels(|levels| levels.drop("dropped"))).unwrap();
    let before = db.levels();
    drop(db);
    let db = Db::open(&path).unwrap();
    block_on(db.refresh_levels()).unwrap();
    assert_eq!(db.levels(), before);
    assert_eq!(shares(&db, "ann"), 100);
    assert_eq!(db.levels().effective(&["bob"]).options.timeout, Some(Duration::from_millis(7)));
}

#[test]
fn refused_change_leaves_nothing_behind() {
    let db = Db::builder().in_memory();
    create(&db, "reports", 100);
    let before = db.levels();
    let refused = block_on(db.change_levels(|levels| {
        levels.drop("reports")?;
        levels.create("more", &[Setting::Shares(Some(2000))])
    }));
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(db.levels(), before);
    block_on(db.refresh_levels()).unwrap();
    assert_eq!(db.levels(), before);
    let twice = block_on(db.change_levels(|levels| levels.create("reports", &[])));
    assert_eq!(twice.unwrap_err().kind(), ErrorKind::AlreadyExists);
}

/// Each transaction reads the set and writes a changed one: without a conflict, one change would be
/// lost.
#[test]
fn concurrent_changes_conflict_at_every_isolation_level() {
    for isolation in [Isolation::Snapshot, Isolation::Serializable, Isolation::StrictSerializable] {
        let db = Db::builder().isolation(isolation).in_memory();
        std::thread::scope(|threads| {
            for thread in 0..4 {
                let db = &db;
                threads.spawn(move || {
                    for number in 0..5 {
                        let name = format!("l{thread}{number}");
                        block_on(db.change_levels(|levels| levels.create(&name, &[]))).unwrap();
                    }
                });
            }
        });
        let known = db.levels();
        assert_eq!(known.iter().count(), 22, "{isolation:?}");
        let mut ids: Vec<u64> = known.iter().map(|level| level.level.id.0).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), 22, "each level has its own id");
        block_on(db.refresh_levels()).unwrap();
        assert_eq!(db.levels(), known);
    }
}

#[test]
fn processes_over_a_cluster_share_levels() {
    let cluster = Arc::new(MemoryCluster::new());
    let network = LocalNetwork::new(Arc::new(WorkerTasks::new("network", &ThreadSpawn)));
    let process = |name: &str| {
        let (address, options) = (Address::new(name).unwrap(), SequencerOptions::default());
        let (network, cluster) = (network.clone(), Arc::clone(&cluster));
        let at = address.clone();
        let listen = |handler: &_| network.listen(at, handler);
        Db::builder().open_cluster(cluster, network.clone(), address, options, listen).unwrap()
    };
    let (one, other) = (process("one"), process("other"));
    block_on(other.refresh_levels()).unwrap();
    create(&one, "reports", 100);
    assert_eq!((shares(&one, "ann"), shares(&other, "ann")), (100, 1000));
    block_on(other.refresh_levels()).unwrap();
    assert_eq!(shares(&other, "ann"), 100);
    let settings = [Setting::Shares(Some(5))];
    block_on(other.change_levels(|levels| levels.alter("reports", &settings))).unwrap();
    block_on(one.refresh_levels()).unwrap();
    assert_eq!((shares(&one, "ann"), shares(&other, "ann")), (5, 5));
}
