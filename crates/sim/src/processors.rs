//! The processors of a simulated process: which of its tasks are polled, and how long polls take.
//!
//! A poll takes no virtual time by itself. In a process with processors, the time that a poll
//! [spends](Processor::spend) passes on its clock, and its processor is busy until then. Tasks
//! woken while all processors are busy wait in order, low priority behind the others, except that
//! every tenth turn belongs to low priority.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Every N-th turn belongs to a task of low priority, if both kinds wait.
const LOW_EVERY: u64 = 10;
/// Number of buckets of [`PollLengths`], by powers of two of a microsecond.
const BUCKETS: usize = 24;

/// Priority of a ready task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Priority {
    #[default]
    Normal,
    Low,
}

/// Processors, and the tasks that wait for one. Pure.
#[derive(Debug)]
pub(crate) struct Processors {
    idle: usize,
    normal: VecDeque<u64>,
    low: VecDeque<u64>,
    passed: u64,
    lengths: PollLengths,
}

impl Processors {
    pub(crate) fn new(count: usize) -> Self {
        Self {
            idle: count.max(1),
            normal: VecDeque::new(),
            low: VecDeque::new(),
            passed: 0,
            lengths: PollLengths::default(),
        }
    }

    /// Takes a processor for a task. Returns `false` if the task waits for one.
    pub(crate) fn ask(&mut self, task: u64, priority: Priority) -> bool {
        if self.idle > 0 {
            self.idle -= 1;
            return true;
        }
        match priority {
            Priority::Normal => self.normal.push_back(task),
            Priority::Low => self.low.push_back(task),
        }
        false
    }

    /// Frees a processor after a poll. Returns the task that gets it.
    pub(crate) fn release(&mut self) -> Option<u64> {
        self.passed += 1;
        let is_turn_of_low = self.passed.is_multiple_of(LOW_EVERY);
        let (first, second) = if is_turn_of_low {
            (&mut self.low, &mut self.normal)
        } else {
            (&mut self.normal, &mut self.low)
        };
        let next = first.pop_front().or_else(|| second.pop_front());
        self.idle += usize::from(next.is_none());
        next
    }

    pub(crate) fn record(&mut self, poll: Duration) {
        self.lengths.record(poll);
    }

    pub(crate) fn lengths(&self) -> PollLengths {
        self.lengths.clone()
    }
}

/// Spends processor time in the current poll.
#[derive(Clone)]
pub struct Processor {
    pub(crate) nanos: Arc<AtomicU64>,
}

impl Processor {
    /// Lets time pass in the current poll, which keeps its processor busy. In a process without
    /// processors it passes for all.
    pub fn spend(&self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.nanos.fetch_add(nanos, Ordering::Relaxed);
    }
}

/// A histogram of the lengths of polls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PollLengths {
    counts: [u64; BUCKETS],
    longest: Duration,
}

impl PollLengths {
    fn record(&mut self, poll: Duration) {
        let micros = poll.as_micros();
        let bucket = (u128::BITS - micros.leading_zeros()) as usize;
        self.counts[bucket.min(BUCKETS - 1)] += 1;
        self.longest = self.longest.max(poll);
    }

    /// Returns the length of the longest poll.
    #[must_use]
    pub const fn longest(&self) -> Duration {
        self.longest
    }

    /// Returns the number of polls between each bound and the previous one, if there are any.
    pub fn buckets(&self) -> impl Iterator<Item = (Duration, u64)> {
        let bounds = (0..).map(|power| Duration::from_micros(1 << power));
        bounds.zip(self.counts).filter(|(_, count)| *count > 0)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use carnet_base::{Clock, TIME_SLICE, TimeSlice};

    use super::*;
    use crate::executor::{Executor, Process};

    const ME: Process = Process(1);
    const MICRO: Duration = Duration::from_micros(1);
    const MILLI: Duration = Duration::from_millis(1);

    fn run_for(executor: &Executor, time: Duration) {
        let machine = executor.clone();
        assert_eq!(executor.run(100_000, async move { machine.sleep(time).await }), Some(()));
    }

    #[test]
    fn polls_share_the_processors() {
        for (processors, expected) in [(1, 10), (2, 5), (4, 3), (10, 1)] {
            let executor = Executor::new(1);
            executor.give_processors(ME, processors);
            let last = Rc::new(RefCell::new(Duration::ZERO));
            for _ in 0..10 {
                let (processor, clock, last) =
                    (executor.processor(), executor.clock(), Rc::clone(&last));
                executor.spawn(ME, async move {
                    processor.spend(MILLI);
                    let ended = clock.now().0;
                    let later = ended.max(*last.borrow());
                    *last.borrow_mut() = later;
                });
            }
            run_for(&executor, MILLI * 20);
            let millis = last.borrow().as_millis();
            assert_eq!(millis, expected, "{processors} processors");
        }
    }

    #[test]
    fn long_poll_delays_other_tasks_and_is_recorded() {
        let executor = Executor::new(1);
        executor.give_processors(ME, 1);
        let processor = executor.processor();
        executor.spawn(ME, async move { processor.spend(MILLI * 700) });
        run_for(&executor, MILLI);
        let (clock, polled) = (executor.clock(), Rc::new(RefCell::new(None)));
        let of_task = Rc::clone(&polled);
        executor.spawn(ME, async move { *of_task.borrow_mut() = Some(clock.now().0) });
        run_for(&executor, MILLI * 600);
        assert_eq!(*polled.borrow(), None);
        run_for(&executor, MILLI * 200);
        assert!(polled.borrow().unwrap() >= MILLI * 700);
        assert_eq!(executor.polls(ME).longest(), MILLI * 700);
    }

    #[test]
    fn slices_bound_polls_that_cost_time() {
        let executor = Executor::new(1);
        executor.give_processors(ME, 1);
        let (processor, clock) = (executor.processor(), executor.clock());
        executor.spawn(ME, async move {
            let mut slice = TimeSlice::begin(&clock, crate::executor::yield_once);
            for _ in 0..1_000 {
                slice.check().await;
                processor.spend(MICRO * 30);
            }
        });
        run_for(&executor, MILLI * 40);
        let polls = executor.polls(ME);
        assert!(polls.longest() < TIME_SLICE + MICRO * 30, "{polls:?}");
        assert!(polls.buckets().map(|(_, count)| count).sum::<u64>() > 100, "{polls:?}");
    }

    #[test]
    fn low_priority_has_each_tenth_place() {
        let mut processors = Processors::new(1);
        assert!(processors.ask(0, Priority::Normal));
        (0..100).for_each(|task| assert!(!processors.ask(task, Priority::Low)));
        (100..200).for_each(|task| assert!(!processors.ask(task, Priority::Normal)));
        let first: Vec<_> = (0..100).filter_map(|_| processors.release()).collect();
        assert_eq!(first.iter().filter(|task| **task < 100).count(), 10);
        let rest = std::iter::from_fn(|| processors.release());
        assert_eq!(rest.count(), 100);
        assert!(processors.ask(0, Priority::Low), "it is idle");
    }
}
