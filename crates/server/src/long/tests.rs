use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc;

use carnet::Db;
use carnet_admission::diagnosis::Why;
use carnet_admission::{
    AdmissionLimits, AdmissionRequest, Arrived, Class, Level, LevelId, LevelLimits, Workload,
};
use carnet_base::{Moment, ReadLevel, SystemClock, TIME_SLICE, WallTime, read_level};

use super::*;

fn threads() -> LongThreads {
    LongThreads::start(Arc::new(SystemClock), Arc::new(Metrics::default())).unwrap()
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// Keeps its thread for longer than a slice, then yields.
async fn slices(count: u32) {
    for _ in 0..count {
        let begun = SystemClock.now();
        while SystemClock.now().since(begun) <= TIME_SLICE {}
        yield_now().await;
    }
}

fn thread_name() -> String {
    std::thread::current().name().unwrap_or_default().to_owned()
}

#[test]
fn short_statement_stays_on_its_thread() {
    let threads = threads();
    let work = Box::pin(async {
        tokio::task::yield_now().await;
        thread_name()
    });
    let ran_on = runtime().block_on(threads.run(Slices::new(work, None, 10)));
    assert_eq!(ran_on, thread_name());
    assert_eq!(threads.meter.metrics.statements_long.get(), 0);
}

#[test]
fn long_statement_moves_to_threads_of_low_priority() {
    let threads = threads();
    let work = Box::pin(async {
        slices(3).await;
        let nice = rustix::process::getpriority_process(None).unwrap();
        (thread_name(), nice)
    });
    let (name, nice) = runtime().block_on(threads.run(Slices::new(work, None, 10)));
    assert_eq!((name.as_str(), nice), ("carnet-long", NICE));
    assert_eq!(threads.meter.metrics.statements_long.get(), 1);
    assert_eq!(threads.meter.metrics.poll_duration.get(Threads::Connections).counts().count(), 1);
}

/// The disk orders reads by level, also those of a statement that runs on a thread of low priority.
#[test]
fn reads_of_a_statement_have_its_level() {
    let db = Db::builder().admission(AdmissionLimits::of_server(1)).in_memory();
    let limits = LevelLimits { shares: 200, ..LevelLimits::default() };
    let level = Level { id: LevelId(7), limits, ..Level::default() };
    let (class, workload) = (Class::Read, Workload::Interactive);
    let request = AdmissionRequest::new(&level, class, workload, 1);
    let Ok(Arrived::Admitted(permit)) = db.admission().unwrap().arrive(request) else {
        panic!("there is room")
    };
    let work = Box::pin(async {
        let first = read_level();
        slices(2).await;
        [first, read_level()]
    });
    let levels = runtime().block_on(threads().run(Slices::new(work, Some(Arc::new(permit)), 10)));
    assert_eq!(levels, [ReadLevel { id: 7, shares: 200 }; 2]);
    assert_eq!(read_level(), ReadLevel::default());
}

/// Short statements would otherwise wait for a place behind long ones.
#[test]
fn long_statement_has_no_place_at_the_gate() {
    let db = Db::builder().admission(AdmissionLimits::of_server(1)).in_memory();
    let level = Level::default();
    let request = AdmissionRequest::new(&level, Class::Read, Workload::Unspecified, 1);
    let Ok(Arrived::Admitted(permit)) = db.admission().unwrap().arrive(request) else {
        panic!("there is room")
    };
    let running = {
        let db = db.clone();
        move || db.admission().unwrap().figures(Class::Read).running
    };
    let during = running.clone();
    let work = Box::pin(async move {
        let first = during();
        slices(2).await;
        [first, during()]
    });
    let slices = Slices::new(work, Some(Arc::new(permit)), 10);
    assert_eq!(runtime().block_on(threads().run(slices)), [1, 0]);
    assert_eq!(running(), 0);
}

/// Like a statement that waits for a cluster, however long each answer takes to decode.
#[test]
fn statement_that_waits_stays_on_its_thread() {
    let threads = threads();
    let work = Box::pin(async {
        for _ in 0..5 {
            let begun = SystemClock.now();
            while SystemClock.now().since(begun) <= TIME_SLICE {}
            tokio::task::yield_now().await;
        }
        thread_name()
    });
    let ran_on = runtime().block_on(threads.run(Slices::new(work, None, 10)));
    assert_eq!(ran_on, thread_name());
}

#[test]
fn long_text_starts_on_the_long_threads() {
    let threads = threads();
    let work = || Box::pin(async { thread_name() });
    let name = runtime().block_on(threads.run(Slices::new(work(), None, TEXT_BYTES_MAX + 1)));
    assert_eq!(name, "carnet-long");
}

#[test]
fn dropped_statements_give_their_turns_back() {
    struct Alive(Arc<AtomicUsize>);
    impl Drop for Alive {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Ordering::Relaxed);
        }
    }
    let (threads, alive) = (threads(), Arc::new(AtomicUsize::new(0)));
    let endless = || {
        alive.fetch_add(1, Ordering::Relaxed);
        let alive = Alive(Arc::clone(&alive));
        Box::pin(async move {
            slices(u32::MAX).await;
            drop(alive);
        })
    };
    let runtime = runtime();
    runtime.block_on(async {
        let mut running: Vec<_> = (0..20)
            .map(|_| Box::pin(threads.run(Slices::new(endless(), None, usize::MAX))))
            .collect();
        // Threads of low priority may begin late.
        while threads.turns.size().1 == 0 {
            for running in &mut running {
                let mut context = Context::from_waker(std::task::Waker::noop());
                assert!(running.as_mut().poll(&mut context).is_pending());
            }
            slices(1).await;
        }
        drop(running);
        while alive.load(Ordering::Relaxed) > 0 {
            tokio::task::yield_now().await;
        }
    });
    assert_eq!(threads.turns.size(), (0, 0));
    // A turn is still available.
    runtime.block_on(threads.run(Slices::new(Box::pin(slices(1)), None, usize::MAX)));
}

#[test]
fn waiting_statement_gives_its_turn_to_others() {
    let threads = threads();
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let (sender, receiver) = mpsc::channel();
    runtime().block_on(async {
        let (open, gate) = tokio::sync::watch::channel(false);
        let waits = || {
            let mut gate = gate.clone();
            Box::pin(async move { drop(gate.wait_for(|is_open| *is_open).await) })
        };
        let mut waiting: Vec<_> = (0..processors)
            .map(|_| Box::pin(threads.run(Slices::new(waits(), None, usize::MAX))))
            .collect();
        for waiting in &mut waiting {
            let mut context = Context::from_waker(std::task::Waker::noop());
            assert!(waiting.as_mut().poll(&mut context).is_pending());
        }
        let sends = Box::pin(async move { sender.send(()).unwrap() });
        threads.run(Slices::new(sends, None, usize::MAX)).await;
        receiver.recv().unwrap();
        open.send(true).unwrap();
        for waiting in waiting {
            waiting.await;
        }
    });
}

/// A clock that stands until it is set.
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

#[test]
fn wait_for_a_turn_is_counted_as_cpu() {
    let clock = Arc::new(Standing::default());
    let pass = |millis| _ = clock.0.fetch_add(millis, Ordering::Relaxed);
    let builder = Db::builder().clock(Arc::clone(&clock) as Arc<dyn Clock>);
    let db = builder.admission(AdmissionLimits::of_server(1)).in_memory();
    let admission = db.admission().unwrap();
    let (level, class, workload) = (&Level::default(), Class::Read, Workload::Interactive);
    let request = AdmissionRequest::new(level, class, workload, 1);
    let Ok(Arrived::Admitted(permit)) = admission.arrive(request) else { panic!("there is room") };
    let (turns, metrics) = (Arc::new(Turns::new(1)), Arc::new(Metrics::default()));
    let meter = Meter { clock: Arc::clone(&clock) as Arc<dyn Clock>, metrics };
    let in_turns =
        |work: Work<()>, permit| InTurns::new(work, Duration::ZERO, permit, &turns, meter.clone());
    let yields = Box::pin(async {
        loop {
            yield_now().await;
        }
    });
    let (mut hog, mut late) =
        (in_turns(yields, None), in_turns(Box::pin(async {}), Some(Arc::new(permit))));
    let mut context = Context::from_waker(std::task::Waker::noop());
    assert!(Pin::new(&mut hog).poll(&mut context).is_pending());
    assert!(Pin::new(&mut late).poll(&mut context).is_pending(), "the hog has the only turn");
    pass(30);
    assert!(Pin::new(&mut hog).poll(&mut context).is_pending());
    pass(12);
    assert!(Pin::new(&mut late).poll(&mut context).is_ready());
    drop(late);
    let [(_, totals)] = &admission.diagnosis().totals()[..] else { panic!("there is one level") };
    assert_eq!(totals.waited[Why::Cpu as usize], Duration::from_millis(42));
}

#[test]
fn panic_of_a_long_statement_reaches_its_task() {
    let threads = threads();
    let work: Work<()> = Box::pin(async {
        slices(2).await;
        panic!("as asked");
    });
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        runtime().block_on(threads.run(Slices::new(work, None, 10)));
    }));
    assert!(caught.is_err());
    assert_eq!(threads.turns.size(), (0, 0));
}
