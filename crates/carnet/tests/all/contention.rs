//! Contention: many transactions that change one row, and read sets of ranges read in part.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use carnet::{Db, Isolation, RawTable, block_on};

fn databases() -> Vec<(&'static str, Db, Option<tempfile::TempDir>)> {
    let dir = tempfile::tempdir().unwrap();
    let local = Db::open(dir.path().join("data")).unwrap();
    vec![("memory", Db::builder().in_memory(), None), ("local", local, Some(dir))]
}

fn number(table: &RawTable, db: &Db) -> u64 {
    let bytes = table.get(db, "hot").unwrap().unwrap();
    u64::from_be_bytes(bytes[..].try_into().unwrap())
}

async fn yield_times(mut times: u32) {
    poll_fn(|context| {
        if times == 0 {
            return Poll::Ready(());
        }
        times -= 1;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Adds one to a row. It yields between the read and the commit, so that all transactions have read
/// before the first one commits.
async fn add_one(db: &Db, table: &RawTable) -> carnet::Result<()> {
    db.run(|tx| async move {
        let before = table.get(&tx, "hot").await?;
        let before = before.map_or(0, |bytes| u64::from_be_bytes(bytes[..].try_into().unwrap()));
        yield_times(3).await;
        table.put(&tx, "hot", (before + 1).to_be_bytes()).await
    })
    .await
}

/// Polls all futures in turn until each has ended.
fn join_all<T>(mut futures: Vec<Pin<Box<dyn Future<Output = T> + '_>>>) -> Vec<T> {
    let mut outputs = Vec::new();
    while !futures.is_empty() {
        let mut context = Context::from_waker(Waker::noop());
        futures.retain_mut(|future| match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => {
                outputs.push(output);
                false
            }
            Poll::Pending => true,
        });
        std::thread::yield_now();
    }
    outputs
}

/// Without turns each round has one winner, and the last of 200 transactions needs more than 64
/// attempts.
#[test]
fn hot_row_serves_transactions_in_turn() {
    for (store, db, _dir) in databases() {
        let table = db.raw("counters").unwrap();
        let futures = (0..200).map(|_| Box::pin(add_one(&db, &table)) as _).collect();
        let failed = join_all(futures).into_iter().filter(Result::is_err).count();
        assert_eq!(failed, 0, "{store}");
        assert_eq!(number(&table, &db), 200, "{store}");
    }
}

/// Transactions that lose a different cell each time share a queue, which runs one of them at a
/// time.
#[test]
fn one_of_the_losers_runs_at_a_time() {
    let db = Db::builder().in_memory();
    let table = db.raw("t").unwrap();
    let runs = [Cell::new(0_u8), Cell::new(0)];
    let is_released = Cell::new(false);
    let loser = |name: usize, waits: bool| {
        let (db, table, runs, is_released) = (&db, &table, &runs[name], &is_released);
        async move {
            db.run(|tx| async move {
                runs.set(runs.get() + 1);
                let cell = [u8::try_from(name).unwrap(), runs.get()];
                table.get(&tx, cell).await?;
                if runs.get() <= 4 {
                    db.transact(|tx| table.put(tx, cell, "other"))?;
                } else if waits {
                    poll_fn(|_| if is_released.get() { Poll::Ready(()) } else { Poll::Pending })
                        .await;
                }
                table.put(&tx, cell, "mine").await
            })
            .await
        }
    };
    let mut context = Context::from_waker(Waker::noop());
    let (mut first, mut second) = (pin!(loser(0, true)), pin!(loser(1, false)));
    assert!(first.as_mut().poll(&mut context).is_pending());
    assert_eq!(runs[0].get(), 5);
    assert!(second.as_mut().poll(&mut context).is_pending());
    assert_eq!(runs[1].get(), 4, "the second waits for the first");
    is_released.set(true);
    assert!(first.as_mut().poll(&mut context).is_ready());
    assert!(second.as_mut().poll(&mut context).is_ready());
    assert_eq!(runs[1].get(), 5);
}

/// All transactions that take the head of a queue commit, although each commit moves the head.
#[test]
fn takers_of_a_moving_head_are_all_served() {
    const TAKERS: u8 = 100;
    for (store, db, _dir) in databases() {
        let queue = db.raw("queue").unwrap();
        db.transact(|tx| (0..TAKERS).try_for_each(|key| queue.put(tx, [key], "item"))).unwrap();
        let take = || async {
            db.run(|tx| {
                let queue = &queue;
                async move {
                    let head = queue.prefix(&tx, "").page(1).next_page().await?.remove(0).0;
                    yield_times(3).await;
                    queue.delete(&tx, head).await
                }
            })
            .await
        };
        let futures = (0..TAKERS).map(|_| Box::pin(take()) as _).collect();
        let failed = join_all(futures).into_iter().filter(Result::is_err).count();
        assert_eq!(failed, 0, "{store}");
        assert_eq!(queue.prefix(&db.snapshot().unwrap(), "").count(), 0, "{store}");
    }
}

#[test]
fn threads_take_turns_at_a_hot_row() {
    for (store, db, _dir) in databases() {
        let table = db.raw("counters").unwrap();
        std::thread::scope(|scope| {
            for _ in 0..16 {
                scope.spawn(|| {
                    for _ in 0..25 {
                        db.transact(|tx| {
                            let before = table.get(tx, "hot")?;
                            let before = before.map_or(0, |bytes| {
                                u64::from_be_bytes(bytes[..].try_into().unwrap())
                            });
                            table.put(tx, "hot", (before + 1).to_be_bytes())
                        })
                        .unwrap();
                    }
                });
            }
        });
        assert_eq!(number(&table, &db), 400, "{store}");
    }
}

/// Versions of the embedded store are ordered by commit: a transaction that read nothing is never
/// refused, at any isolation level, and the later commit wins even if it began first.
#[test]
fn blind_writes_do_not_conflict() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path().join("data")).unwrap();
    let table = db.raw("t").unwrap();
    for isolation in [Isolation::StrictSerializable, Isolation::Serializable, Isolation::Snapshot] {
        let begin = || db.transaction().isolation(isolation).begin().unwrap();
        let (first, second) = (begin(), begin());
        table.put(&second, "hot", "second").unwrap();
        second.commit().unwrap();
        table.put(&first, "hot", "first").unwrap();
        first.commit().unwrap();
        assert_eq!(table.get(&db, "hot").unwrap().as_deref(), Some(&b"first"[..]), "{isolation}");

        let reader = begin();
        table.get(&reader, "hot").unwrap();
        let blind = begin();
        table.put(&blind, "hot", "blind").unwrap();
        blind.commit().unwrap();
        table.put(&reader, "hot", "late").unwrap();
        assert!(reader.commit().is_err(), "a lost update at {isolation}");
        assert_eq!(table.get(&db, "hot").unwrap().as_deref(), Some(&b"blind"[..]), "{isolation}");
    }
    drop((table, db));
    let db = Db::open(dir.path().join("data")).unwrap();
    let table = db.raw("t").unwrap();
    assert_eq!(table.get(&db, "hot").unwrap().as_deref(), Some(&b"blind"[..]), "after recovery");
}

/// Readers see an acknowledged commit whatever the order in which the store keeps versions.
#[test]
fn acknowledged_blind_write_is_seen() {
    for (store, db, _dir) in databases() {
        let table = db.raw("t").unwrap();
        let (first, second) = (db.begin().unwrap(), db.begin().unwrap());
        table.put(&second, "hot", "second").unwrap();
        second.commit().unwrap();
        table.put(&first, "hot", "first").unwrap();
        let seen: &[u8] = if first.commit().is_ok() { b"first" } else { b"second" };
        assert_eq!(table.get(&db, "hot").unwrap().as_deref(), Some(seen), "{store}");
    }
}

/// A transaction depends on the rows that an iterator returned, and on no row after them.
#[test]
fn dropped_iterator_bounds_the_read_set() {
    for (store, db, _dir) in databases() {
        let queue = db.raw("queue").unwrap();
        db.transact(|tx| (b'b'..=b'y').try_for_each(|key| queue.put(tx, [key], "item"))).unwrap();
        let conflicts = |reverse: bool, key: &'static [u8]| {
            let tx = db.begin().unwrap();
            let cells = queue.prefix(&tx, "");
            let mut cells = if reverse { cells.rev() } else { cells };
            let (head, _) = cells.next().unwrap().unwrap();
            drop(cells);
            queue.put(&tx, [b"taken ", &head[..]].concat(), "").unwrap();
            db.transact(|tx| queue.put(tx, key, "other")).unwrap();
            tx.commit().is_err()
        };
        assert!(!conflicts(false, b"m"), "{store}: behind the head");
        assert!(conflicts(false, b"b"), "{store}: the head");
        assert!(!conflicts(true, b"c"), "{store}: before the tail");
        assert!(conflicts(true, b"z"), "{store}: behind the tail");
        assert!(conflicts(false, b"a"), "{store}: before the head");
    }
}

#[test]
fn one_attempt_takes_no_turn() {
    let db = Db::builder().in_memory();
    let table = db.raw("counters").unwrap();
    let runs = Cell::new(0);
    let result = db.transaction().attempts_max(1).transact(|tx| {
        runs.set(runs.get() + 1);
        table.get(tx, "hot")?;
        block_on(add_one(&db, &table))?;
        table.put(tx, "hot", [0; 8])
    });
    assert!(result.is_err());
    assert_eq!(runs.get(), 1);
}
