//! Waits of statements are added to the diagnosis when the statement ends.

use std::future::{Future, pending, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use carnet::{Builder, Db, Durability, block_on};
use carnet_admission::diagnosis::{Named, Waiter, Why};
use carnet_admission::{
    AdmissionLimits, AdmissionRequest, Arrived, Class, GateLimits, Level, Permit, Workload,
};
use carnet_base::{Clock, Moment, Stepped, WaitNote, WallTime, note_wait};
use carnet_storage::disk::sim::SimDisk;

/// A clock that is set by the test.
#[derive(Default)]
struct Standing(AtomicU64);

impl Standing {
    fn pass(&self, millis: u64) {
        self.0.fetch_add(millis, Ordering::Relaxed);
    }
}

impl Clock for Standing {
    fn now(&self) -> Moment {
        Moment(Duration::from_millis(self.0.load(Ordering::Relaxed)))
    }

    fn wall(&self) -> WallTime {
        WallTime(0)
    }
}

fn builder() -> (Builder, Arc<Standing>) {
    let shed_after = Duration::from_secs(60);
    let gate = GateLimits { running_max: 1, queue_max: 9, queue_bytes_max: 1 << 20, shed_after };
    let clock = Arc::new(Standing::default());
    let builder = Db::builder().clock(Arc::clone(&clock) as Arc<dyn Clock>);
    let limits = AdmissionLimits { statements: gate, system: gate };
    (builder.admission(limits), clock)
}

fn db() -> (Db, Arc<Standing>) {
    let (builder, clock) = builder();
    (builder.in_memory(), clock)
}

fn arrive(db: &Db) -> Arrived {
    let (level, class, workload) = (&Level::default(), Class::Read, Workload::Interactive);
    let request = AdmissionRequest::new(level, class, workload, 1);
    db.admission().unwrap().arrive(request).unwrap()
}

fn admitted(db: &Db) -> Permit {
    let Arrived::Admitted(permit) = arrive(db) else { panic!("there is room") };
    permit
}

/// Returns the total wait of statements for a reason, in milliseconds.
fn waited(db: &Db, why: Why) -> u128 {
    let totals = db.admission().unwrap().diagnosis().totals();
    totals.iter().map(|(_, totals)| totals.waited[why as usize].as_millis()).sum()
}

#[test]
fn gate_and_thread_waits_are_distinguished() {
    let (db, clock) = db();
    let first = admitted(&db);
    let Arrived::Waits(mut place) = arrive(&db) else { panic!("there is no room") };
    let mut context = Context::from_waker(Waker::noop());
    assert!(Pin::new(&mut place).poll(&mut context).is_pending());
    clock.pass(7);
    drop(first);
    clock.pass(5);
    let Poll::Ready(Ok(permit)) = Pin::new(&mut place).poll(&mut context) else { panic!() };
    clock.pass(3);
    permit.begin();
    assert_eq!(waited(&db, Why::Gate), 0, "the statement has not ended");
    drop(permit);
    assert_eq!((waited(&db, Why::Gate), waited(&db, Why::Cpu)), (7, 8));
}

#[test]
fn statement_that_gives_up_has_waited() {
    let (db, clock) = db();
    let _first = admitted(&db);
    let Arrived::Waits(place) = arrive(&db) else { panic!("there is no room") };
    clock.pass(9);
    drop(place);
    assert_eq!(waited(&db, Why::Gate), 9);
}

#[test]
fn cancelled_waits_are_counted() {
    let (db, clock) = db();
    let permit = admitted(&db);
    permit.waits().name(|| Waiter { named: Arc::new(Named::new("ks.t", "SELECT")), user: None });
    {
        let mut waiting = pin!(permit.wait_for(Why::Disk, pending::<()>()));
        clock.pass(100);
        assert!(waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        clock.pass(600);
    }
    let paused = permit.pause();
    clock.pass(20);
    drop(paused);
    drop(permit);
    assert_eq!((waited(&db, Why::Disk), waited(&db, Why::Lock)), (600, 20));
    let report = db.admission().unwrap().diagnosis().report();
    let largest = report.bottleneck().unwrap();
    assert_eq!((largest.why, &*largest.level, largest.waits), (Why::Disk, "default", 1));
    assert_eq!(largest.waiter.as_ref().unwrap().named.table(), "ks.t");
}

/// A scan of minutes would otherwise be the bottleneck only after its end.
#[test]
fn waits_of_a_running_statement_are_told_while_it_runs() {
    let (db, clock) = db();
    let permit = admitted(&db);
    let turn = |millis| {
        clock.pass(millis);
        permit.waits().add(Why::Cpu, Duration::from_millis(millis));
        permit.tell_waits(clock.now());
        waited(&db, Why::Cpu)
    };
    assert_eq!(turn(300), 0, "it is told at most twice a second");
    assert_eq!(turn(300), 600);
    assert_eq!(turn(300), 600);
    drop(permit);
    assert_eq!(waited(&db, Why::Cpu), 900);
}

#[test]
fn witness_counts_waits_of_the_level() {
    let (db, clock) = db();
    let permit = admitted(&db);
    let witness = permit.witness();
    drop(permit);
    clock.pass(1_000);
    witness.waited(Why::Socket, Duration::from_millis(500));
    let report = db.admission().unwrap().diagnosis().report();
    assert_eq!(
        report.bottleneck().map(|cause| (cause.why, &*cause.level)),
        Some((Why::Socket, "default"))
    );
}

#[test]
fn refusal_for_memory_is_a_wait_for_memory() {
    let (db, _clock) = db();
    admitted(&db).refused_for_memory(Duration::from_millis(100));
    assert_eq!(waited(&db, Why::Memory), 100);
}

#[test]
fn noted_waits_are_told_from_the_usual_one() {
    let (db, clock) = db();
    let permit = admitted(&db);
    let mut notes = [Some(WaitNote::Throttle), Some(WaitNote::Throttle), None].into_iter();
    let commit = poll_fn(|_| {
        let Some(note) = notes.next() else { return Poll::Ready(()) };
        note.into_iter().for_each(note_wait);
        Poll::Pending
    });
    {
        let mut waiting = pin!(permit.wait_for(Why::Log, commit));
        let mut poll = || waiting.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        for millis in [30, 40, 500] {
            note_wait(WaitNote::Memory); // of another future, before the poll
            assert!(poll().is_pending());
            clock.pass(millis);
        }
        assert!(poll().is_ready());
    }
    clock.pass(7);
    drop(permit);
    let waited = [Why::Throttle, Why::Log, Why::Memory].map(|why| waited(&db, why));
    assert_eq!(waited, [70, 500, 0]);
}

/// Nothing is flushed until the workers are stepped.
#[test]
fn commit_that_the_engine_holds_back_is_throttled() {
    let (builder, clock) = builder();
    let workers = Stepped::default();
    let builder = builder.spawn(Arc::new(workers.clone())).durability(Durability::None);
    let db = builder.flush_bytes(64 << 10).open_on(Arc::new(SimDisk::new(1))).unwrap();
    let table = db.raw("t").unwrap();
    for key in 0_u32..100 {
        let permit = Arc::new(admitted(&db));
        let tx = block_on(db.transaction().permit(Arc::clone(&permit)).begin_async()).unwrap();
        block_on(table.put(&tx, key.to_be_bytes(), vec![0; 70 << 10])).unwrap();
        let mut commit = Box::pin(tx.commit());
        let mut poll = || commit.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        if poll().is_ready() {
            continue;
        }
        clock.pass(30);
        workers.settle();
        assert!(matches!(poll(), Poll::Ready(Ok(_))));
        drop(commit);
        drop((tx, permit));
        assert_eq!((waited(&db, Why::Throttle), waited(&db, Why::Log)), (30, 0));
        return;
    }
    panic!("the engine held no writer back");
}

#[test]
fn work_past_the_deadline_counts_as_wasted() {
    let (db, _) = db();
    let wasted = || -> u128 {
        let totals = db.admission().unwrap().diagnosis().totals();
        totals.iter().map(|(_, totals)| totals.wasted.as_millis()).sum()
    };
    let answered = admitted(&db);
    answered.count_processor(Duration::from_millis(5));
    answered.answered();
    drop(answered);
    assert_eq!(wasted(), 0);
    let gone = admitted(&db);
    gone.count_processor(Duration::from_millis(3));
    drop(gone);
    assert_eq!(wasted(), 3);
    let late = admitted(&db);
    late.count_processor(Duration::from_millis(2));
    late.timed_out();
    drop(late);
    assert_eq!(wasted(), 5);
}
