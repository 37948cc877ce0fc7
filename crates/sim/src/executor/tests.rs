//! Tests of the machine.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use carnet_base::{Signal, Spawn, Step, Worker};

use super::*;

const ME: Process = Process(1);

#[test]
fn sleepers_wake_in_order_in_virtual_time() {
    let executor = Executor::new(1);
    let order = Rc::new(RefCell::new(Vec::new()));
    for hours in [3, 1, 2] {
        let (machine, order) = (executor.clone(), Rc::clone(&order));
        executor.spawn(ME, async move {
            machine.sleep(Duration::from_secs(3600 * hours)).await;
            order.borrow_mut().push(hours);
        });
    }
    let machine = executor.clone();
    let day = async move { machine.sleep(Duration::from_secs(86_400)).await };
    assert_eq!(executor.run(1000, day), Some(()));
    assert_eq!(*order.borrow(), [1, 2, 3]);
    assert!(executor.now() >= Duration::from_secs(86_400));
}

#[test]
fn seed_determines_the_order_of_ready_tasks() {
    let order = |seed| {
        let executor = Executor::new(seed);
        let order = Rc::new(RefCell::new(Vec::new()));
        for number in 0..10 {
            let (machine, order) = (executor.clone(), Rc::clone(&order));
            executor.spawn(ME, async move {
                machine.pause_briefly().await;
                order.borrow_mut().push(number);
            });
        }
        let machine = executor.clone();
        executor.run(1000, async move { machine.sleep(Duration::from_secs(1)).await });
        (order.take(), executor.trace())
    };
    assert_eq!(order(1), order(1));
    assert_ne!(order(1).0, order(2).0);
    assert_ne!(order(1).1, order(2).1);
}

#[test]
fn waiting_for_ever_is_detected() {
    let executor = Executor::new(1);
    assert_eq!(executor.run(1000, std::future::pending::<()>()), None);
}

struct Counter(Arc<AtomicU64>);

impl Worker for Counter {
    fn step(&mut self) -> Step {
        self.0.fetch_add(1, Ordering::Relaxed);
        Step::Idle(None)
    }
}

#[test]
fn workers_step_on_rings_until_their_process_dies() {
    let executor = Executor::new(1);
    let (steps, signal) = (Arc::new(AtomicU64::new(0)), Signal::new());
    let worker = Box::new(Counter(Arc::clone(&steps)));
    executor.spawner(ME).spawn("counter", signal.clone(), worker).join();
    let sleep = |seconds| {
        let machine = executor.clone();
        executor.run(100, async move { machine.sleep(Duration::from_secs(seconds)).await });
    };
    sleep(1);
    assert_eq!(steps.load(Ordering::Relaxed), 1, "once when it is spawned");
    executor.pause(ME, Duration::from_secs(10));
    signal.ring();
    sleep(5);
    assert_eq!(steps.load(Ordering::Relaxed), 1, "it is paused");
    sleep(10);
    assert_eq!(steps.load(Ordering::Relaxed), 2);
    executor.kill(ME);
    signal.ring();
    sleep(1);
    assert_eq!(steps.load(Ordering::Relaxed), 2);
}
