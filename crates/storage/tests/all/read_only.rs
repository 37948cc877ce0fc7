//! Read-only databases on disks that accept no writes.

use std::collections::BTreeMap;

use carnet_base::{ErrorKind, Rng, SeededRng};
use carnet_storage::disk::Disk;
use carnet_storage::disk::sim::SimDisk;
use carnet_storage::{Engine, Options, inspect};

use crate::support;
use crate::support::{Mix, Model, append, check_recovered, open, run};

const MIX: Mix = Mix { tables: 2, partitions: 4, clusterings: 3, payload_bytes: 400 };

fn options() -> Options {
    Options {
        flush_bytes: 20_000,
        table_options: support::blocks(500),
        log_ahead_bytes: 100,
        compaction: support::small_compaction(),
        ..Options::default()
    }
}

fn read_only() -> Options {
    Options { read_only: true, ..options() }
}

fn files(disk: &SimDisk) -> BTreeMap<String, Vec<u8>> {
    let names = disk.list().unwrap();
    names.into_iter().map(|name| (name.clone(), disk.contents(&name).unwrap())).collect()
}

/// Returns the data after a power failure in a random workload, on a full disk, and the promises.
fn crashed(seed: u64) -> (SimDisk, Model, SeededRng) {
    let mut rng = SeededRng::new(seed);
    let disk = SimDisk::new(seed);
    disk.halt_at(40 + rng.below(400));
    let mut model = Model::default();
    // In most of the runs the power fails.
    let _ = run(&disk, &options(), &mut model, &MIX, 80, &mut rng);
    let disk = disk.crash(&mut rng);
    disk.full_from(1);
    (disk, model, rng)
}

#[test]
fn full_disk_opens_read_only() {
    for seed in 0..60 {
        let (disk, mut model, mut rng) = crashed(seed);
        if disk.contents("MANIFEST").is_none() {
            let error = open(&disk, read_only()).err().unwrap();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
            continue;
        }
        inspect::verify(&(std::sync::Arc::new(disk.clone()) as _), |_| ())
            .unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        assert!(open(&disk, options()).is_err(), "seed {seed}: the disk is full");
        // That opening may have cut a torn tail.
        let before = files(&disk);
        let outcome = check_recovered(&disk.kill(), &read_only(), &mut model.clone(), &mut rng);
        assert_eq!(outcome, Ok(()), "seed {seed}");
        let outcome = check_recovered(&disk, &read_only(), &mut model, &mut rng);
        assert_eq!(outcome, Ok(()), "seed {seed}");
        assert_eq!(files(&disk), before, "seed {seed}: a file was changed");
    }
}

#[test]
fn read_only_database_refuses_writes() {
    let disk = SimDisk::new(3);
    let (mut model, mut rng) = (Model::default(), SeededRng::new(3));
    run(&disk, &options(), &mut model, &MIX, 80, &mut rng).unwrap();
    disk.full_from(1);
    let (engine, workers) = open(&disk, read_only()).unwrap();
    engine.adopt_recovered().unwrap();
    let refused = append(&engine, &mut model.clone(), &MIX, &mut rng).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid);
    assert!(refused.to_string().contains("for reading only"), "{refused}");
    let spilled = engine.spill(support::time(1_000_000)).add([].into_iter() as Nothing);
    assert_eq!(spilled.unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(engine.compact().unwrap_err().kind(), ErrorKind::Invalid);
    for worker in 0..2 {
        workers.step(worker);
    }
    support::compare_at(&engine, &model, engine.published(), &mut rng).unwrap();
    Engine::close(engine).unwrap();
}

type Nothing = std::array::IntoIter<(carnet_base::CellKeyRef<'static>, Option<&'static [u8]>), 0>;
