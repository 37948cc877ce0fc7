//! Large transactions: writes that exceed the memory limit are spilled to private files, without
//! any other visible effect.

use std::collections::BTreeMap;
use std::sync::Arc;

use carnet::{Db, Durability, ErrorKind, RawTable, Result, SyncTx, TransactionLimits};
use carnet_base::{Rng, SeededRng};
use carnet_storage::disk::Disk;
use carnet_storage::disk::sim::SimDisk;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn limits(spill_bytes: u64) -> TransactionLimits {
    TransactionLimits { spill_bytes, ..TransactionLimits::default() }
}

fn open(disk: &SimDisk, spill_bytes: u64) -> Result<(Db, RawTable)> {
    let builder =
        Db::builder().durability(Durability::Always).transaction_limits(limits(spill_bytes));
    let db = builder.open_on(Arc::new(disk.clone()))?;
    let table = db.raw("t")?;
    Ok((db, table))
}

fn tables(disk: &SimDisk) -> usize {
    disk.list().unwrap().iter().filter(|name| name.starts_with("sst-")).count()
}

fn check(table: &RawTable, tx: &SyncTx, model: &Model, rng: &mut SeededRng) {
    let key = |rng: &mut SeededRng| vec![rng.next_u64().to_le_bytes()[0]];
    let one = key(rng);
    assert_eq!(table.get(tx, &one).unwrap().map(|v| v.to_vec()), model.get(&one).cloned());
    let (mut from, mut to) = (key(rng), key(rng));
    if from > to {
        std::mem::swap(&mut from, &mut to);
    }
    let reverse = rng.chance(500);
    let rows =
        table.range(tx, from.clone()..to.clone()).page(1 + usize::try_from(rng.below(9)).unwrap());
    let rows = if reverse { rows.rev() } else { rows };
    let seen: Vec<_> =
        rows.map(|row| row.map(|(k, v)| (k.to_vec(), v.to_vec())).unwrap()).collect();
    let mut due: Vec<_> = model.range(from..to).map(|(k, v)| (k.clone(), v.clone())).collect();
    if reverse {
        due.reverse();
    }
    assert_eq!(seen, due);
}

fn read(table: &RawTable, snapshot: &carnet::Snapshot) -> Model {
    let rows = table.range::<_, &[u8]>(snapshot, ..);
    rows.map(|row| row.map(|(k, v)| (k.to_vec(), v.to_vec())).unwrap()).collect()
}

/// Compares puts, deletions, reads and scans in both directions, over existing data, with a map.
#[test]
fn transaction_sees_its_spilled_writes() {
    for seed in 0..8 {
        println!("seed {seed}");
        let mut rng = SeededRng::new(seed);
        let disk = SimDisk::new(seed);
        let (db, table) = open(&disk, 500 + rng.below(4000)).unwrap();
        let mut model = Model::new();
        db.transact(|tx| (0..200_u8).step_by(3).try_for_each(|at| table.put(tx, [at], "before")))
            .unwrap();
        model.extend((0..200_u8).step_by(3).map(|at| (vec![at], b"before".to_vec())));
        let before = model.clone();
        let old = db.snapshot().unwrap();
        let tx = db.begin().unwrap();
        for step in 0..600_u64 {
            let key = vec![rng.next_u64().to_le_bytes()[0]];
            if rng.chance(300) {
                table.delete(&tx, &key).unwrap();
                model.remove(&key);
            } else {
                let value = [step.to_be_bytes().to_vec(), vec![7; 30]].concat();
                table.put(&tx, &key, &value).unwrap();
                model.insert(key, value);
            }
            if step % 10 == 0 {
                check(&table, &tx, &model, &mut rng);
            }
        }
        if rng.chance(200) {
            tx.rollback();
            model = before.clone();
        } else {
            tx.commit().unwrap();
        }
        drop(tx);
        assert_eq!(read(&table, &db.snapshot().unwrap()), model);
        assert_eq!(read(&table, &old), before, "an older snapshot sees none of it");
        drop(old);
        db.transact(|tx| table.put(tx, "zz", "later")).unwrap();
        model.insert(b"zz".to_vec(), b"later".to_vec());
        db.compact().unwrap();
        assert_eq!(read(&table, &db.snapshot().unwrap()), model);
        assert_eq!(tables(&disk), 1, "the private files are removed");
        drop((table, db));
        let (db, table) = open(&disk, 4000).unwrap();
        assert_eq!(read(&table, &db.snapshot().unwrap()), model, "no write is lost");
    }
}

/// Runs one large transaction, and ends the process or the machine at each disk operation.
#[test]
fn large_transaction_is_atomic_across_crashes() {
    let attempt = |disk: &SimDisk| -> Result<()> {
        let (db, table) = open(disk, 3_000)?;
        db.transact(|tx| table.put(tx, "a", "small"))?;
        db.transact(|tx| (0..200_u8).try_for_each(|at| table.put(tx, [at], vec![at; 100])))?;
        db.transact(|tx| table.put(tx, "b", "small"))
    };
    let whole = SimDisk::new(7);
    attempt(&whole).unwrap();
    let operations = whole.operations();
    assert!(operations > 40, "only {operations} operations");
    let mut outcomes = [0, 0];
    for at in 1..=operations {
        let mut rng = SeededRng::new(at);
        let disk = SimDisk::new(7);
        disk.halt_at(at);
        let done = attempt(&disk);
        let disk = if rng.chance(500) { disk.crash(&mut rng) } else { disk.kill() };
        let opened = open(&disk, 3_000);
        let (db, table) = opened.unwrap_or_else(|error| panic!("at {at}: {error}"));
        let snapshot = db.snapshot().unwrap();
        let there = (0..200_u8)
            .filter(|key| {
                let found = table.get(&snapshot, [*key]).unwrap();
                found.is_some_and(|value| value == vec![*key; 100])
            })
            .count();
        let is_there = there > 100;
        outcomes[usize::from(is_there)] += 1;
        // "a" and "b" are two of its cells, written by other transactions before and after it.
        let others = [&b"a"[..], b"b"].map(|key| table.get(&snapshot, key).unwrap());
        match there {
            0 => assert!(others[1].is_none(), "at {at}: what came later is there"),
            200 => {}
            199 => assert_eq!(others[1].as_deref(), Some(&b"small"[..]), "at {at}"),
            part => panic!("at {at}: {part} of 200 cells are there"),
        }
        assert!(is_there || done.is_err(), "at {at}: acknowledged and lost");
    }
    assert!(outcomes[0] > 5 && outcomes[1] > 5, "{outcomes:?}");
}

#[test]
fn conflicts_are_found_in_both_orders() {
    let (db, table) = open(&SimDisk::new(1), 3_000).unwrap();
    let fill = |tx: &SyncTx| (0..200_u8).try_for_each(|at| table.put(tx, [at], [at; 100]));
    let (large, small) = (db.begin().unwrap(), db.begin().unwrap());
    fill(&large).unwrap();
    table.put(&small, [100], "").unwrap();
    small.commit().unwrap();
    assert_eq!(large.commit().unwrap_err().kind(), ErrorKind::Conflict, "it committed second");
    let (large, writer, reader) = (db.begin().unwrap(), db.begin().unwrap(), db.begin().unwrap());
    let blind = db.begin().unwrap();
    fill(&large).unwrap();
    table.put(&blind, [101], "blind").unwrap();
    table.get(&writer, [100]).unwrap();
    table.put(&writer, [100], "").unwrap();
    table.get(&reader, [150]).unwrap();
    table.put(&reader, "elsewhere", "").unwrap();
    let start = large.as_async().start_timestamp().unwrap();
    let commit = large.commit().unwrap();
    assert_eq!(db.outcome(start).unwrap(), carnet::Outcome::Committed(commit));
    assert_eq!(writer.commit().unwrap_err().kind(), ErrorKind::Conflict);
    assert_eq!(reader.commit().unwrap_err().kind(), ErrorKind::Conflict);
    blind.commit().unwrap();
    assert_eq!(table.get(&db, [101]).unwrap().as_deref(), Some(&b"blind"[..]));
    assert_eq!(table.get(&db, [102]).unwrap().as_deref(), Some(&[102; 100][..]));
}

/// A commit with more cells than the conflict state can list: a transaction that began before it is
/// refused, a later transaction is not.
#[test]
fn unlisted_commit_refuses_older_writers() {
    let disk = SimDisk::new(1);
    let (db, table) = open(&disk, 1 << 20).unwrap();
    let older = db.begin().unwrap();
    table.put(&older, "elsewhere", "").unwrap();
    let large = db.begin().unwrap();
    for cell in 0..150_000_u32 {
        table.put(&large, cell.to_be_bytes(), "").unwrap();
    }
    let beaten = db.begin().unwrap();
    table.put(&beaten, 149_999_u32.to_be_bytes(), "first").unwrap();
    let twin = db.begin().unwrap();
    table.put(&twin, 149_998_u32.to_be_bytes(), "first").unwrap();
    large.commit().unwrap();
    for writer in [older, beaten] {
        assert_eq!(writer.commit().unwrap_err().kind(), ErrorKind::TooOld);
    }
    db.transact(|tx| table.put(tx, "elsewhere", "")).unwrap();
    drop(twin);
    // The last of its cells is checked too.
    let large = db.begin().unwrap();
    for cell in 0..150_000_u32 {
        table.put(&large, cell.to_be_bytes(), "").unwrap();
    }
    db.transact(|tx| table.put(tx, 149_999_u32.to_be_bytes(), "meanwhile")).unwrap();
    assert_eq!(large.commit().unwrap_err().kind(), ErrorKind::Conflict);
    drop(large);
    db.compact().unwrap();
    assert_eq!(tables(&disk), 1, "the private files are removed");
}

#[test]
fn tables_are_not_dropped_beside_spilled_writes() {
    let (db, _) = open(&SimDisk::new(1), 1_000).unwrap();
    let table = db.raw("large.t").unwrap();
    let tx = db.begin().unwrap();
    for cell in 0..100_u8 {
        table.put(&tx, [cell], [0; 100]).unwrap();
    }
    let error = carnet::block_on(carnet::catalog::drop_table(tx.as_async(), "large", "t"));
    assert_eq!(error.unwrap_err().kind(), ErrorKind::Unsupported);
}
