//! One file per engine with its API calls. All settings are in `settings.rs`.

mod carnet;
mod carnet_engine;
mod fjall;
mod lmdb;
mod redb;
#[cfg(feature = "rocksdb")]
pub(crate) mod rocksdb;
mod surrealkv;

use anyhow::{Context, Result};

use crate::engine::{Kind, Setup, Store};

/// Opens a new database of an engine in an empty directory.
pub(crate) fn open(kind: Kind, setup: &Setup) -> Result<Box<dyn Store>> {
    let opened: Result<Box<dyn Store>> = match kind {
        Kind::Carnet => carnet::open(setup, ::carnet::Isolation::StrictSerializable),
        Kind::CarnetSnapshot => carnet::open(setup, ::carnet::Isolation::Snapshot),
        Kind::CarnetEngine => carnet_engine::open(setup),
        #[cfg(feature = "rocksdb")]
        Kind::Rocksdb => rocksdb::open(setup, rocksdb::Mode::Vanilla),
        #[cfg(feature = "rocksdb")]
        Kind::RocksdbUnordered => rocksdb::open(setup, rocksdb::Mode::Unordered),
        #[cfg(feature = "rocksdb")]
        Kind::RocksdbPreparedUnordered => rocksdb::open(setup, rocksdb::Mode::PreparedUnordered),
        #[cfg(feature = "rocksdb")]
        Kind::RocksdbCommitted => rocksdb::open(setup, rocksdb::Mode::Committed),
        #[cfg(feature = "rocksdb")]
        Kind::RocksdbOptimistic => rocksdb::open(setup, rocksdb::Mode::Optimistic),
        Kind::Fjall => fjall::open(setup, fjall::Writer::Batches),
        Kind::FjallOptimistic => fjall::open(setup, fjall::Writer::Optimistic),
        Kind::Surrealkv => surrealkv::open(setup),
        Kind::Redb => redb::open(setup),
        Kind::Lmdb => lmdb::open(setup),
    };
    opened.with_context(|| format!("{} cannot be opened", kind.name()))
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::thread;

    use clap::ValueEnum;

    use super::*;
    use crate::data::{Key, Rows, Seen, VALUE_BYTES};
    use crate::engine::{Compression, Direction, Durability, Outcome, ReadAndPut, Shape};

    const COUNT: u64 = 2000;

    fn setup(dir: &Path, shape: Shape, durability: Durability) -> Setup {
        Setup {
            dir: dir.to_owned(),
            durability,
            shape,
            compression: Compression::None,
            memtable_bytes: 64 << 20,
            cache_bytes: 64 << 20,
            cache_binds: false,
            checks_conflicts: true,
        }
    }

    fn try_out(kind: Kind, shape: Shape, durability: Durability) -> Result<()> {
        let dir = tempfile::tempdir()?;
        let setup = setup(dir.path(), shape, durability);
        let store = open(kind, &setup)?;
        let rows = Rows::new(3);
        let mut keys: Vec<_> = (0..COUNT).map(|number| rows.key(number)).collect();
        keys.sort_unstable();
        {
            let mut session = store.session()?;
            for first in (0..COUNT).step_by(100) {
                let batch: Vec<_> = (first..first + 100).map(|number| rows.row(number)).collect();
                session.write(&batch)?;
            }
        }
        for settled in [false, true] {
            if settled {
                store.settle()?;
            }
            let mut session = store.session()?;
            let mut seen = Seen::default();
            for key in &keys {
                session.get(key, &mut seen)?;
            }
            session.get(&rows.key(COUNT), &mut seen)?;
            assert_eq!((seen.rows, seen.absent, seen.wrong), (COUNT, 1, 0), "{kind:?} {shape:?}");
            session.snapshot(&mut |snapshot| {
                let mut seen = Seen::default();
                snapshot.get(&keys[7], &mut seen)?;
                snapshot.scan(&keys[700], Direction::Forward, 100, &mut seen)?;
                snapshot.scan(&keys[700], Direction::Reversed, 100, &mut seen)?;
                assert_eq!((seen.rows, seen.wrong), (201, 0), "{kind:?} {shape:?}");
                Ok(())
            })?;
            if shape != Shape::Hashed {
                // In key order this is the number of rows on either side, the key itself included.
                for (direction, left) in [(Direction::Forward, 10), (Direction::Reversed, 1991)] {
                    let mut seen = Seen::default();
                    session.snapshot(&mut |snapshot| {
                        snapshot.scan(&keys[1990], direction, 5000, &mut seen)
                    })?;
                    assert_eq!((seen.rows, seen.wrong), (left, 0), "{kind:?} {direction:?}");
                }
            }
        }
        Ok(())
    }

    /// Increments a row in transactions of several threads, a fixed number of times each.
    fn count(kind: Kind, shape: Shape) -> Result<()> {
        const THREADS: u64 = 4;
        const EACH: u64 = 500;
        let dir = tempfile::tempdir()?;
        let store = open(kind, &setup(dir.path(), shape, Durability::None))?;
        let key: &Key = &[7; 16];
        let keys = ReadAndPut { read: key, put: key };
        let parse = |value: &[u8]| value.first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
        let one = || -> Result<()> {
            let mut session = store.session()?;
            let mut committed = 0;
            while committed < EACH {
                let outcome = session.update(keys, &mut |found| {
                    let next = found.map_or(0, parse) + 1;
                    let mut value = [0; VALUE_BYTES];
                    value[..8].copy_from_slice(&next.to_le_bytes());
                    value
                })?;
                committed += u64::from(outcome == Outcome::Committed);
            }
            Ok(())
        };
        thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(one)).collect();
            threads.into_iter().try_for_each(|thread| thread.join().unwrap())
        })?;
        let mut last = 0;
        store.session()?.update(keys, &mut |found| {
            last = found.map_or(0, parse);
            [0; VALUE_BYTES]
        })?;
        assert_eq!(last, THREADS * EACH, "{kind:?} {shape:?}");
        Ok(())
    }

    const fn shapes(kind: Kind) -> &'static [Shape] {
        if kind.has_shapes() { &[Shape::Hashed, Shape::Raw] } else { &[Shape::Ordered] }
    }

    #[test]
    fn no_transaction_overwrites_unread_value() {
        for kind in Kind::transactional() {
            for &shape in shapes(kind) {
                count(kind, shape).unwrap();
            }
        }
    }

    #[test]
    fn every_engine_returns_written_rows() {
        for &kind in Kind::value_variants() {
            for &shape in shapes(kind) {
                for durability in [Durability::None, Durability::Always] {
                    try_out(kind, shape, durability).unwrap();
                }
            }
        }
    }
}
