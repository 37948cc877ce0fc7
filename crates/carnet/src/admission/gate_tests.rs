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

fn arrive(gate: &mut Gate, millis: u64) -> (Arrival, Vec<Decision>) {
    let mut decisions = Vec::new();
    let arrival = gate.arrive(1, None, at(millis), &mut decisions);
    (arrival, decisions)
}

fn ticket(arrival: Arrival) -> Ticket {
    let Arrival::Queued(ticket) = arrival else { panic!("{arrival:?}") };
    ticket
}

fn done(gate: &mut Gate, millis: u64) -> Vec<Decision> {
    let mut decisions = Vec::new();
    gate.done(Duration::from_millis(1), at(millis), &mut decisions);
    decisions
}

/// A gate that has two requests running.
fn busy() -> Gate {
    let mut gate = Gate::new(LIMITS);
    for _ in 0..2 {
        assert_eq!(arrive(&mut gate, 0), (Arrival::Admitted, Vec::new()));
    }
    gate
}

#[test]
fn queue_with_room_is_served_in_order() {
    let mut gate = busy();
    let first = ticket(arrive(&mut gate, 0).0);
    let second = ticket(arrive(&mut gate, 1).0);
    // Nothing is refused, however long it waits.
    assert_eq!(done(&mut gate, 9_000), [Decision::Admit(first)]);
    assert_eq!(done(&mut gate, 9_001), [Decision::Admit(second)]);
    assert_eq!(done(&mut gate, 9_002), []);
    assert_eq!((gate.running(), gate.waiting()), (1, 0));
}

#[test]
fn full_queue_refuses_what_would_be_late() {
    let mut gate = busy();
    // Requests take 40 ms: with two in the queue another one would wait for 40 ms, with three for 60.
    let mut decisions = Vec::new();
    gate.done(Duration::from_millis(40), at(0), &mut decisions);
    assert_eq!(arrive(&mut gate, 0).0, Arrival::Admitted);
    let tickets: Vec<_> = (0..4).map(|_| ticket(arrive(&mut gate, 0).0)).collect();
    assert!(!gate.is_overloaded());
    let refused = |arrived: (Arrival, Vec<Decision>)| matches!(arrived.0, Arrival::Shed(shed) if shed.reason == Reason::Overloaded);
    let (newest, decisions) = arrive(&mut gate, 10);
    assert!(matches!(decisions[..], [Decision::Shed(refused, _)] if refused == tickets[0]));
    assert!(gate.is_overloaded());
    let newest = ticket(newest);
    assert!(refused(arrive(&mut gate, 11)), "four are waiting");
    let done = |gate: &mut Gate, millis| {
        let mut decisions = Vec::new();
        gate.done(Duration::from_millis(40), at(millis), &mut decisions);
        decisions
    };
    assert_eq!(done(&mut gate, 12), [Decision::Admit(tickets[1])]);
    assert!(refused(arrive(&mut gate, 12)), "three are waiting");
    assert_eq!(done(&mut gate, 13), [Decision::Admit(tickets[2])]);
    let last = ticket(arrive(&mut gate, 13).0);
    // The oldest has waited for 50 ms.
    let decisions = done(&mut gate, 50);
    assert!(matches!(decisions[0], Decision::Shed(refused, _) if refused == tickets[3]));
    assert_eq!(decisions[1..], [Decision::Admit(newest)]);
    assert!(gate.is_overloaded());
    assert_eq!(done(&mut gate, 51), [Decision::Admit(last)]);
    assert!(!gate.is_overloaded(), "the queue is empty");
}

#[test]
fn tick_refuses_where_nothing_ends() {
    let mut gate = busy();
    (0..5).for_each(|_| drop(arrive(&mut gate, 0)));
    let mut decisions = Vec::new();
    gate.tick(at(49), &mut decisions);
    assert_eq!(decisions, []);
    gate.tick(at(50), &mut decisions);
    assert_eq!(decisions.len(), 4);
}

#[test]
fn bytes_that_wait_are_bounded() {
    let mut gate = busy();
    let mut decisions = Vec::new();
    let first = ticket(gate.arrive(600, None, at(0), &mut decisions));
    assert!(matches!(gate.arrive(600, None, at(1), &mut decisions), Arrival::Queued(_)));
    assert!(matches!(decisions[..], [Decision::Shed(refused, _)] if refused == first));
    decisions.clear();
    let larger = gate.arrive(1_001, None, at(1), &mut decisions);
    assert!(matches!(larger, Arrival::Shed(_)), "it would never have room: {larger:?}");
}

#[test]
fn late_requests_are_refused_at_once() {
    let mut gate = busy();
    let mut decisions = Vec::new();
    gate.done(Duration::from_millis(10), at(0), &mut decisions);
    let arrive = |gate: &mut Gate, deadline: u64, now: u64| {
        let mut decisions = Vec::new();
        gate.arrive(1, Some(at(deadline)), at(now), &mut decisions)
    };
    let refused = arrive(&mut gate, 10, 0);
    assert!(matches!(refused, Arrival::Shed(shed) if shed.reason == Reason::Deadline));
    assert_eq!(arrive(&mut gate, 11, 0), Arrival::Admitted);
    let waits = ticket(arrive(&mut gate, 30, 0));
    // Two in the queue before it take 10 ms of the two that run.
    ticket(arrive(&mut gate, 30, 0));
    assert!(matches!(arrive(&mut gate, 20, 0), Arrival::Shed(_)), "it would wait");
    gate.done(Duration::from_millis(10), at(25), &mut decisions);
    assert!(
        matches!(decisions[0], Decision::Shed(refused, shed)
            if refused == waits && shed.reason == Reason::Deadline),
        "{decisions:?}"
    );
}

#[test]
fn paused_requests_make_room() {
    let mut gate = busy();
    let waits = ticket(arrive(&mut gate, 0).0);
    let mut decisions = Vec::new();
    gate.pause(at(1), &mut decisions);
    assert_eq!(decisions, [Decision::Admit(waits)]);
    gate.resume();
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
        let (mut waiting, mut running, mut now) = (BTreeSet::new(), 0_usize, 0);
        for _ in 0..500 {
            now += rng.below(8);
            let mut decisions = Vec::new();
            match rng.below(10) {
                0..5 => {
                    let deadline = rng.chance(2).then(|| at(now + rng.below(60)));
                    match gate.arrive(number(&mut rng, 300), deadline, at(now), &mut decisions) {
                        Arrival::Admitted => running += 1,
                        Arrival::Queued(ticket) => assert!(waiting.insert(ticket)),
                        Arrival::Shed(_) => {}
                    }
                }
                5..8 if running > 0 => {
                    running -= 1;
                    gate.done(Duration::from_millis(rng.below(9)), at(now), &mut decisions);
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
                let (Decision::Admit(ticket) | Decision::Shed(ticket, _)) = decision;
                assert!(waiting.remove(&ticket), "seed {seed}: decided twice");
                running += usize::from(matches!(decision, Decision::Admit(_)));
            }
            assert_eq!((gate.running(), gate.waiting()), (running, waiting.len()), "seed {seed}");
            assert!(running <= 2, "seed {seed}");
            assert!(running == 2 || waiting.is_empty(), "seed {seed}: the gate idles");
        }
    }
}

/// A server of eight places, each of which takes 1 ms for a request: 8,000 a second.
struct Load {
    gate: Gate,
    rng: SeededRng,
    /// In microseconds: when each request that runs ends, and when it arrived.
    running: BTreeSet<(u64, u64, u64)>,
    arrived: BTreeMap<Ticket, u64>,
    id: u64,
    /// An answer is good within this time, in microseconds.
    good_micros: u64,
    /// Good answers, by second of their arrival.
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
            arrived: BTreeMap::new(),
            id: 0,
            good: vec![0; 10],
            shed: 0,
            late: 0,
        }
    }

    fn admit(&mut self, now: u64, arrived: u64) {
        self.id += 1;
        self.running.insert((now + 500 + self.rng.below(1_001), arrived, self.id));
    }

    fn decide(&mut self, now: u64, decisions: Vec<Decision>) {
        for decision in decisions {
            match decision {
                Decision::Admit(ticket) => {
                    let arrived = self.arrived.remove(&ticket).unwrap();
                    self.admit(now, arrived);
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
        match self.gate.arrive(100, Some(deadline), moment, &mut decisions) {
            Arrival::Admitted => self.admit(now, now),
            Arrival::Queued(ticket) => drop(self.arrived.insert(ticket, now)),
            Arrival::Shed(_) => self.shed += 1,
        }
        self.decide(now, decisions);
    }

    /// Ends what ends before a moment; returns when something ends next.
    fn end_until(&mut self, until: u64, mut again: impl FnMut(&mut Self, u64)) {
        while let Some(&(ends, arrived, id)) = self.running.first().filter(|run| run.0 <= until) {
            self.running.remove(&(ends, arrived, id));
            let mut decisions = Vec::new();
            let moment = Moment(Duration::from_micros(ends));
            self.gate.done(Duration::from_millis(1), moment, &mut decisions);
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

/// Open loop: twice, five and ten times as much as can be done, for six seconds, and then less.
#[test]
fn goodput_stays_at_its_peak_under_overload() {
    for factor in [2, 5, 10] {
        // What waits for 50 ms is refused, and a request takes at most 1.5. With a queue that is only
        // bounded by its number they would wait for 60 at twice the load.
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

/// Closed loop: each of 400 clients waits for its answer, on a server that is slow.
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
