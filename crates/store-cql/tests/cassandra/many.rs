//! Reads of many cells return the same as single reads.

use carnet_base::{
    CellKey, PartitionKey, Rng as _, SeededRng, TableId, Timestamp, Version, block_on,
};
use carnet_store::Context;
use carnet_store::cluster::{ClusterCells, MemoryCluster, Statement, VersionName, VersionWrite};

use crate::keyspace::keyspace;

fn at(number: u64) -> Timestamp {
    Timestamp::new(number).unwrap()
}

fn key(table: u32, partition: &str, clustering: &str) -> CellKey {
    let partition = PartitionKey::new(partition.as_bytes().to_vec());
    CellKey::new(TableId(table), &partition, clustering)
}

fn write(key: CellKey, start: u64, payload: Option<&'static str>) -> VersionWrite {
    let payload = payload.map(Into::into);
    VersionWrite { key, start: at(start), statement: Statement(0), payload }
}

fn put(cluster: &impl ClusterCells, writes: &[VersionWrite]) {
    block_on(cluster.write_versions(&Context::unbounded(), writes)).unwrap();
}

fn read(cluster: &impl ClusterCells, keys: &[CellKey], through: u64) -> Vec<Option<Version>> {
    block_on(cluster.read_versions(&Context::unbounded(), keys, at(through))).unwrap()
}

#[test]
fn many_cells_are_read_as_each_of_them() {
    let Some(keyspace) = keyspace() else { return };
    let (cluster, model) = (keyspace.connect(), MemoryCluster::new());
    let seed = 7;
    let mut rng = SeededRng::new(seed);
    // Partitions of one kind, a wide one, and the empty one. Some cells are tombstones, some have
    // several versions, some a stamp above all of them.
    let mut cells = Vec::new();
    for table in [2000, 2001] {
        cells.extend((0..200).map(|n| key(table, &format!("p{}", n / 4), &(n % 4).to_string())));
        cells.extend((0..300).map(|n| key(table, "wide", &format!("{n:03}"))));
        cells.extend((0..5).map(|n| key(table, "", &n.to_string())));
    }
    let mut writes = Vec::new();
    let mut stamps = Vec::new();
    for cell in &cells {
        for _ in 0..rng.below(4) {
            let payload = (rng.below(4) > 0).then_some("payload");
            writes.push(write(cell.clone(), 1 + rng.below(50), payload));
        }
        if rng.below(5) == 0 {
            let name = VersionName { key: cell.clone(), start: at(1 + rng.below(50)) };
            stamps.push((name, at(90)));
        }
    }
    writes.sort_by(|a, b| (&a.key, a.start).cmp(&(&b.key, b.start)));
    writes.dedup_by(|a, b| (&a.key, a.start) == (&b.key, b.start));
    put(&cluster, &writes);
    put(&model, &writes);
    block_on(cluster.stamp_versions(&stamps)).unwrap();
    block_on(model.stamp_versions(&stamps)).unwrap();
    for round in 0..30 {
        let many = if round < 3 { 1010 } else { rng.below(300) };
        // In any order, some of them twice.
        let pick = |_| cells[usize::try_from(rng.below(cells.len() as u64)).unwrap()].clone();
        let mut keys: Vec<CellKey> = (0..many).map(pick).collect();
        if round < 3 {
            keys.clone_from(&cells);
        }
        let through = [15, 40, 1000][round % 3];
        let (found, wanted) = (read(&cluster, &keys, through), read(&model, &keys, through));
        assert_eq!(found, wanted, "{many} cells through {through}, seed {seed}, round {round}");
    }
}

#[test]
fn a_read_that_is_dropped_is_over() {
    let Some(keyspace) = keyspace() else { return };
    let cluster = keyspace.connect();
    let cells: Vec<CellKey> = (0..500).map(|n| key(2000, "p", &format!("{n:03}"))).collect();
    let writes: Vec<VersionWrite> =
        cells.iter().map(|cell| write(cell.clone(), 5, Some("payload"))).collect();
    put(&cluster, &writes);
    let deadline = Context::until(carnet_base::Moment::default());
    let late = block_on(cluster.read_versions(&deadline, &cells, at(9))).unwrap_err();
    assert_eq!(late.into_error().kind(), carnet_base::ErrorKind::Timeout);
    for _ in 0..50 {
        let context = Context::unbounded();
        let mut read = Box::pin(cluster.read_versions(&context, &cells, at(9)));
        let mut waiting = std::task::Context::from_waker(std::task::Waker::noop());
        // Sometimes it is answered at once.
        let _ = read.as_mut().poll(&mut waiting);
    }
    assert!(read(&cluster, &cells, 9).iter().all(Option::is_some));
}
