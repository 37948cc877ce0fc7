//! Tests of interleavings, step by step.

use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use carnet_base::ErrorKind;

use super::super::tests::{Stepped, key, open, reserve, time};
use super::*;
use crate::disk::sim::SimDisk;
use crate::options::Options;

type Outcome = Result<PutUnlessExists, AppendError<Error>>;

fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

fn entries(keys: &[u64]) -> Vec<(CellKey, Bytes)> {
    keys.iter().map(|&number| (key(number), Bytes::from(vec![9; 20]))).collect()
}

fn put(outcome: Poll<Outcome>) -> Appended {
    match outcome {
        Poll::Ready(Ok(PutUnlessExists::Put(appended))) => appended,
        other => panic!("not put: {other:?}"),
    }
}

/// Returns the commits of the existing versions.
fn standing(outcome: Poll<Outcome>) -> Vec<Option<u64>> {
    match outcome {
        Poll::Ready(Ok(PutUnlessExists::Exists(versions))) => versions
            .into_iter()
            .map(|version| version.and_then(|version| version.commit).map(Timestamp::get))
            .collect(),
        other => panic!("nothing is said to stand: {other:?}"),
    }
}

#[test]
fn existing_version_is_reported_when_durable() {
    let (disk, workers) = (SimDisk::new(1), Stepped::default());
    let engine = open(&disk, &workers, Options::default());
    drop(reserve(&engine, 10).insert());
    let wanted = entries(&[9, 10]);
    let mut putting = pin!(engine.put_unless_exists(time(11), &wanted, || Ok(time(12))));
    assert!(poll(putting.as_mut()).is_pending(), "commit 10 may still be lost");
    workers.step(0);
    assert_eq!(standing(poll(putting.as_mut())), [None, Some(10)]);
    let read = carnet_base::block_on(engine.get(&key(9), time(20))).unwrap();
    assert_eq!(read, None, "nothing was put");
}

#[test]
fn put_waits_for_inserts_but_not_for_syncs() {
    let (disk, workers) = (SimDisk::new(1), Stepped::default());
    let engine = open(&disk, &workers, Options::default());
    let slow = reserve(&engine, 10);
    let (free, taken) = (entries(&[1]), entries(&[10]));
    let mut free = pin!(engine.put_unless_exists(time(11), &free, || Ok(time(12))));
    let mut taken = pin!(engine.put_unless_exists(time(13), &taken, || Ok(time(14))));
    assert!(poll(free.as_mut()).is_pending() && poll(taken.as_mut()).is_pending());
    drop(slow.insert());
    assert_eq!(put(poll(free.as_mut())).commit(), time(12));
    assert!(poll(taken.as_mut()).is_pending());
    workers.step(0);
    assert_eq!(standing(poll(taken.as_mut())), [Some(10)]);
}

#[test]
fn concurrent_append_is_detected() {
    let (disk, workers) = (SimDisk::new(1), Stepped::default());
    let engine = open(&disk, &workers, Options::default());
    let slow = reserve(&engine, 10);
    let wanted = entries(&[20, 21]);
    let mut putting = pin!(engine.put_unless_exists(time(29), &wanted, || Ok(time(30))));
    assert!(poll(putting.as_mut()).is_pending(), "what was open before is not inserted");
    drop(reserve(&engine, 20).insert());
    drop(slow.insert());
    assert!(poll(putting.as_mut()).is_pending());
    workers.step(0);
    assert_eq!(standing(poll(putting.as_mut())), [Some(20), None]);
    assert_eq!(engine.metrics().puts_repeated, 1);
}

#[test]
fn only_one_of_two_concurrent_puts_succeeds() {
    let (disk, workers) = (SimDisk::new(1), Stepped::default());
    let engine = open(&disk, &workers, Options::default());
    let slow = reserve(&engine, 10);
    let (left, right) = (entries(&[1, 2, 3]), entries(&[3, 4]));
    let mut left = pin!(engine.put_unless_exists(time(19), &left, || Ok(time(20))));
    let mut right = pin!(engine.put_unless_exists(time(29), &right, || Ok(time(30))));
    assert!(poll(left.as_mut()).is_pending() && poll(right.as_mut()).is_pending());
    drop(slow.insert());
    assert_eq!(put(poll(left.as_mut())).commit(), time(20));
    assert!(poll(right.as_mut()).is_pending());
    workers.step(0);
    assert_eq!(standing(poll(right.as_mut())), [Some(20), None]);
}

#[test]
fn writes_to_other_cells_do_not_conflict() {
    let (disk, workers) = (SimDisk::new(1), Stepped::default());
    let engine = open(&disk, &workers, Options::default());
    let slow = reserve(&engine, 10);
    let wanted = entries(&[1]);
    let mut putting = pin!(engine.put_unless_exists(time(29), &wanted, || Ok(time(30))));
    assert!(poll(putting.as_mut()).is_pending());
    drop(reserve(&engine, 20).insert());
    drop(slow.insert());
    drop(put(poll(putting.as_mut())));
    assert_eq!(engine.metrics().puts_repeated, 0);
    assert!(!engine.core.watches.any(), "nobody watches any more");
}

#[test]
fn concurrent_range_deletion_is_detected() {
    let (disk, workers) = (SimDisk::new(1), Stepped::default());
    let engine = open(&disk, &workers, Options::default());
    drop(reserve(&engine, 5).insert());
    workers.step(0);
    let slow = reserve(&engine, 10);
    let wanted = entries(&[5]);
    let mut putting = pin!(engine.put_unless_exists(time(29), &wanted, || Ok(time(30))));
    assert!(poll(putting.as_mut()).is_pending());
    let range = carnet_base::KeyRange::table(key(5).table());
    let delete = engine.prepare(time(19), [Mutation::DeleteRange { range: &range }]).unwrap();
    drop(engine.append(delete, || Ok::<_, Error>(time(20))).unwrap());
    drop(slow.insert());
    assert_eq!(put(poll(putting.as_mut())).commit(), time(30), "it was deleted, so it is put");
}

#[test]
fn failed_put_has_no_effect() {
    let (disk, workers) = (SimDisk::new(1), Stepped::default());
    let engine = open(&disk, &workers, Options::default());
    let wanted = entries(&[1, 2]);
    let mut refused =
        pin!(engine.put_unless_exists(time(9), &wanted, || Err::<Timestamp, _>("no")));
    assert!(matches!(poll(refused.as_mut()), Poll::Ready(Err(AppendError::Refused("no")))));
    let twins = entries(&[1, 2, 1]);
    let outcome: Poll<Outcome> =
        poll(pin!(engine.put_unless_exists(time(9), &twins, || Ok(time(10)))));
    let Poll::Ready(Err(AppendError::Engine(error))) = outcome else { panic!("twins are put") };
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    {
        let _slow = reserve(&engine, 10);
        let mut putting = pin!(engine.put_unless_exists(time(19), &wanted, || Ok(time(20))));
        let outcome: Poll<Outcome> = poll(putting.as_mut());
        assert!(outcome.is_pending() && engine.core.watches.any());
    }
    assert!(!engine.core.watches.any(), "the watch ends with its future");
    // The dropped reservation has stopped the store: waiting callers get the error.
    let outcome: Poll<Outcome> =
        poll(pin!(engine.put_unless_exists(time(29), &wanted, || Ok(time(30)))));
    assert!(matches!(outcome, Poll::Ready(Err(AppendError::Engine(_)))));
}

#[test]
fn put_future_is_send() {
    fn send<T: Send>(value: T) -> T {
        value
    }
    let (disk, workers) = (SimDisk::new(1), Stepped::default());
    let engine = open(&disk, &workers, Options::default());
    drop(send(engine.put_unless_exists(time(9), &[], || Ok::<_, Error>(time(10)))));
}
