use std::collections::BTreeSet;

use carnet_base::{Rng, SeededRng};

use super::*;

const LIMITS: GateLimits = GateLimits {
    running_max: 2,
    queue_max: 4,
    queue_bytes_max: 1_000,
    shed_after: Duration::from_millis(50),
};

fn number(rng: &mut SeededRng, bound: u64) -> usize {
    usize::try_from(rng.below(bound)).unwrap()
}

fn at(millis: u64) -> Moment {
    Moment(Duration::from_millis(millis))
}

const LEVEL: QueueId = QueueId { level: LevelId(0), workload: Workload::Interactive };

fn request(bytes: usize, deadline: Option<Moment>) -> Arriving {
    let QueueId { level, workload } = LEVEL;
    Arriving { level, limits: LevelLimits::default(), workload, bytes, deadline }
}

fn arrive(gate: &mut Gate, millis: u64) -> (Arrival, Vec<Decision>) {
    let mut decisions = Vec::new();
    let arrival = gate.arrive(request(1, None), at(millis), &mut decisions);
    (arrival, decisions)
}

fn pass(arrival: Arrival) -> Pass {
    let Arrival::Admitted(pass) = arrival else { panic!("{arrival:?}") };
    pass
}

/// Ends a request of the default queue of these tests.
fn end(gate: &mut Gate, took: u64, millis: u64, decisions: &mut Vec<Decision>) {
    let (pass, took) = (
        Pass { queue: LEVEL, shares: SHARES_DEFAULT, charged: Duration::ZERO, yields: false },
        Duration::from_millis(took),
    );
    gate.done(pass, took, took, at(millis), decisions);
}

/// Ends a request of the default queue that took `micros`.
fn end_after(gate: &mut Gate, micros: u64, now: Moment, decisions: &mut Vec<Decision>) {
    let pass =
        Pass { queue: LEVEL, shares: SHARES_DEFAULT, charged: Duration::ZERO, yields: false };
    let took = Duration::from_micros(micros);
    gate.done(pass, took, took, now, decisions);
}

fn admitted(decisions: &[Decision]) -> Vec<Ticket> {
    let ticket = |decision: &Decision| match decision {
        Decision::Admit(ticket, _) => *ticket,
        Decision::Shed(..) => panic!("{decisions:?}"),
    };
    decisions.iter().map(ticket).collect()
}

fn ticket(arrival: Arrival) -> Ticket {
    let Arrival::Queued(ticket) = arrival else { panic!("{arrival:?}") };
    ticket
}

fn done(gate: &mut Gate, millis: u64) -> Vec<Decision> {
    let mut decisions = Vec::new();
    end(gate, 1, millis, &mut decisions);
    decisions
}

/// Makes a gate with two running requests.
fn busy() -> Gate {
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

/// A stall holds all slots, and a queue forms behind it. The first admission after the stall says nothing about the
/// time that the queue takes.
#[test]
fn requests_after_stall_are_not_refused() {
    let slots = 16;
    let mut gate = Gate::new(GateLimits { running_max: slots, queue_max: 1_000, ..LIMITS });
    for _ in 0..slots {
        pass(arrive(&mut gate, 0).0);
    }
    for _ in 0..40 {
        ticket(arrive(&mut gate, 1).0);
    }
    let mut decisions = Vec::new();
    (0..slots).for_each(|_| end_after(&mut gate, 500_000, at(501), &mut decisions));
    assert_eq!(admitted(&decisions).len(), slots);
    let timeout = Duration::from_secs(2);
    let late = request(1, Some(at(502).after(timeout)));
    ticket(gate.arrive(late, at(502), &mut decisions));
    // The next stall follows a time of short waits.
    for millis in 503..540 {
        decisions.clear();
        end_after(&mut gate, 1_000, at(millis), &mut decisions);
        gate.arrive(request(1, None), at(millis), &mut decisions);
    }
    decisions.clear();
    (0..slots).for_each(|_| end_after(&mut gate, 500_000, at(1_040), &mut decisions));
    let late = request(1, Some(at(1_041).after(timeout)));
    ticket(gate.arrive(late, at(1_041), &mut decisions));
}

/// Two slots, each taken for 40 ms: a request is admitted every 20 ms.
#[test]
fn full_queue_refuses_late_requests() {
    let mut gate = busy();
    let tickets: Vec<_> = (0..4).map(|_| ticket(arrive(&mut gate, 0).0)).collect();
    assert_eq!(admitted(&done(&mut gate, 20)), tickets[..1]);
    assert!(!gate.is_overloaded());
    let refused = |arrived: (Arrival, Vec<Decision>)| matches!(arrived.0, Arrival::Shed(shed) if shed.reason == Reason::Overloaded);
    ticket(arrive(&mut gate, 20).0);
    let (newest, decisions) = arrive(&mut gate, 30);
    assert!(matches!(decisions[..], [Decision::Shed(refused, _)] if refused == tickets[1]));
    assert!(gate.is_overloaded());
    ticket(newest);
    assert!(refused(arrive(&mut gate, 31)), "four wait before it, for 20 ms each");
    assert_eq!(admitted(&done(&mut gate, 40)), [tickets[2]]);
    assert!(refused(arrive(&mut gate, 41)), "three wait before it");
    // The oldest has waited for 50 ms. The next one is admitted.
    let decisions = done(&mut gate, 60);
    assert!(matches!(decisions[0], Decision::Shed(refused, _) if refused == tickets[3]));
    admitted(&decisions[1..]);
    ticket(arrive(&mut gate, 60).0);
    done(&mut gate, 79);
    assert!(gate.is_overloaded());
    done(&mut gate, 80);
    assert!(!gate.is_overloaded(), "the queue is empty");
}

#[test]
fn tick_refuses_without_other_events() {
    let mut gate = busy();
    (0..5).for_each(|_| drop(arrive(&mut gate, 0)));
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
    let first = ticket(gate.arrive(request(600, None), at(0), &mut decisions));
    assert!(matches!(gate.arrive(request(600, None), at(1), &mut decisions), Arrival::Queued(_)));
    assert!(matches!(decisions[..], [Decision::Shed(refused, _)] if refused == first));
    decisions.clear();
    let larger = gate.arrive(request(1_001, None), at(1), &mut decisions);
    assert!(matches!(larger, Arrival::Shed(_)), "it would never have room: {larger:?}");
}

#[test]
fn late_requests_are_refused_at_once() {
    let mut gate = busy();
    let mut decisions = Vec::new();
    end(&mut gate, 10, 0, &mut decisions);
    let arrive = |gate: &mut Gate, deadline: u64, now: u64| {
        gate.arrive(request(1, Some(at(deadline))), at(now), &mut Vec::new())
    };
    let refused = arrive(&mut gate, 10, 0);
    assert!(matches!(refused, Arrival::Shed(shed) if shed.reason == Reason::Deadline));
    pass(arrive(&mut gate, 11, 0));
    let waits = ticket(arrive(&mut gate, 30, 0));
    ticket(arrive(&mut gate, 30, 0));
    assert!(matches!(arrive(&mut gate, 24, 14), Arrival::Shed(_)), "it takes 10 ms");
    assert!(matches!(arrive(&mut gate, 25, 14), Arrival::Shed(_)), "the oldest waits for 14 ms");
    end(&mut gate, 10, 25, &mut decisions);
    assert!(
        matches!(decisions[0], Decision::Shed(refused, shed)
            if refused == waits && shed.reason == Reason::Deadline),
        "{decisions:?}"
    );
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

#[test]
fn each_request_is_decided_once() {
    for seed in 0..300 {
        let mut rng = SeededRng::new(seed);
        let mut gate = Gate::new(GateLimits { queue_max: 1 + number(&mut rng, 6), ..LIMITS });
        let (mut waiting, mut running, mut now) = (BTreeSet::new(), Vec::new(), 0);
        for _ in 0..500 {
            now += rng.below(8);
            let mut decisions = Vec::new();
            match rng.below(10) {
                0..5 => {
                    let deadline = rng.chance(2).then(|| at(now + rng.below(60)));
                    let request = Arriving {
                        level: LevelId(rng.below(3)),
                        workload: Workload::ALL[number(&mut rng, 2)],
                        ..request(number(&mut rng, 300), deadline)
                    };
                    match gate.arrive(request, at(now), &mut decisions) {
                        Arrival::Admitted(pass) => running.push(pass),
                        Arrival::Queued(ticket) | Arrival::Throttled(ticket) => {
                            assert!(waiting.insert(ticket));
                        }
                        Arrival::Shed(_) => {}
                    }
                }
                5..8 if !running.is_empty() => {
                    let pass = running.swap_remove(number(&mut rng, running.len() as u64));
                    let took = Duration::from_millis(rng.below(9));
                    match rng.below(5) {
                        0 => gate.give_back(pass, at(now), &mut decisions),
                        _ => gate.done(pass, took, took, at(now), &mut decisions),
                    }
                }
                8 => {
                    let any = waiting.iter().nth(number(&mut rng, 4)).copied();
                    if let Some(ticket) = any {
                        assert!(gate.cancel(ticket) && waiting.remove(&ticket));
                    }
                }
                _ => gate.tick(at(now), &mut decisions),
            }
            for decision in decisions {
                let (Decision::Admit(ticket, _) | Decision::Shed(ticket, _)) = decision;
                assert!(waiting.remove(&ticket), "seed {seed}: decided twice");
                if let Decision::Admit(_, pass) = decision {
                    running.push(pass);
                }
            }
            assert_eq!(
                (gate.running(), gate.waiting()),
                (running.len(), waiting.len()),
                "seed {seed}"
            );
            assert!(running.len() <= 2, "seed {seed}");
            let batch =
                running.iter().filter(|pass| pass.queue.workload == Workload::Batch).count();
            assert!(batch <= 1, "seed {seed}: no place is left for interactive requests");
            let may_run =
                |ticket: &Ticket| ticket.queue.workload == Workload::Interactive || batch == 0;
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
    assert_eq!((throttled, decisions.len()), (16, 0), "a queue of four");
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
        gate.done(pass, Duration::from_millis(1), Duration::from_millis(1), at(1), &mut decisions);
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
                gate.done(pass, cost, cost, at(step), &mut decisions);
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
    let second = ticket(gate.arrive(level, at(0), &mut decisions));
    ticket(gate.arrive(level, at(0), &mut decisions));
    assert_eq!(decisions, []);
    ticket(gate.arrive(level, at(0), &mut decisions));
    assert!(matches!(decisions.pop(), Some(Decision::Shed(oldest, _)) if oldest == second));
    pass(arrive(&mut gate, 0).0);
    // The limits of the last request apply.
    let limits = LevelLimits { running_max: Some(3), ..limits };
    ticket(gate.arrive(Arriving { limits, ..level }, at(1), &mut decisions));
    decisions.clear();
    gate.done(first, Duration::ZERO, Duration::ZERO, at(2), &mut decisions);
    assert_eq!(admitted(&decisions).len(), 2);
}

#[test]
fn number_of_idle_levels_is_bounded() {
    let mut gate = Gate::new(LIMITS);
    let mut decisions = Vec::new();
    for id in 0..1_000 {
        let level = Arriving { level: LevelId(id), ..request(1, None) };
        let pass = pass(gate.arrive(level, at(id), &mut decisions));
        gate.done(pass, Duration::ZERO, Duration::ZERO, at(id), &mut decisions);
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
            self.gate.done(pass, took, took, moment, &mut decisions);
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

/// A thread reads requests for 1.2 ms, then runs 60 of 40 µs: the queue moves by one each 60 µs, and not each 40 µs.
/// Requests that join a queue that is too long are refused from its other end, which costs more.
#[test]
fn expected_wait_includes_pauses_between_bursts() {
    let at = |micros| Moment(Duration::from_micros(micros));
    let mut gate = Gate::new(GateLimits { running_max: 1, ..SERVER });
    let (mut running, mut refused, mut refused_in_queue) = (0, 0, 0);
    for round in 0..500 {
        let began = round * 3_600;
        let mut decisions = Vec::new();
        for _ in 0..600 {
            match gate.arrive(request(1, None), at(began + 1_200), &mut decisions) {
                Arrival::Admitted(_) => running += 1,
                Arrival::Shed(_) => refused += 1,
                _ => {}
            }
        }
        for statement in 1..=60 {
            if running > 0 {
                running -= 1;
                end_after(&mut gate, 40, at(began + 1_200 + 40 * statement), &mut decisions);
            }
            for decision in decisions.drain(..) {
                match decision {
                    Decision::Admit(..) => running += 1,
                    Decision::Shed(..) => refused_in_queue += 1,
                }
            }
        }
    }
    assert!(refused > 200_000, "{refused}");
    assert!(refused_in_queue < refused / 100, "{refused_in_queue} of {refused}");
}

/// A queue moved by one each 100 ms. Afterwards requests are fast, and queues last for a millisecond: none of them is
/// as long as a window.
#[test]
fn short_queues_correct_the_expected_wait() {
    let mut gate = Gate::new(GateLimits { running_max: 1, ..SERVER });
    let mut decisions = Vec::new();
    let _running = gate.arrive(request(1, None), at(0), &mut decisions);
    let _waiting = gate.arrive(request(1, None), at(0), &mut decisions);
    for millis in [100, 200] {
        end_after(&mut gate, 100_000, at(millis), &mut decisions);
    }
    let fast = |gate: &mut Gate, millis, deadline| {
        let mut decisions = Vec::new();
        let _running = gate.arrive(request(1, None), at(millis), &mut decisions);
        let _waiting = gate.arrive(request(1, None), at(millis), &mut decisions);
        let third = gate.arrive(request(1, deadline), at(millis), &mut decisions);
        let admitted = if matches!(third, Arrival::Shed(_)) { 2 } else { 3 };
        for after in 1..=admitted {
            end_after(gate, 1_000, at(millis + after), &mut decisions);
        }
        third
    };
    for round in 0..100 {
        fast(&mut gate, 1_000 + 10 * round, None);
    }
    let third = fast(&mut gate, 3_000, Some(at(3_090)));
    assert!(matches!(third, Arrival::Queued(_)), "it is not late by the old interval: {third:?}");
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
