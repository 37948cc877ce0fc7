//! GC watermarks after crashes.

use carnet_base::{Rng, SeededRng};
use carnet_storage::disk::sim::SimDisk;
use carnet_storage::{Durability, Options};

use crate::support;
use crate::support::{Forget, Mix, Model, append, open};

const MIX: Mix = Mix { tables: 1, partitions: 3, clusterings: 2, payload_bytes: 100 };

/// A crash that may have lost commits raises `swept` above all assigned timestamps. Repeated power
/// failures do not raise `forgotten`.
#[test]
fn repeated_crashes_do_not_raise_forgotten() {
    let mut rng = SeededRng::new(3);
    let options = Options { durability: Durability::None, ..Options::default() };
    let mut disk = SimDisk::new(rng.next_u64());
    let mut model = Model::default();
    let (engine, workers) = open(&disk, options.clone()).unwrap();
    engine.raise_bound(support::time(1_000_000)).unwrap();
    let forget = Forget::nothing_yet(&engine);
    for _ in 0..50 {
        drop(append(&engine, &mut model, &MIX, &mut rng).unwrap());
    }
    engine.flush().unwrap();
    let mark = model.records[20].1;
    forget.below(mark);
    engine.compact().unwrap();
    assert_eq!((engine.swept(), engine.forgotten()), (mark, mark));
    disk.halt();
    drop((engine, workers));
    for _ in 0..3 {
        disk = disk.crash(&mut rng);
        let (engine, workers) = open(&disk, options.clone()).unwrap();
        assert_eq!(engine.swept(), engine.timestamp_bound(), "commits may be lost");
        assert_eq!(engine.forgotten(), mark);
        disk.halt();
        drop((engine, workers));
    }
}
