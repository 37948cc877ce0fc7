use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};

use carnet_base::{SystemClock, ThreadSpawn, WaitNote, note_wait};

use super::*;

fn admission() -> Admission {
    let limits = AdmissionLimits::of_server(1);
    let statements = GateLimits { running_max: 1, ..limits.statements };
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    Admission::new(AdmissionLimits { statements, ..limits }, &clock, &ThreadSpawn)
}

fn arrive(admission: &Admission) -> Arrived {
    let (level, class, workload) = (&Level::default(), Class::Write, Workload::Unspecified);
    let request = AdmissionRequest::new(level, class, workload, 1);
    admission.arrive(request).unwrap()
}

fn permit(admission: &Admission) -> Permit {
    match arrive(admission) {
        Arrived::Admitted(permit) => permit,
        Arrived::Waits(_) => panic!("a slot is free"),
    }
}

fn running(admission: &Admission) -> usize {
    admission.figures(Class::Write).running
}

/// With one slot, commits of several statements wait for the same sync of the log.
#[test]
fn commit_that_waits_for_log_frees_its_slot() {
    let admission = admission();
    let mut context = Context::from_waker(Waker::noop());
    let (first, is_synced) = (permit(&admission), AtomicBool::new(false));
    let ends = || is_synced.load(Ordering::Relaxed);
    let mut commit = Box::pin(
        first.wait_for_log(poll_fn(|_| if ends() { Poll::Ready(()) } else { Poll::Pending })),
    );
    assert!(commit.as_mut().poll(&mut context).is_pending());
    assert!(commit.as_mut().poll(&mut context).is_pending());
    assert_eq!(running(&admission), 0);
    let other = permit(&admission);
    is_synced.store(true, Ordering::Relaxed);
    assert!(commit.as_mut().poll(&mut context).is_ready());
    drop(commit);
    assert_eq!(running(&admission), 2, "it goes on at once");
    drop((first, other));
    assert_eq!(running(&admission), 0);
}

/// A long statement whose commit waits for the log has two reasons to free its slot.
#[test]
fn long_statement_frees_its_slot_once() {
    let admission = admission();
    let mut context = Context::from_waker(Waker::noop());
    let (long, is_synced) = (Arc::new(permit(&admission)), AtomicBool::new(false));
    let slot = long.run_long().unwrap();
    assert_eq!(running(&admission), 0);
    assert!(long.run_long().is_none(), "it is long already");
    let other = Arc::new(permit(&admission));
    assert!(other.run_long().is_none(), "one is allowed beside one slot");
    let ends = || is_synced.load(Ordering::Relaxed);
    let mut commit = Box::pin(
        long.wait_for_log(poll_fn(|_| if ends() { Poll::Ready(()) } else { Poll::Pending })),
    );
    assert!(commit.as_mut().poll(&mut context).is_pending());
    assert_eq!(running(&admission), 1, "the other one");
    is_synced.store(true, Ordering::Relaxed);
    assert!(commit.as_mut().poll(&mut context).is_ready());
    drop(commit);
    assert_eq!(running(&admission), 1, "it goes on without a slot");
    drop(slot);
    assert_eq!(running(&admission), 2);
    drop(long);
    assert!(other.run_long().is_some(), "the place of the long one is free");
}

/// A commit that the engine throttles has not reached the log, and more of them would not make it faster.
#[test]
fn throttled_commit_keeps_its_slot() {
    let admission = admission();
    let mut context = Context::from_waker(Waker::noop());
    let permit = permit(&admission);
    let mut is_throttled = true;
    let mut commit = pin!(permit.wait_for_log(poll_fn(|_| {
        if std::mem::take(&mut is_throttled) {
            note_wait(WaitNote::Throttle);
        }
        Poll::<()>::Pending
    })));
    assert!(commit.as_mut().poll(&mut context).is_pending());
    assert_eq!(running(&admission), 1);
    assert!(matches!(arrive(&admission), Arrived::Waits(_)));
    assert!(commit.as_mut().poll(&mut context).is_pending());
    assert_eq!(running(&admission), 0);
}

/// The statements of another class count too: they run on the same threads.
#[test]
fn batch_statements_begin_at_a_low_priority_beside_small_ones() {
    let admission = Admission::new(
        AdmissionLimits::of_server(1),
        &(Arc::new(SystemClock) as Arc<dyn Clock>),
        &ThreadSpawn,
    );
    let admit = |class, workload| {
        let level = Level::default();
        let request = AdmissionRequest::new(&level, class, workload, 1);
        match admission.arrive(request).unwrap() {
            Arrived::Admitted(permit) => permit.begins_long(),
            Arrived::Waits(_) => panic!("a slot is free"),
        }
    };
    assert!(!admit(Class::Read, Workload::Batch), "it is alone");
    // On a busy machine more time may pass between two statements.
    let begins_long = (0..1_000).any(|_| {
        assert!(!admit(Class::Write, Workload::Unspecified), "a small statement does not");
        admit(Class::Read, Workload::Batch)
    });
    assert!(begins_long);
}
