use std::collections::BTreeSet;

use carnet_base::{Rng, SeededRng};

use super::*;

pub(super) const LIMITS: GateLimits = GateLimits {
    running_max: 2,
    queue_max: 4,
    queue_bytes_max: 1_000,
    shed_after: Duration::from_millis(50),
};

fn number(rng: &mut SeededRng, bound: u64) -> usize {
    usize::try_from(rng.below(bound)).unwrap()
}

pub(super) fn at(millis: u64) -> Moment {
    Moment(Duration::from_millis(millis))
}

pub(super) const LEVEL: QueueId = QueueId { level: LevelId(0), workload: Workload::Interactive };

pub(super) fn request(bytes: usize, deadline: Option<Moment>) -> Arriving {
    let QueueId { level, workload } = LEVEL;
    let (limits, age) = (LevelLimits::default(), Duration::ZERO);
    Arriving { level, limits, workload, bytes, age, deadline, tenant: Tenant::default() }
}

pub(super) fn arrive(gate: &mut Gate, millis: u64) -> (Arrival, Vec<Decision>) {
    let mut decisions = Vec::new();
    let arrival = gate.arrive(request(1, None), at(millis), &mut decisions);
    (arrival, decisions)
}

pub(super) fn pass(arrival: Arrival) -> Pass {
    let Arrival::Admitted(pass) = arrival else { panic!("{arrival:?}") };
    pass
}

/// Ends a request of the default queue of these tests.
pub(super) fn end(gate: &mut Gate, took: u64, millis: u64, decisions: &mut Vec<Decision>) {
    end_in(gate, LEVEL, took, millis, decisions);
}

pub(super) fn end_in(
    gate: &mut Gate,
    queue: QueueId,
    took: u64,
    millis: u64,
    decisions: &mut Vec<Decision>,
) {
    let pass = Pass { queue, shares: SHARES_DEFAULT, charged: Duration::ZERO, yields: false };
    gate.done(pass, Duration::from_millis(took), at(millis), decisions);
}

pub(super) fn admitted(decisions: &[Decision]) -> Vec<Ticket> {
    let ticket = |decision: &Decision| match decision {
        Decision::Admit(ticket, _) => *ticket,
        Decision::Shed(..) => panic!("{decisions:?}"),
    };
    decisions.iter().map(ticket).collect()
}

pub(super) fn ticket(arrival: Arrival) -> Ticket {
    let Arrival::Queued(ticket) = arrival else { panic!("{arrival:?}") };
    ticket
}

pub(super) fn done(gate: &mut Gate, millis: u64) -> Vec<Decision> {
    let mut decisions = Vec::new();
    end(gate, 1, millis, &mut decisions);
    decisions
}

/// Makes a gate with two running requests.
pub(super) fn busy() -> Gate {
    let mut gate = Gate::new(LIMITS);
    for _ in 0..2 {
        pass(arrive(&mut gate, 0).0);
    }
    gate
}

#[test]
fn queue_with_room_is_served_in_order() {
    let mut gate = busy();
    let first = ticket(arrive(&mut gate, 0).0);
    let second = ticket(arrive(&mut gate, 1).0);
    // No request is refused, however long it waits.
    assert_eq!(admitted(&done(&mut gate, 9_000)), [first]);
    assert_eq!(admitted(&done(&mut gate, 9_001)), [second]);
    assert_eq!(done(&mut gate, 9_002), []);
    assert_eq!((gate.running(), gate.waiting()), (1, 0));
}

/// A service level with a short timeout ran one slow request. The old gate predicted the end of later ones from its
/// duration, and refused them until a restart.
#[test]
fn slow_request_does_not_refuse_later_ones() {
    let mut gate = busy();
    let mut decisions = Vec::new();
    (0..2).for_each(|_| end(&mut gate, 9_000, 9_000, &mut decisions));
    let soon = request(1, Some(at(9_001)));
    pass(gate.arrive(soon, at(9_000), &mut decisions));
    pass(gate.arrive(soon, at(9_000), &mut decisions));
    ticket(gate.arrive(soon, at(9_000), &mut decisions));
    assert_eq!(decisions, []);
}

#[test]
fn request_that_never_ran_leaves_no_trace() {
    let mut gate = Gate::new(LIMITS);
    for millis in 0..3 {
        let pass = pass(arrive(&mut gate, millis).0);
        gate.give_back(pass, at(millis), &mut Vec::new());
        assert!(gate.running() == 0 && !gate.is_full(), "{millis}");
    }
}

#[test]
fn gate_is_full_with_paused_requests() {
    let mut gate = Gate::new(LIMITS);
    let first = pass(arrive(&mut gate, 0).0);
    assert!(!gate.is_full());
    pass(arrive(&mut gate, 0).0);
    assert!(gate.is_full());
    gate.pause(first, at(1), &mut Vec::new());
    assert!(gate.running() == 1 && gate.is_full());
}

/// Any history: slow requests, missed deadlines, full queues, cancelled requests, pauses of the store.
#[test]
fn idle_gate_admits_any_request() {
    for seed in 0..300 {
        let mut rng = SeededRng::new(seed);
        let mut random = Random::new(&mut rng);
        for _ in 0..200 {
            random.step(&mut rng);
        }
        random.drain();
        for workload in Workload::ALL {
            for level in 0..3 {
                let deadline = rng.chance(500).then(|| at(random.now + 1));
                let (level, limits) = (LevelId(level), random.limits);
                let request = Arriving { level, limits, workload, ..request(1, deadline) };
                let mut decisions = Vec::new();
                let pass = pass(random.gate.arrive(request, at(random.now), &mut decisions));
                random.gate.give_back(pass, at(random.now), &mut decisions);
                assert_eq!(decisions, [], "seed {seed}");
            }
        }
    }
}

/// Two slots, each taken for 40 ms: a request is admitted every 20 ms.
#[test]
fn full_queue_refuses_late_requests() {
    let mut gate = busy();
    let tickets: Vec<_> = (0..4).map(|_| ticket(arrive(&mut gate, 0).0)).collect();
    assert_eq!(admitted(&done(&mut gate, 20)), tickets[..1]);
    assert!(!gate.is_overloaded(LEVEL, at(20)));
    let refused = |arrived: (Arrival, Vec<Decision>)| {
        assert_eq!(arrived.1, []);
        matches!(arrived.0, Arrival::Shed(shed) if shed.reason == Reason::Overloaded)
    };
    ticket(arrive(&mut gate, 20).0);
    assert!(refused(arrive(&mut gate, 21)), "four wait");
    assert!(gate.is_overloaded(LEVEL, at(40)));
    assert_eq!(admitted(&done(&mut gate, 40)), [tickets[1]]);
    assert!(refused(arrive(&mut gate, 41)), "the oldest has waited for 41 ms");
    // Two have waited for 50 ms. The next one is admitted.
    let decisions = done(&mut gate, 60);
    let expired = |number: usize| matches!(decisions[number], Decision::Shed(refused, _) if refused == tickets[number + 2]);
    assert!(expired(0) && expired(1), "{decisions:?}");
    admitted(&decisions[2..]);
    ticket(arrive(&mut gate, 60).0);
    assert!(gate.is_overloaded(LEVEL, at(159)));
    assert!(!gate.is_overloaded(LEVEL, at(160)));
}

/// Requests of 50 ms come one after the other, from a backlog that no gate sees. A place is always free.
#[test]
fn old_requests_are_refused_after_an_interval() {
    let mut gate = Gate::new(LIMITS);
    let mut arrive = |age, millis| {
        let request = Arriving { age: Duration::from_millis(age), ..request(1, None) };
        let arrival = gate.arrive(request, at(millis), &mut Vec::new());
        if let Arrival::Admitted(pass) = arrival {
            gate.give_back(pass, at(millis), &mut Vec::new());
        }
        matches!(arrival, Arrival::Shed(shed) if shed.reason == Reason::Overloaded)
    };
    assert!(!arrive(9_000, 0), "one old request is no overload");
    assert!(!arrive(9_000, 49));
    assert!(!arrive(9_000, 99), "nothing old came for 50 ms");
    assert!(!arrive(50, 130) && !arrive(49, 149));
    assert!(arrive(50, 149));
    assert!(arrive(50, 150) && !arrive(49, 150), "overloaded");
    assert!(arrive(50, 249) && !arrive(50, 399), "for 100 ms after the last refusal");
    assert!(!arrive(50, 410) && arrive(50, 449));
    assert!(!arrive(8_451, 9_000) && arrive(8_453, 9_001), "arrived 100 and 99 ms after it");
}

/// The client of such a request has not asked for refusals.
#[test]
fn unspecified_requests_wait_and_are_throttled() {
    let unspecified = Arriving { workload: Workload::Unspecified, ..request(1, None) };
    let mut gate = busy();
    let mut decisions = Vec::new();
    let queued: Vec<_> =
        (0..4).map(|_| ticket(gate.arrive(unspecified, at(0), &mut decisions))).collect();
    let Arrival::Throttled(fifth) = gate.arrive(unspecified, at(1), &mut decisions) else {
        panic!("the queue is full");
    };
    end(&mut gate, 1, 20, &mut decisions);
    end(&mut gate, 1, 20, &mut decisions);
    assert_eq!(admitted(&decisions), queued[..2]);
    assert!(matches!(gate.arrive(unspecified, at(49), &mut decisions), Arrival::Queued(_)));
    // The queue has room, but it moves slowly.
    assert!(matches!(gate.arrive(unspecified, at(50), &mut decisions), Arrival::Throttled(_)));
    decisions.clear();
    gate.tick(at(9_000), &mut decisions);
    assert_eq!(decisions, []);
    (0..3).for_each(|_| end(&mut gate, 1, 9_000, &mut decisions));
    assert_eq!(admitted(&decisions), [queued[2], queued[3], fifth]);
}

/// The time before a request joined the queue says nothing about the queue.
#[test]
fn old_request_does_not_throttle_later_ones() {
    let mut gate = busy();
    let age = Duration::from_secs(1);
    let old = Arriving { workload: Workload::Unspecified, age, ..request(1, None) };
    for millis in [2_000, 2_049] {
        let arrival = gate.arrive(old, at(millis), &mut Vec::new());
        assert!(matches!(arrival, Arrival::Queued(_)), "{arrival:?}");
    }
    let arrival = gate.arrive(old, at(2_050), &mut Vec::new());
    assert!(matches!(arrival, Arrival::Throttled(_)), "{arrival:?}");
}

#[test]
fn tick_refuses_without_other_events() {
    let mut gate = busy();
    (0..5).for_each(|_| drop(arrive(&mut gate, 0)));
    assert!(gate.is_overloaded(LEVEL, at(49)));
    let mut decisions = Vec::new();
    gate.tick(at(49), &mut decisions);
    assert_eq!(decisions, []);
    gate.tick(at(50), &mut decisions);
    assert_eq!(decisions.len(), 4);
}

#[test]
fn waiting_bytes_are_bounded() {
    let mut gate = busy();
    let mut decisions = Vec::new();
    ticket(gate.arrive(request(600, None), at(0), &mut decisions));
    assert!(matches!(gate.arrive(request(600, None), at(1), &mut decisions), Arrival::Shed(_)));
    assert_eq!(decisions, []);
    for workload in [Workload::Unspecified, Workload::Batch] {
        let large = Arriving { workload, ..request(600, None) };
        let arrival = gate.arrive(large, at(1), &mut decisions);
        assert!(matches!(arrival, Arrival::Throttled(_)), "{arrival:?}");
    }
}

#[test]
fn request_is_refused_if_its_deadline_passed_before_its_arrival() {
    for workload in Workload::ALL {
        let mut gate = Gate::new(LIMITS);
        let late = Arriving { workload, ..request(1, Some(at(9))) };
        let arrival = gate.arrive(late, at(9), &mut Vec::new());
        assert!(matches!(arrival, Arrival::Shed(shed) if shed.reason == Reason::Deadline));
        pass(gate.arrive(late, at(8), &mut Vec::new()));
    }
}

#[test]
fn requests_are_dropped_at_their_deadline() {
    let mut gate = busy();
    let arrive = |gate: &mut Gate, deadline, workload| {
        let request = Arriving { workload, ..request(1, Some(at(deadline))) };
        ticket(gate.arrive(request, at(0), &mut Vec::new()))
    };
    for workload in Workload::ALL {
        let (late, early) = (arrive(&mut gate, 10, workload), arrive(&mut gate, 100, workload));
        let mut decisions = Vec::new();
        end(&mut gate, 1, 9, &mut decisions);
        assert!(matches!(decisions[..], [Decision::Admit(one, _)] if one == late), "in time");
        let last = arrive(&mut gate, 11, workload);
        decisions.clear();
        end_in(&mut gate, QueueId { workload, ..LEVEL }, 1, 99, &mut decisions);
        assert_eq!(admitted(&decisions), [early]);
        decisions.clear();
        gate.tick(at(100), &mut decisions);
        assert!(
            matches!(decisions[..], [Decision::Shed(refused, shed)]
                if refused == last && shed.reason == Reason::Deadline),
            "{decisions:?}"
        );
        pass_on(&mut gate, QueueId { workload, ..LEVEL });
    }
}

/// Ends a running request of a queue, and starts one of the default queue.
fn pass_on(gate: &mut Gate, queue: QueueId) {
    end_in(gate, queue, 1, 0, &mut Vec::new());
    pass(arrive(gate, 0).0);
}

#[test]
fn paused_requests_make_room() {
    let mut gate = Gate::new(LIMITS);
    let first = pass(arrive(&mut gate, 0).0);
    pass(arrive(&mut gate, 0).0);
    let waits = ticket(arrive(&mut gate, 0).0);
    let mut decisions = Vec::new();
    gate.pause(first, at(1), &mut decisions);
    assert_eq!(admitted(&decisions), [waits]);
    gate.resume(first);
    assert_eq!(gate.running(), 3, "it does not wait for the others");
    arrive(&mut gate, 1);
    assert_eq!(done(&mut gate, 2), [], "one more than may");
    assert_eq!(done(&mut gate, 2).len(), 1);
}

/// A gate with random requests, and what its driver knows of them.
struct Random {
    gate: Gate,
    /// Limits of all levels.
    limits: LevelLimits,
    waiting: BTreeSet<Ticket>,
    running: Vec<Pass>,
    now: u64,
}

impl Random {
    fn new(rng: &mut SeededRng) -> Self {
        let gate = Gate::new(GateLimits { queue_max: 1 + number(rng, 6), ..LIMITS });
        let shed_after = rng.chance(500).then(|| Duration::from_millis(rng.below(3)));
        let limits = LevelLimits { shed_after, ..LevelLimits::default() };
        Self { gate, limits, waiting: BTreeSet::new(), running: Vec::new(), now: 0 }
    }

    fn step(&mut self, rng: &mut SeededRng) {
        self.now += if rng.chance(20) { rng.below(9_000) } else { rng.below(8) };
        let (now, mut decisions) = (at(self.now), Vec::new());
        match rng.below(10) {
            0..5 => {
                let deadline = rng.chance(500).then(|| at(self.now + rng.below(60)));
                let request = Arriving {
                    level: LevelId(rng.below(3)),
                    limits: self.limits,
                    workload: Workload::ALL[number(rng, 3)],
                    age: Duration::from_millis(rng.below(5) * rng.below(30)),
                    tenant: Tenant(rng.below(3)),
                    ..request(number(rng, 300), deadline)
                };
                match self.gate.arrive(request, now, &mut decisions) {
                    Arrival::Admitted(pass) => self.running.push(pass),
                    Arrival::Queued(ticket) | Arrival::Throttled(ticket) => {
                        assert!(self.waiting.insert(ticket));
                    }
                    Arrival::Shed(shed) => {
                        let is_late = shed.reason == Reason::Deadline;
                        assert!(is_late || request.workload.is_refused());
                    }
                }
            }
            5..8 if !self.running.is_empty() => {
                let pass = self.running.swap_remove(number(rng, self.running.len() as u64));
                match rng.below(5) {
                    0 => self.gate.give_back(pass, now, &mut decisions),
                    _ => {
                        let cost = Duration::from_millis(rng.below(9_000));
                        self.gate.done(pass, cost, now, &mut decisions);
                    }
                }
            }
            8 => {
                let any = self.waiting.iter().nth(number(rng, 4)).copied();
                if let Some(ticket) = any {
                    assert!(self.gate.cancel(ticket) && self.waiting.remove(&ticket));
                }
            }
            _ => self.gate.tick(now, &mut decisions),
        }
        self.carry_out(decisions);
    }

    fn carry_out(&mut self, decisions: Vec<Decision>) {
        for decision in decisions {
            let (Decision::Admit(ticket, _) | Decision::Shed(ticket, _)) = decision;
            assert!(self.waiting.remove(&ticket), "decided twice");
            match decision {
                Decision::Admit(_, pass) => self.running.push(pass),
                Decision::Shed(ticket, shed) => {
                    assert!(ticket.queue.workload.is_refused() || shed.reason == Reason::Deadline);
                }
            }
        }
    }

    /// Ends all requests.
    fn drain(&mut self) {
        while let Some(pass) = self.running.pop() {
            let mut decisions = Vec::new();
            self.gate.done(pass, Duration::from_secs(9), at(self.now), &mut decisions);
            self.carry_out(decisions);
        }
        assert_eq!((self.gate.running(), self.gate.waiting()), (0, 0));
    }
}

#[test]
fn each_request_is_decided_once() {
    for seed in 0..300 {
        let mut rng = SeededRng::new(seed);
        let mut random = Random::new(&mut rng);
        for _ in 0..500 {
            random.step(&mut rng);
            let Random { gate, waiting, running, .. } = &random;
            let counts = (gate.running(), gate.waiting());
            assert_eq!(counts, (running.len(), waiting.len()), "seed {seed}");
            assert!(running.len() <= 2, "seed {seed}");
            let batch =
                running.iter().filter(|pass| pass.queue.workload == Workload::Batch).count();
            assert!(batch <= 1, "seed {seed}: no place is left for small requests");
            let may_run = |ticket: &Ticket| ticket.queue.workload != Workload::Batch || batch == 0;
            assert!(
                running.len() == 2 || !waiting.iter().any(may_run),
                "seed {seed}: the gate idles"
            );
        }
    }
}

#[test]
fn batch_requests_wait_and_are_not_refused() {
    let mut gate = busy();
    let batch = Arriving { workload: Workload::Batch, ..request(1, None) };
    let mut decisions = Vec::new();
    let mut throttled = 0;
    let mut tickets = Vec::new();
    for millis in 0..20 {
        match gate.arrive(batch, at(millis * 10), &mut decisions) {
            Arrival::Queued(ticket) => tickets.push(ticket),
            Arrival::Throttled(ticket) => {
                tickets.push(ticket);
                throttled += 1;
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((throttled, decisions.len()), (16, 0), "a queue of four, then an old one");
    let interactive = ticket(arrive(&mut gate, 200).0);
    // The interactive one comes first, and one batch request runs at a time.
    assert_eq!(admitted(&done(&mut gate, 201)), [interactive]);
    assert_eq!(admitted(&done(&mut gate, 202)), tickets[..1]);
    assert_eq!(admitted(&done(&mut gate, 203)), []);
}

#[test]
fn batch_requests_get_a_part_of_slots() {
    let mut gate = Gate::new(GateLimits { queue_max: 10_000, queue_bytes_max: 1 << 20, ..LIMITS });
    let batch = Arriving { workload: Workload::Batch, ..request(1, None) };
    let mut running = Vec::new();
    let mut decisions = Vec::new();
    for _ in 0..500 {
        for request in [request(1, None), batch] {
            if let Arrival::Admitted(pass) = gate.arrive(request, at(0), &mut decisions) {
                running.push(pass);
            }
        }
    }
    let mut batches = 0;
    for _ in 0..200 {
        let pass = running.remove(0);
        gate.done(pass, Duration::from_millis(1), at(1), &mut decisions);
        for decision in decisions.drain(..) {
            let Decision::Admit(_, pass) = decision else { panic!("{decision:?}") };
            batches += u32::from(pass.queue.workload == Workload::Batch);
            running.push(pass);
        }
    }
    assert!((8..=12).contains(&batches), "{batches} of 200");
}

/// Both levels request more than the capacity; requests of the second level take four times as
/// long.
#[test]
fn levels_share_processor_time_by_their_shares() {
    for seed in 0..20 {
        let mut rng = SeededRng::new(seed);
        let limits = GateLimits { running_max: 8, queue_max: 50, ..SERVER };
        let mut gate = Gate::new(limits);
        let level = |id: u64| Arriving {
            level: LevelId(id),
            limits: LevelLimits {
                shares: [1_000, 100][usize::try_from(id).unwrap()],
                ..LevelLimits::default()
            },
            ..request(100, None)
        };
        let mut running = Vec::new();
        let mut used = [0_u64; 2];
        let mut decisions = Vec::new();
        for step in 0..20_000 {
            for id in 0..2 {
                if let Arrival::Admitted(pass) = gate.arrive(level(id), at(step), &mut decisions) {
                    running.push(pass);
                }
            }
            if running.len() == 8 {
                let pass = running.swap_remove(number(&mut rng, 8));
                let id = usize::try_from(pass.queue.level.0).unwrap();
                let micros = [1, 4][id] * (50 + rng.below(100));
                used[id] += micros;
                let cost = Duration::from_micros(micros);
                gate.done(pass, cost, at(step), &mut decisions);
            }
            running.extend(decisions.drain(..).filter_map(|decision| match decision {
                Decision::Admit(_, pass) => Some(pass),
                Decision::Shed(..) => None,
            }));
        }
        let ratio = used[0] * 100 / used[1];
        assert!((900..=1_100).contains(&ratio), "seed {seed}: {used:?}");
    }
}

#[test]
fn level_has_its_own_limits() {
    let mut gate = Gate::new(GateLimits { running_max: 8, ..LIMITS });
    let limits = LevelLimits { running_max: Some(1), queue_max: Some(2), ..LevelLimits::default() };
    let level = Arriving { level: LevelId(7), limits, ..request(1, None) };
    let mut decisions = Vec::new();
    let first = pass(gate.arrive(level, at(0), &mut decisions));
    ticket(gate.arrive(level, at(0), &mut decisions));
    ticket(gate.arrive(level, at(0), &mut decisions));
    assert_eq!(decisions, []);
    let third = gate.arrive(level, at(0), &mut decisions);
    assert!(matches!(third, Arrival::Shed(_)), "{third:?}");
    pass(arrive(&mut gate, 0).0);
    // The limits of the last request apply.
    let limits = LevelLimits { running_max: Some(3), ..limits };
    ticket(gate.arrive(Arriving { limits, ..level }, at(1), &mut decisions));
    assert_eq!(admitted(&decisions).len(), 2, "there is room for the waiting ones at once");
    decisions.clear();
    gate.done(first, Duration::ZERO, at(2), &mut decisions);
    assert_eq!(admitted(&decisions).len(), 1);
}

#[test]
fn number_of_idle_levels_is_bounded() {
    let mut gate = Gate::new(LIMITS);
    let mut decisions = Vec::new();
    for id in 0..1_000 {
        let level = Arriving { level: LevelId(id), ..request(1, None) };
        let pass = pass(gate.arrive(level, at(id), &mut decisions));
        gate.done(pass, Duration::ZERO, at(id), &mut decisions);
    }
    assert!(gate.levels.len() <= LEVELS_MAX);
}

/// A server with eight slots, each of which takes 1 ms per request: 8,000 requests per second.
struct Load {
    gate: Gate,
    rng: SeededRng,
    /// End and arrival times of running requests, in microseconds.
    running: BTreeSet<(u64, u64, u64)>,
    passes: BTreeMap<u64, Pass>,
    arrived: BTreeMap<Ticket, u64>,
    id: u64,
    /// Maximum latency of a good answer, in microseconds.
    good_micros: u64,
    /// Number of good answers by the second of their arrival.
    good: Vec<u32>,
    shed: u32,
    late: u32,
}

impl Load {
    fn new(limits: GateLimits, good_micros: u64) -> Self {
        Self {
            good_micros,
            gate: Gate::new(limits),
            rng: SeededRng::new(7),
            running: BTreeSet::new(),
            passes: BTreeMap::new(),
            arrived: BTreeMap::new(),
            id: 0,
            good: vec![0; 10],
            shed: 0,
            late: 0,
        }
    }

    fn admit(&mut self, now: u64, arrived: u64, pass: Pass) {
        self.id += 1;
        self.passes.insert(self.id, pass);
        self.running.insert((now + 500 + self.rng.below(1_001), arrived, self.id));
    }

    fn decide(&mut self, now: u64, decisions: Vec<Decision>) {
        for decision in decisions {
            match decision {
                Decision::Admit(ticket, pass) => {
                    let arrived = self.arrived.remove(&ticket).unwrap();
                    self.admit(now, arrived, pass);
                }
                Decision::Shed(ticket, _) => {
                    self.arrived.remove(&ticket);
                    self.shed += 1;
                }
            }
        }
    }

    fn arrive(&mut self, now: u64) {
        let mut decisions = Vec::new();
        let moment = Moment(Duration::from_micros(now));
        let deadline = moment.after(Duration::from_secs(5));
        match self.gate.arrive(request(100, Some(deadline)), moment, &mut decisions) {
            Arrival::Admitted(pass) => self.admit(now, now, pass),
            Arrival::Queued(ticket) | Arrival::Throttled(ticket) => {
                assert_eq!(self.arrived.insert(ticket, now), None);
            }
            Arrival::Shed(_) => self.shed += 1,
        }
        self.decide(now, decisions);
    }

    /// Ends all requests that end before a moment; returns when the next one ends.
    fn end_until(&mut self, until: u64, mut again: impl FnMut(&mut Self, u64)) {
        while let Some(&(ends, arrived, id)) = self.running.first().filter(|run| run.0 <= until) {
            self.running.remove(&(ends, arrived, id));
            let mut decisions = Vec::new();
            let moment = Moment(Duration::from_micros(ends));
            let (pass, took) = (self.passes.remove(&id).unwrap(), Duration::from_millis(1));
            self.gate.done(pass, took, moment, &mut decisions);
            self.decide(ends, decisions);
            if ends - arrived <= self.good_micros {
                self.good[usize::try_from(arrived / 1_000_000).unwrap().min(9)] += 1;
            } else {
                self.late += 1;
            }
            again(self, ends);
        }
    }
}

const SERVER: GateLimits = GateLimits {
    running_max: 8,
    queue_max: 1_000,
    queue_bytes_max: 16 << 20,
    shed_after: Duration::from_millis(50),
};

/// Open loop: two, five and ten times the capacity for six seconds, and then less.
#[test]
fn goodput_stays_at_its_peak_under_overload() {
    for factor in [2, 5, 10] {
        // Requests that waited for 50 ms are refused, and a request takes at most 1.5 ms. A queue
        // bounded only by number would make them wait for 60 ms at twice the capacity.
        let mut load = Load::new(SERVER, 55_000);
        let mut now = 0;
        while now < 9_000_000 {
            let rate = if now < 6_000_000 { 8_000 * factor } else { 6_000 };
            now += load.rng.below(2_000_000 / rate);
            load.end_until(now, |_, _| {});
            load.arrive(now);
        }
        for second in 1..6 {
            let good = load.good[second];
            assert!(good >= 7_200, "{factor} times: {:?}", load.good);
        }
        assert!(load.good[7] >= 5_700, "two seconds after: {:?}", load.good);
        assert!(load.gate.waiting() < 100, "{}", load.gate.waiting());
    }
}

/// A thread takes one request after the other from a backlog that no gate sees, and runs it, which takes 40 µs. A refusal
/// takes 3 µs.
#[test]
fn backlog_before_the_gate_is_refused() {
    for factor in [2, 5, 10] {
        let (mut gate, mut rng) = (Gate::new(SERVER), SeededRng::new(factor));
        let (mut now, mut arrived, mut good, mut late) = (0, 0, 0, 0);
        while now < 2_000_000 {
            arrived += rng.below(80 / factor + 1);
            now = now.max(arrived);
            let at = |micros| Moment(Duration::from_micros(micros));
            let age = Duration::from_micros(now - arrived);
            let request = Arriving { age, ..request(100, None) };
            match gate.arrive(request, at(now), &mut Vec::new()) {
                Arrival::Admitted(pass) => {
                    now += 40;
                    gate.done(pass, Duration::from_micros(40), at(now), &mut Vec::new());
                    if now - arrived <= 100_000 { good += 1 } else { late += 1 }
                }
                Arrival::Shed(_) => now += 3,
                waiting => panic!("{waiting:?}"),
            }
        }
        // The rest of the time is spent on refusals.
        let most = 50_000 - 50_000 * 3 * (factor - 1) / 40;
        assert!(good > most * 8 / 10, "{factor} times: {good} good of {most}, {late} late");
        assert!(late * 10 < good, "{factor} times: {good} good, {late} late");
    }
}

/// A thread reads requests for 1.2 ms, then runs 60 of 40 µs. A refusal at the head of the queue costs more than
/// one on arrival.
#[test]
fn most_refusals_happen_on_arrival() {
    let at = |micros| Moment(Duration::from_micros(micros));
    let mut gate = Gate::new(GateLimits { running_max: 1, ..SERVER });
    let (mut running, mut refused, mut refused_in_queue) = (Vec::new(), 0, 0);
    for round in 0..500 {
        let began = round * 3_600;
        let mut decisions = Vec::new();
        for _ in 0..600 {
            match gate.arrive(request(1, None), at(began + 1_200), &mut decisions) {
                Arrival::Admitted(pass) => running.push(pass),
                Arrival::Shed(_) => refused += 1,
                _ => {}
            }
        }
        for statement in 1..=60 {
            if let Some(pass) = running.pop() {
                let (cost, now) = (Duration::from_micros(40), at(began + 1_200 + 40 * statement));
                gate.done(pass, cost, now, &mut decisions);
            }
            for decision in decisions.drain(..) {
                match decision {
                    Decision::Admit(_, pass) => running.push(pass),
                    Decision::Shed(..) => refused_in_queue += 1,
                }
            }
        }
    }
    assert!(refused > 200_000, "{refused}");
    assert!(refused_in_queue < refused / 50, "{refused_in_queue} of {refused}");
}

/// Closed loop: each of 400 clients waits for its answer, on a slow server.
#[test]
fn clients_that_wait_are_never_refused() {
    let mut load = Load::new(SERVER, 100_000);
    for _ in 0..400 {
        load.arrive(0);
    }
    load.end_until(3_000_000, Load::arrive);
    assert_eq!((load.shed, load.late), (0, 0));
    let answered: u32 = load.good.iter().sum();
    assert!(answered > 20_000, "{answered}");
}

#[test]
fn admitted_requests_yield_while_levels_compete() {
    const OTHER: LevelId = LevelId(2);
    let mut gate = Gate::new(GateLimits { running_max: 16, ..LIMITS });
    let mut arrive = |level, millis| {
        let arriving = Arriving { level, ..request(1, None) };
        pass(gate.arrive(arriving, at(millis), &mut Vec::new())).yields
    };
    assert!(!arrive(LEVEL.level, 0), "one level alone");
    assert!(!arrive(LEVEL.level, 1));
    assert!(arrive(OTHER, 2));
    assert!(arrive(OTHER, 10), "the other one is expected again");
    assert!(!arrive(OTHER, 30), "it has gone");
}

#[path = "turn_tests.rs"]
mod turns;
