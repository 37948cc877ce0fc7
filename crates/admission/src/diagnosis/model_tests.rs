//! The diagnosis of a queueing model with an injected fault.
//!
//! 48 clients send a statement, wait for its answer, and think. An admitted statement passes the
//! stations cpu, memory, disk, lock, throttle and log, each with a number of servers and a queue.
//! At a random moment one station becomes slow, the gate becomes narrow, or the clients read their
//! answers slowly, so that their next statements wait before admission.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use carnet_base::{Moment, Rng, SeededRng};

use super::*;

const CLIENTS: usize = 48;
const END: u64 = 4_000_000;

/// A station with its reason, its number of servers, and its mean service time in µs. Service at a
/// device is a wait of the statement too.
struct Station {
    why: Why,
    free_at: Vec<u64>,
    mean: u64,
    is_device: bool,
}

fn stations() -> [Station; 6] {
    let station =
        |why, servers, mean, is_device| Station { why, free_at: vec![0; servers], mean, is_device };
    [
        station(Why::Cpu, 2, 100, false),
        station(Why::Memory, 2, 20, false),
        station(Why::Disk, 4, 100, true),
        station(Why::Lock, 1, 10, false),
        station(Why::Throttle, 1, 10, false),
        station(Why::Log, 2, 100, true),
    ]
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Arrive,
    /// The client has read its previous answers.
    Queue,
    Enter(usize),
    /// The statement has its turn at the lock, and its permit again.
    Locked {
        end: u64,
    },
    End,
}

#[derive(Default)]
struct Statement {
    arrived: u64,
    admitted: u64,
    paused: u64,
    waits: Waits,
}

struct Model {
    rng: SeededRng,
    fault: Why,
    fault_at: u64,
    /// Slowdown factor of the faulty station.
    slower: u64,
    permits: usize,
    running: usize,
    queue: VecDeque<usize>,
    stations: [Station; 6],
    statements: Vec<Statement>,
    events: BinaryHeap<Reverse<(u64, usize, Step)>>,
    history: History,
}

impl Model {
    fn new(seed: u64, fault: Why) -> Self {
        let mut rng = SeededRng::new(seed);
        let (fault_at, slower) = (rng.below(END / 2), 30 + rng.below(40));
        let is_short = matches!(fault, Why::Lock | Why::Memory | Why::Throttle | Why::Socket);
        let slower = if is_short { slower * 8 } else { slower };
        Self {
            events: (0..CLIENTS).map(|of| Reverse((rng.below(20_000), of, Step::Arrive))).collect(),
            rng,
            fault,
            fault_at,
            slower,
            permits: 16,
            running: 0,
            queue: VecDeque::new(),
            stations: stations(),
            statements: (0..CLIENTS).map(|_| Statement::default()).collect(),
            history: History::new(Moment::default()),
        }
    }

    fn run(mut self) -> Report {
        while let Some(Reverse((now, of, step))) = self.events.pop() {
            if now >= END {
                break;
            }
            if self.fault == Why::Gate && now >= self.fault_at {
                self.permits = 1;
            }
            match step {
                Step::Arrive => self.arrive(now, of),
                Step::Queue => {
                    self.statements[of].arrived = now;
                    self.queue.push_back(of);
                }
                Step::Enter(at) => self.enter(now, of, at),
                Step::Locked { end } => {
                    self.running += 1;
                    self.events.push(Reverse((end, of, Step::Enter(4))));
                }
                Step::End => self.end(now, of),
            }
            self.admit(now);
        }
        self.history.report(moment(END))
    }

    /// A client takes 10 µs to read its answers, unless it is slow.
    fn arrive(&mut self, now: u64, of: usize) {
        let is_slow = self.fault == Why::Socket && now >= self.fault_at;
        let mean = 10 * if is_slow { self.slower } else { 1 };
        let unread = mean / 2 + self.rng.below(mean);
        self.statements[of] = Statement::default();
        self.statements[of].waits.add(Why::Socket, Duration::from_micros(unread));
        self.events.push(Reverse((now + unread, of, Step::Queue)));
    }

    fn admit(&mut self, now: u64) {
        while self.running < self.permits
            && let Some(of) = self.queue.pop_front()
        {
            self.running += 1;
            let statement = &mut self.statements[of];
            statement.admitted = now;
            statement.waits.add(Why::Gate, Duration::from_micros(now - statement.arrived));
            self.events.push(Reverse((now, of, Step::Enter(0))));
        }
    }

    fn enter(&mut self, now: u64, of: usize, at: usize) {
        let is_slow = self.stations[at].why == self.fault && now >= self.fault_at;
        let mean = self.stations[at].mean * if is_slow { self.slower } else { 1 };
        let service = mean / 2 + self.rng.below(mean);
        let station = &mut self.stations[at];
        let free_at = station.free_at.iter_mut().min().expect("it has servers");
        let start = now.max(*free_at);
        let end = start + service;
        *free_at = end;
        let waited = if station.is_device { end - now } else { start - now };
        self.statements[of].waits.add(station.why, Duration::from_micros(waited));
        if station.why == Why::Lock && waited > 0 {
            self.statements[of].paused += waited;
            self.running -= 1;
            self.events.push(Reverse((start, of, Step::Locked { end })));
            return;
        }
        let next = if at + 1 < self.stations.len() { Step::Enter(at + 1) } else { Step::End };
        self.events.push(Reverse((end, of, next)));
    }

    fn end(&mut self, now: u64, of: usize) {
        self.running -= 1;
        let Statement { admitted, paused, waits, .. } = &self.statements[of];
        let ended = Ended {
            level: &"default".into(),
            waits: waits.by_why(),
            held: Duration::from_micros(now - admitted - paused),
            wasted: Duration::ZERO,
            waiter: None,
        };
        self.history.add(ended, moment(now));
        let think = 10_000 + self.rng.below(20_000);
        self.events.push(Reverse((now + think, of, Step::Arrive)));
    }
}

fn moment(micros: u64) -> Moment {
    Moment(Duration::from_micros(micros))
}

#[test]
fn injected_fault_is_named_in_most_seeds() {
    for fault in Why::ALL {
        let named = |seed| Model::new(seed, fault).run().bottleneck().map(|cause| cause.why);
        let wrong: Vec<_> = (0..40)
            .map(|seed| (seed, named(seed)))
            .filter(|(_, why)| *why != Some(fault))
            .collect();
        // At least 95 % of 40 seeds.
        assert!(wrong.len() <= 2, "{fault:?}: seeds with their wrong verdicts: {wrong:?}");
    }
}

fn ended(why: Why, waited: Duration, waiter: Option<&Waiter>, history: &mut History, at: u64) {
    let mut waits = [Duration::ZERO; Why::ALL.len()];
    waits[why as usize] = waited;
    let (level, wasted) = (&"default".into(), Duration::ZERO);
    history.add(Ended { level, waits, held: waited, wasted, waiter }, moment(at));
}

#[test]
fn last_instant_does_not_determine_the_bottleneck() {
    let mut history = History::new(moment(0));
    for second in 0..10 {
        ended(Why::Disk, Duration::from_millis(300), None, &mut history, second * 1_000_000);
    }
    ended(Why::Lock, Duration::from_millis(900), None, &mut history, 9_900_000);
    let report = history.report(moment(9_999_999));
    assert_eq!(report.bottleneck().map(|cause| cause.why), Some(Why::Disk));
    assert_eq!(report.causes[1].why, Why::Lock);
}

#[test]
fn waits_older_than_ten_seconds_are_forgotten() {
    let mut history = History::new(moment(0));
    ended(Why::Disk, Duration::from_secs(5), None, &mut history, 400_000);
    assert!(history.report(moment(9_999_999)).bottleneck().is_some());
    assert!(history.report(moment(10_000_000)).causes.is_empty());
    let (_, totals) = history.totals().next().unwrap();
    assert_eq!(totals.waited[Why::Disk as usize], Duration::from_secs(5));
}

#[test]
fn little_waiting_has_no_bottleneck() {
    let mut history = History::new(moment(0));
    ended(Why::Log, Duration::from_millis(499), None, &mut history, 10_000_000);
    let report = history.report(moment(10_000_000));
    assert_eq!((report.bottleneck(), report.causes.len()), (None, 1));
    ended(Why::Log, Duration::from_millis(1), None, &mut history, 10_000_000);
    assert!(history.report(moment(10_000_000)).bottleneck().is_some());
}

#[test]
fn statement_that_waits_most_is_named_across_windows() {
    let mut history = History::new(moment(0));
    let waiter = |text, user: &str| Waiter {
        named: Arc::new(Named::new("ks.t", text)),
        user: Some(user.into()),
    };
    let (often, once) = (waiter("often", "ann"), waiter("once", "ann"));
    ended(Why::Lock, Duration::from_secs(2), Some(&once), &mut history, 5_000_000);
    for half in 0..20 {
        ended(Why::Lock, Duration::from_millis(200), Some(&often), &mut history, half * 500_000);
    }
    // Another user of the same statement.
    ended(
        Why::Lock,
        Duration::from_secs(3),
        Some(&waiter("often", "bob")),
        &mut history,
        9_000_000,
    );
    let report = history.report(moment(9_999_999));
    assert_eq!(report.bottleneck().unwrap().waiter.as_ref(), Some(&often));
    assert!(report.verdict().ends_with("most by ks.t: often (user ann)"), "{}", report.verdict());
}

#[test]
fn levels_beyond_the_bound_are_one() {
    let mut history = History::new(moment(0));
    for n in 0..1_000 {
        let level = &format!("level {n}").into();
        let waits = [Duration::from_secs(1); Why::ALL.len()];
        let (held, wasted) = (Duration::ZERO, Duration::ZERO);
        history.add(Ended { level, waits, held, wasted, waiter: None }, moment(1));
    }
    assert_eq!(history.totals().count(), 64);
    let others = history.totals().find(|(level, _)| &***level == "others").unwrap();
    assert_eq!(others.1.waited[0], Duration::from_secs(1_000 - 63));
}

#[test]
fn dumps_come_every_thirty_seconds() {
    let mut history = History::new(moment(0));
    let mut dumps = |second| history.dump(moment(second * 1_000_000)).is_some();
    let found: Vec<u64> = (0..100).filter(|second| dumps(*second)).collect();
    assert_eq!(found, [0, 30, 60, 90]);
}

#[test]
fn names_are_cut_to_a_line() {
    let named = Named::new("ks.\"a\nb\"", &"é\r".repeat(1_000));
    assert!(named.statement().len() <= 160 && !named.statement().contains('\r'));
    assert_eq!(named.table(), "ks.\"a b\"");
    assert_eq!(Named::new("ks.t", "SELECT 1").to_string(), "ks.t: SELECT 1");
    assert_eq!(Named::new("", "SELECT 1").to_string(), "SELECT 1");
}
