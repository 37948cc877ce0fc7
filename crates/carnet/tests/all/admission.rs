//! Admission permits and the queue for them.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use carnet::{Db, Error, ErrorKind, block_on};
use carnet_admission::{
    Admission, AdmissionLimits, AdmissionRequest, Arrived, Class, GateLimits, Level, LevelId,
    LevelLimits, Permit, Place, Workload,
};
use carnet_base::{Clock, Moment, WallTime};

fn db(running_max: usize, queue_max: usize) -> Db {
    let shed_after = Duration::from_millis(20);
    let gate = GateLimits { running_max, queue_max, queue_bytes_max: 1 << 20, shed_after };
    Db::builder().admission(AdmissionLimits { statements: gate, system: gate }).in_memory()
}

fn arrive_in(admission: &Admission, class: Class) -> Result<Arrived, Error> {
    let (level, workload) = (&Level::default(), Workload::Interactive);
    admission.arrive(AdmissionRequest::new(level, class, workload, 100))
}

fn arrive(admission: &Admission) -> Result<Arrived, Error> {
    arrive_in(admission, Class::Write)
}

fn admitted(admission: &Admission) -> Permit {
    let Ok(Arrived::Admitted(permit)) = arrive(admission) else { panic!("there is room") };
    permit
}

fn waits(admission: &Admission) -> Place {
    let Ok(Arrived::Waits(place)) = arrive(admission) else { panic!("there is none") };
    place
}

fn poll(place: &mut Place) -> Poll<Result<Permit, Error>> {
    Pin::new(place).poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn permit_passes_to_the_next() {
    let db = db(1, 4);
    let admission = db.admission().unwrap();
    let permit = admitted(admission);
    let (mut second, given_up, mut third) = (waits(admission), waits(admission), waits(admission));
    assert!(poll(&mut second).is_pending());
    drop(given_up);
    drop(permit);
    let Poll::Ready(Ok(permit)) = poll(&mut second) else { panic!("it is its turn") };
    assert!(poll(&mut third).is_pending());
    // Admitted, but dropped before it ran.
    drop(permit);
    drop(third);
    let figures = admission.figures(Class::Write);
    assert_eq!((figures.running, figures.waiting, figures.admitted), (0, 0, 3));
    drop(admitted(admission));
}

/// A clock that is set by the test.
#[derive(Default)]
struct Standing(AtomicU64);

impl Clock for Standing {
    fn now(&self) -> Moment {
        Moment(Duration::from_millis(self.0.load(Ordering::Relaxed)))
    }

    fn wall(&self) -> WallTime {
        WallTime(0)
    }
}

/// A statement that was admitted and waited for its turn, but was cancelled before it ran.
#[test]
fn statement_that_never_ran_costs_its_level_nothing() {
    let shed_after = Duration::from_secs(60);
    let gate = GateLimits { running_max: 1, queue_max: 99, queue_bytes_max: 1 << 20, shed_after };
    let clock = Arc::new(Standing::default());
    let builder = Db::builder().clock(Arc::clone(&clock) as Arc<dyn Clock>);
    let db = builder.admission(AdmissionLimits { statements: gate, system: gate }).in_memory();
    let level = |id, shares| Level {
        id: LevelId(id),
        limits: LevelLimits { shares, ..LevelLimits::default() },
        ..Level::default()
    };
    let (large, small) = (level(1, 1_000), level(2, 100));
    let arrive = |level| {
        let (class, workload) = (Class::Read, Workload::Interactive);
        let request = AdmissionRequest::new(level, class, workload, 1);
        db.admission().unwrap().arrive(request).unwrap()
    };
    let runs = |arrived| {
        let Arrived::Admitted(permit) = arrived else { panic!("there is room") };
        permit
    };
    runs(arrive(&large)).count_processor(Duration::from_millis(1));
    let cancelled = runs(arrive(&small));
    clock.0.fetch_add(500, Ordering::Relaxed);
    drop(cancelled);
    let mut permit = runs(arrive(&large));
    let mut places: Vec<Place> = std::iter::once(&small)
        .chain(std::iter::repeat_n(&large, 20))
        .map(|level| match arrive(level) {
            Arrived::Waits(place) => place,
            Arrived::Admitted(_) => panic!("another one runs"),
        })
        .collect();
    for _ in 0..12 {
        permit.count_processor(Duration::from_millis(1));
        drop(permit);
        let mut polled = (0..places.len()).map(|at| (at, poll(&mut places[at])));
        let (at, Poll::Ready(Ok(next))) = polled.find(|(_, it)| it.is_ready()).unwrap() else {
            panic!("it is admitted")
        };
        drop(places.remove(at));
        permit = next;
        if at == 0 {
            return;
        }
    }
    panic!("the level of few shares is not served");
}

#[test]
fn classes_do_not_wait_for_each_other() {
    let db = db(1, 4);
    let admission = db.admission().unwrap();
    let _writes = admitted(admission);
    for class in [Class::Read, Class::System] {
        assert!(matches!(arrive_in(admission, class), Ok(Arrived::Admitted(_))));
    }
}

#[test]
fn overload_is_refused_with_a_time() {
    let db = db(1, 2);
    let admission = db.admission().unwrap();
    let permit = admitted(admission);
    let [waiting, _other] = [waits(admission), waits(admission)];
    let Err(error) = arrive(admission) else { panic!("the queue is full") };
    let ErrorKind::Overloaded { retry_after } = error.kind() else { panic!("{error}") };
    assert!(retry_after >= Duration::from_millis(10), "{error}");
    assert!(error.to_string().contains("try again after"), "{error}");
    // Without arrivals and completions, the ticker refuses waiting statements.
    let error = block_on(waiting).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Overloaded { .. }));
    drop(permit);
    assert_eq!(admission.figures(Class::Write).shed_overloaded, 3);
}

#[test]
fn threads_share_permits() {
    let db = db(2, 1_000);
    let running = std::sync::atomic::AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                for _ in 0..200 {
                    let permit = match arrive(db.admission().unwrap()).unwrap() {
                        Arrived::Admitted(permit) => permit,
                        Arrived::Waits(place) => block_on(place).unwrap(),
                    };
                    let before = running.fetch_add(1, Ordering::SeqCst);
                    assert!(before < 2, "{before} run already");
                    thread::yield_now();
                    running.fetch_sub(1, Ordering::SeqCst);
                    drop(permit);
                }
            });
        }
    });
    let figures = db.admission().unwrap().figures(Class::Write);
    assert_eq!((figures.running, figures.waiting, figures.admitted), (0, 0, 3_200));
}

/// The second transaction waits for its turn behind the first, whose body waits for the test.
#[test]
fn waiting_for_a_turn_holds_no_permit() {
    let db = db(2, 4);
    let (table, admission) = (db.raw("t").unwrap(), db.admission().unwrap());
    let (runs, is_released) = (Cell::new(0), Cell::new(false));
    let mut first = pin!(db.run(|tx| {
        let (db, table, runs, is_released) = (&db, &table, &runs, &is_released);
        async move {
            runs.set(runs.get() + 1);
            table.get(&tx, "hot").await?;
            if runs.get() == 1 {
                // The first attempt loses.
                db.transact(|tx| table.put(tx, "hot", "other"))?;
            } else {
                poll_fn(|_| if is_released.get() { Poll::Ready(()) } else { Poll::Pending }).await;
            }
            table.put(&tx, "hot", "first").await
        }
    }));
    let mut context = Context::from_waker(Waker::noop());
    assert!(first.as_mut().poll(&mut context).is_pending());
    let options = db.transaction().permit(Arc::new(admitted(admission)));
    let mut second = pin!(options.run(|tx| {
        let table = &table;
        async move {
            let before = table.get(&tx, "hot").await?.unwrap();
            table.put(&tx, "hot", [&before[..], b" and second"].concat()).await
        }
    }));
    assert!(second.as_mut().poll(&mut context).is_pending());
    assert_eq!(admission.figures(Class::Write).running, 0, "it waits for its turn");
    is_released.set(true);
    assert!(matches!(first.as_mut().poll(&mut context), Poll::Ready(Ok(()))));
    assert!(matches!(second.as_mut().poll(&mut context), Poll::Ready(Ok(()))));
    assert_eq!(table.get(&db, "hot").unwrap().as_deref(), Some(&b"first and second"[..]));
}
