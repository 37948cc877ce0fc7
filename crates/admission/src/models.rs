//! Models of the hand-over of permits, with threads under a scheduler that chooses the next thread
//! after each step of a lock. Built by `--cfg shuttle` only; see CONTRIBUTING.md.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use carnet_base::{Clock, Moment, Signal, Spawn, WallTime, Worker, WorkerHandle};
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, Runner, future, thread};

use super::shared_gate::SharedGate;
use super::{AdmissionRequest, Arrived, Class, GateLimits, Level, Permit, Place, Workload};
use crate::diagnosis::Diagnosis;

/// Runs `CARNET_SCHEDULES` schedules of each kind (500 by default), from `CARNET_SEED` (1 by
/// default).
fn explore(model: impl Fn() + Send + Sync + 'static) {
    let number = |name, or| match std::env::var(name) {
        Ok(number) => number.parse().unwrap(),
        Err(_) => or,
    };
    let (seed, schedules) = (number("CARNET_SEED", 1), number("CARNET_SCHEDULES", 500));
    println!("replay: CARNET_SEED={seed} CARNET_SCHEDULES={schedules}");
    let mut config = Config::new();
    config.silence_warnings = true;
    let (schedules, model) = (usize::try_from(schedules).unwrap(), Arc::new(model));
    let random = RandomScheduler::new_from_seed(seed, schedules);
    Runner::new(random, config.clone()).run({
        let model = Arc::clone(&model);
        move || model()
    });
    let few_changes = PctScheduler::new_from_seed(seed, 3, schedules);
    Runner::new(few_changes, config).run(move || model());
}

/// A stopped clock.
struct Standing;

impl Clock for Standing {
    fn now(&self) -> Moment {
        Moment(Duration::from_secs(1))
    }

    fn wall(&self) -> WallTime {
        WallTime(0)
    }
}

/// Drops workers: with a stopped clock no queue needs the ticker.
struct NoWorkers;

impl Spawn for NoWorkers {
    fn spawn(&self, _: &str, _: Signal, _: Box<dyn Worker>) -> WorkerHandle {
        WorkerHandle::detached()
    }
}

fn gate(running_max: usize) -> Arc<SharedGate> {
    let shed_after = Duration::from_secs(1);
    let limits = GateLimits { running_max, queue_max: 8, queue_bytes_max: 1 << 20, shed_after };
    let diagnosis = Arc::new(Diagnosis::new(Arc::new(Standing)));
    SharedGate::open(
        (Class::Read, limits),
        Arc::new(Standing),
        &NoWorkers,
        &diagnosis,
        &Arc::default(),
    )
}

fn arrive(gate: &Arc<SharedGate>) -> Arrived {
    let (level, class, workload) = (&Level::default(), Class::Read, Workload::Interactive);
    let request = AdmissionRequest::new(level, class, workload, 1);
    gate.arrive(request, None, None).unwrap()
}

fn admitted(gate: &Arc<SharedGate>) -> Permit {
    let Arrived::Admitted(permit) = arrive(gate) else { panic!("there is room") };
    permit
}

fn waits(gate: &Arc<SharedGate>) -> Place {
    let Arrived::Waits(place) = arrive(gate) else { panic!("there is none") };
    place
}

fn is_empty(gate: &SharedGate) -> bool {
    gate.figures().iter().all(|(_, figures)| figures.running + figures.waiting == 0)
}

/// A waiter is dropped while it receives the permit: the next waiter gets the permit. A lost permit
/// would stop the model, because the last waiter waits forever.
#[test]
fn permit_survives_a_dropped_waiter() {
    explore(|| {
        let gate = gate(1);
        let permit = admitted(&gate);
        let (mut dropped, last) = (waits(&gate), waits(&gate));
        let threads = [
            thread::spawn(move || drop(permit)),
            thread::spawn(move || {
                let mut context = Context::from_waker(Waker::noop());
                if let Poll::Ready(permit) = Pin::new(&mut dropped).poll(&mut context) {
                    drop(permit.unwrap());
                }
                drop(dropped);
            }),
            thread::spawn(move || drop(future::block_on(last).unwrap())),
        ];
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert!(is_empty(&gate), "a permit was not given back");
    });
}

/// Statements arrive, pause and end on several threads; at most two run, and every waiter is woken.
#[test]
fn every_waiter_gets_a_permit() {
    explore(|| {
        let gate = gate(2);
        let threads = [false, true, false].map(|pauses| {
            let gate = Arc::clone(&gate);
            thread::spawn(move || {
                for _ in 0..2 {
                    let permit = match arrive(&gate) {
                        Arrived::Admitted(permit) => permit,
                        Arrived::Waits(place) => future::block_on(place).unwrap(),
                    };
                    if pauses {
                        drop(permit.pause());
                    }
                }
            })
        });
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert!(is_empty(&gate), "a permit was not given back");
    });
}
