//! One file for each engine: how it is driven, and nothing of how it is set (`settings.rs`).

mod carnet;
mod carnet_engine;
mod fjall;
mod lmdb;
mod redb;
pub(crate) mod rocksdb;
mod surrealkv;

use anyhow::{Context, Result};

use crate::engine::{Kind, Setup, Store};

/// Opens a new database of a kind in an empty directory.
pub(crate) fn open(kind: Kind, setup: &Setup) -> Result<Box<dyn Store>> {
    let opened: Result<Box<dyn Store>> = match kind {
        Kind::Carnet => carnet::open(setup),
        Kind::CarnetEngine => carnet_engine::open(setup),
        Kind::Rocksdb => rocksdb::open(setup, rocksdb::Mode::Vanilla),
        Kind::RocksdbUnordered => rocksdb::open(setup, rocksdb::Mode::Unordered),
        Kind::RocksdbPreparedUnordered => rocksdb::open(setup, rocksdb::Mode::PreparedUnordered),
        Kind::RocksdbCommitted => rocksdb::open(setup, rocksdb::Mode::Committed),
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
    use clap::ValueEnum;

    use super::*;
    use crate::data::{Rows, Seen};
    use crate::engine::{Compression, Direction, Durability, Shape};

    const COUNT: u64 = 2000;

    fn try_out(kind: Kind, shape: Shape, durability: Durability) -> Result<()> {
        let dir = tempfile::tempdir()?;
        let setup = Setup {
            dir: dir.path().to_owned(),
            durability,
            shape,
            compression: Compression::None,
            memtable_bytes: 64 << 20,
            cache_bytes: 64 << 20,
            cache_binds: false,
        };
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
                // Ordered by key: so many are left on either side, the key itself counted.
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

    #[test]
    fn every_engine_returns_what_was_written() {
        for &kind in Kind::value_variants() {
            let shapes: &[Shape] =
                if kind.has_shapes() { &[Shape::Hashed, Shape::Raw] } else { &[Shape::Ordered] };
            for &shape in shapes {
                for durability in [Durability::None, Durability::Always] {
                    try_out(kind, shape, durability).unwrap();
                }
            }
        }
    }
}
