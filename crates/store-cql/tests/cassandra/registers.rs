//! Registers match a model, and one of several concurrent writers wins.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use carnet_base::{Bytes, Rng, SeededRng, block_on};
use carnet_store::cluster::{MemoryCluster, ReadMode, Register, Registers, SetAnswer};

use crate::keyspace::keyspace;

#[test]
fn registers_answer_as_the_model_does() {
    let Some(keyspace) = keyspace() else { return };
    let (cluster, model) = (keyspace.connect(), MemoryCluster::new());
    let registers = [Register::Lease, Register::Coordination, Register::SweepMark];
    let mut rng = SeededRng::new(7);
    for step in 0..120 {
        let register = registers[step % registers.len()];
        let value = |number: u64| Bytes::from(number.to_string());
        let expected = match rng.below(4) {
            0 => None,
            1 => Some(value(rng.below(3))),
            _ => block_on(model.read_register(register, ReadMode::Serial)).unwrap(),
        };
        let new = value(rng.below(3));
        let asked = block_on(cluster.compare_and_set(register, expected.as_ref(), &new)).unwrap();
        let wanted = block_on(model.compare_and_set(register, expected.as_ref(), &new)).unwrap();
        assert_eq!(asked, wanted, "step {step}: {expected:?} → {new:?}");
        for mode in [ReadMode::Serial, ReadMode::Quorum] {
            let read = block_on(cluster.read_register(register, mode)).unwrap();
            assert_eq!(read, block_on(model.read_register(register, mode)).unwrap());
        }
    }
}

#[test]
fn one_of_concurrent_register_writes_wins() {
    let Some(keyspace) = keyspace() else { return };
    let cluster = keyspace.connect();
    let wins = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..10 {
                    let read = cluster.read_register(Register::Lease, ReadMode::Serial);
                    let stored = block_on(read).unwrap();
                    let count: u64 = stored
                        .as_ref()
                        .map_or(0, |bytes| str::from_utf8(bytes).unwrap().parse().unwrap());
                    let next = Bytes::from((count + 1).to_string());
                    let set = cluster.compare_and_set(Register::Lease, stored.as_ref(), &next);
                    if block_on(set).unwrap() == SetAnswer::Applied {
                        wins.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    let last = block_on(cluster.read_register(Register::Lease, ReadMode::Serial)).unwrap().unwrap();
    assert_eq!(str::from_utf8(&last).unwrap(), wins.into_inner().to_string());
}
