//! Threads on which disk reads run.

use std::sync::Arc;

use carnet::{CellKey, Db, RawTable, block_on};
use carnet_base::block_on_one;
use carnet_storage::disk::sim::{Kind, SimDisk};

const ROWS: usize = 2_000;

fn key(row: usize) -> String {
    format!("{row:06}")
}

/// Opens a database whose rows lie in many blocks, none of them in memory.
fn cold() -> (SimDisk, Db, RawTable) {
    let disk = SimDisk::new(1);
    let db = Db::builder().open_on(Arc::new(disk.clone())).unwrap();
    let table = db.raw("t").unwrap();
    db.transact(|tx| (0..ROWS).try_for_each(|row| table.put(tx, key(row), [7; 200]))).unwrap();
    db.flush().unwrap();
    drop((db, table));
    let db = Db::builder().open_on(Arc::new(disk.clone())).unwrap();
    let table = db.raw("t").unwrap();
    (disk, db, table)
}

/// Runs a closure; returns the number of disk reads, and the number of those on this thread.
fn reads(disk: &SimDisk, run: impl FnOnce()) -> (u64, u64) {
    let count = || (disk.count(Kind::Read), disk.reads_on_caller());
    let before = count();
    run();
    let after = count();
    (after.0 - before.0, after.1 - before.1)
}

#[test]
fn synchronous_reads_stay_on_the_calling_thread() {
    let (disk, db, table) = cold();
    let snapshot = db.snapshot().unwrap();
    let tx = db.begin().unwrap();
    let all_here = |what: &str, run: &dyn Fn()| {
        let (reads, here) = reads(&disk, run);
        assert!(reads > 0 && here == reads, "{what}: {here} of {reads}");
    };
    all_here("a snapshot's get", &|| {
        table.get(&snapshot, key(0)).unwrap().unwrap();
    });
    all_here("a transaction's get", &|| {
        table.get(&tx, key(300)).unwrap().unwrap();
    });
    all_here("a get of what was committed last", &|| {
        table.get(&db, key(450)).unwrap().unwrap();
    });
    all_here("a page", &|| {
        assert_eq!(table.range(&snapshot, key(600)..key(700)).count(), 100);
    });
    all_here("a transaction's page", &|| {
        assert_eq!(table.range(&tx, key(900)..key(1000)).count(), 100);
    });
}

#[test]
fn concurrent_reads_run_on_other_threads() {
    let (disk, db, table) = cold();
    let snapshot = block_on(db.snapshot_async()).unwrap();
    let none_here = |what: &str, run: &dyn Fn()| {
        let (reads, here) = reads(&disk, run);
        assert!(reads > 0 && here == 0, "{what}: {here} of {reads}");
    };
    none_here("an asynchronous get", &|| {
        block_on(table.get(&snapshot, key(0))).unwrap().unwrap();
    });
    none_here("an asynchronous page", &|| {
        let page = block_on(table.range(&snapshot, key(300)..).next_page()).unwrap();
        assert_eq!(page.len(), 100);
    });
    let page = block_on(snapshot.range_cells(
        &carnet_base::KeyRange::table(table_of(&db)),
        false,
        carnet::PageLimit::cells(ROWS),
    ));
    let keys: Vec<CellKey> = page.unwrap().cells.iter().map(|cell| cell.key.to_key()).collect();
    assert_eq!(keys.len(), ROWS);
    drop((snapshot, table, db));

    // A caller that waits for a single future may still issue many reads at once.
    let db = Db::builder().open_on(Arc::new(disk.clone())).unwrap();
    let snapshot = block_on(db.snapshot_async()).unwrap();
    let some: Vec<CellKey> = keys.into_iter().step_by(100).collect();
    none_here("many gets", &|| {
        let found = block_on_one(snapshot.get_cells(&some)).unwrap();
        assert!(found.iter().all(Option::is_some));
    });
}

fn table_of(db: &Db) -> carnet_base::TableId {
    let snapshot = block_on(db.snapshot_async()).unwrap();
    block_on(carnet::catalog::table(&snapshot, carnet::table::DEFAULT_KEYSPACE, "t"))
        .unwrap()
        .unwrap()
        .id
}

/// A transaction must not fail because of a cell that its bounded read did not reach.
#[test]
fn bounded_multi_get_depends_on_returned_cells() {
    let db = Db::builder().in_memory();
    let table = db.raw("t").unwrap();
    db.transact(|tx| (0..9).try_for_each(|row| table.put(tx, key(row), [7; 100]))).unwrap();
    let snapshot = block_on(db.snapshot_async()).unwrap();
    let range = carnet_base::KeyRange::table(table_of(&db));
    let page = block_on(snapshot.range_cells(&range, false, carnet::PageLimit::cells(9))).unwrap();
    let keys: Vec<CellKey> = page.cells.iter().map(|cell| cell.key.to_key()).collect();
    let conflicts = |other: usize| {
        let tx = block_on(db.transaction().begin_async()).unwrap();
        block_on(table.put(&tx, key(1), [8; 100])).unwrap();
        let found = block_on(tx.get_first_cells(&keys, 300)).unwrap();
        let payloads: Vec<u8> = found.into_iter().map(|it| it.unwrap().payload[0]).collect();
        assert_eq!((payloads.len(), payloads[1]), (4, 8), "its own write costs no read");
        db.transact(|tx| table.put(tx, key(other), [9; 100])).unwrap();
        block_on(tx.commit()).is_err()
    };
    assert!(conflicts(3) && !conflicts(4));
}
