//! Tests of decisions at the limits of their conditions.

use super::tests::{LEVEL, LIMITS, admitted, arrive, at, busy, done, end, pass, request, ticket};
use super::*;

/// Deadlines in milliseconds.
fn from(tenant: u64, deadline: Option<u64>) -> Arriving {
    Arriving { tenant: Tenant(tenant), ..request(1, deadline.map(at)) }
}

#[test]
fn tenants_compete_where_requests_wait_before_the_gate() {
    for (micros, yields) in [(1_999, false), (2_000, true)] {
        let mut gate = Gate::new(LIMITS);
        let age = Duration::from_micros(micros);
        pass(gate.arrive(from(1, None), at(10), &mut Vec::new()));
        let second = Arriving { age, ..from(2, None) };
        assert_eq!(pass(gate.arrive(second, at(10), &mut Vec::new())).yields, yields);
    }
}

/// Makes a gate that was overloaded at the beginning, with three waiting requests of that time.
fn overloaded() -> Gate {
    let mut gate = busy();
    for _ in 0..4 {
        ticket(arrive(&mut gate, 0).0);
    }
    assert!(matches!(arrive(&mut gate, 0).0, Arrival::Shed(_)), "the queue is full");
    assert_eq!(admitted(&done(&mut gate, 1)).len(), 1);
    gate
}

#[test]
fn arrivals_are_refused_while_the_queue_is_half_as_old_as_allowed() {
    ticket(arrive(&mut overloaded(), 24).0);
    let (arrival, decisions) = arrive(&mut overloaded(), 25);
    assert!(matches!(arrival, Arrival::Shed(_)), "{arrival:?}");
    assert_eq!(decisions, [], "those that wait are younger than the limit");
}

#[test]
fn levels_remember_their_overload_while_others_come() {
    let mut gate = overloaded();
    while gate.running() > 0 {
        done(&mut gate, 2);
    }
    let other = Arriving { level: LevelId(9), ..request(1, None) };
    pass(gate.arrive(other, at(3), &mut Vec::new()));
    let late = Arriving { age: LIMITS.shed_after, ..request(1, None) };
    let arrival = gate.arrive(late, at(4), &mut Vec::new());
    assert!(matches!(arrival, Arrival::Shed(_)), "{arrival:?}");
}

#[test]
fn levels_with_requests_are_never_forgotten() {
    let mut gate = Gate::new(GateLimits { running_max: 1_000, ..LIMITS });
    let of = |id| Arriving { level: LevelId(id), ..request(1, None) };
    let mut passes = Vec::new();
    for id in 0..100 {
        passes.push(pass(gate.arrive(of(id), at(id), &mut Vec::new())));
    }
    for pass in passes {
        gate.done(pass, Duration::ZERO, at(100), &mut Vec::new());
    }
    assert_eq!(gate.running(), 0);
    // Waiting ones count, although none of their level runs.
    let mut gate = Gate::new(GateLimits { running_max: 1, ..LIMITS });
    let first = pass(gate.arrive(of(1_000), at(0), &mut Vec::new()));
    let waiting: Vec<_> =
        (0..100).map(|id| ticket(gate.arrive(of(id), at(0), &mut Vec::new()))).collect();
    assert!(waiting.into_iter().all(|ticket| gate.cancel(ticket)));
    gate.done(first, Duration::ZERO, at(1), &mut Vec::new());
}

#[test]
fn passes_carry_the_shares_of_their_level() {
    let mut gate = Gate::new(LIMITS);
    let limits = LevelLimits { shares: 250, ..LevelLimits::default() };
    let arrival = gate.arrive(Arriving { limits, ..request(1, None) }, at(0), &mut Vec::new());
    assert_eq!(pass(arrival).shares, 250);
}

#[test]
fn deadlines_end_at_their_moment() {
    for workload in [Workload::Unspecified, Workload::Interactive] {
        let mut gate = busy();
        let waiting = Arriving { workload, ..request(1, Some(at(10))) };
        let waiting = ticket(gate.arrive(waiting, at(0), &mut Vec::new()));
        let mut decisions = Vec::new();
        gate.tick(at(9), &mut decisions);
        assert_eq!(decisions, []);
        gate.tick(at(10), &mut decisions);
        assert!(matches!(decisions[..], [Decision::Shed(late, _)] if late == waiting));
    }
}

/// The request of the second tenant is not the oldest one, so that only its turn finds it late.
#[test]
fn deadlines_count_when_a_tenant_has_its_turn() {
    let mut gate = busy();
    let mut decisions = Vec::new();
    let mut wait = |request| ticket(gate.arrive(request, at(0), &mut Vec::new()));
    let (first, second) = (wait(from(1, None)), wait(from(1, None)));
    let late = wait(from(2, Some(10)));
    end(&mut gate, 1, 9, &mut decisions);
    assert_eq!(admitted(&decisions), [first]);
    decisions.clear();
    end(&mut gate, 1, 10, &mut decisions);
    let [Decision::Shed(refused, shed), Decision::Admit(next, _)] = decisions[..] else {
        panic!("{decisions:?}")
    };
    assert_eq!((refused, shed.reason, next), (late, Reason::Deadline, second));
}

/// Half of the memory is common, and each level has its own part of the other half.
#[test]
fn levels_have_memory_of_their_own() {
    let of = |id, shares, bytes| {
        let limits = LevelLimits { shares, ..LevelLimits::default() };
        Arriving { level: LevelId(id), limits, ..request(bytes, None) }
    };
    let fits = |first: usize, second: usize| {
        let mut gate = Gate::new(GateLimits { running_max: 2, ..LIMITS });
        pass(gate.arrive(of(1, 100, 1), at(0), &mut Vec::new()));
        pass(gate.arrive(of(2, 300, 1), at(0), &mut Vec::new()));
        let mut waits =
            |request| matches!(gate.arrive(request, at(0), &mut Vec::new()), Arrival::Queued(_));
        (waits(of(1, 100, first)), waits(of(2, 300, second)))
    };
    assert_eq!(fits(625, 375), (true, true));
    assert_eq!(fits(626, 375), (false, true));
    assert_eq!(fits(625, 376), (true, false));
    assert_eq!(fits(125, 875), (true, true));
    assert_eq!(fits(126, 875), (true, false));
}

#[test]
fn batch_requests_get_half_of_the_slots() {
    let mut gate = Gate::new(GateLimits { running_max: 8, ..LIMITS });
    let batch = Arriving { workload: Workload::Batch, ..request(1, None) };
    for _ in 0..4 {
        pass(gate.arrive(batch, at(0), &mut Vec::new()));
    }
    ticket(gate.arrive(batch, at(0), &mut Vec::new()));
    pass(arrive(&mut gate, 0).0);
}

/// A level that waits is charged for the time that it uses, and so is one whose shares change.
#[test]
fn shares_of_waiting_levels_change_at_once() {
    let mut gate = Gate::new(GateLimits { running_max: 1, queue_max: 1_000, ..LIMITS });
    let of = |id, shares| {
        let limits = LevelLimits { shares, ..LevelLimits::default() };
        let workload = Workload::Unspecified;
        Arriving { level: LevelId(id), limits, workload, ..request(0, None) }
    };
    let mut running = pass(gate.arrive(of(1, 100), at(0), &mut Vec::new()));
    for _ in 0..200 {
        ticket(gate.arrive(of(1, 100), at(0), &mut Vec::new()));
        ticket(gate.arrive(of(2, 100), at(0), &mut Vec::new()));
    }
    let mut served = |gate: &mut Gate, count: u64| {
        let mut of_first = 0;
        for _ in 0..count {
            let mut decisions = Vec::new();
            gate.done(running, Duration::from_millis(1), at(0), &mut decisions);
            let [Decision::Admit(_, pass)] = decisions[..] else { panic!("{decisions:?}") };
            of_first += u64::from(pass.queue.level == LevelId(1));
            running = pass;
        }
        of_first
    };
    assert!((45..=55).contains(&served(&mut gate, 100)));
    ticket(gate.arrive(of(1, 900), at(0), &mut Vec::new()));
    assert!((85..=95).contains(&served(&mut gate, 100)), "nine of ten");
}

#[test]
fn busy_levels_keep_more_of_the_time_that_others_used() {
    let behind = |is_busy: bool| {
        let mut gate = Gate::new(GateLimits { running_max: 8, ..LIMITS });
        let of = |id| Arriving { level: LevelId(id), ..request(1, None) };
        let first = pass(gate.arrive(of(1), at(0), &mut Vec::new()));
        if !is_busy {
            gate.done(first, Duration::ZERO, at(0), &mut Vec::new());
        }
        for millis in 0..20_000 {
            let other = pass(gate.arrive(of(2), at(millis), &mut Vec::new()));
            gate.done(other, Duration::from_millis(1), at(millis), &mut Vec::new());
        }
        gate.arrive(of(1), at(20_000), &mut Vec::new());
        gate.accounts.used(LevelId(2)) - gate.accounts.used(LevelId(1))
    };
    assert!(behind(true) > behind(false));
}

/// Batch requests of two levels wait for the slots that the first one holds, while small requests of a third level use
/// the others and move the virtual time on.
#[test]
fn waiting_levels_keep_what_they_did_not_use() {
    let mut gate = Gate::new(GateLimits { running_max: 8, queue_max: 10_000, ..LIMITS });
    let of = |id, workload, shares| {
        let limits = LevelLimits { shares, ..LevelLimits::default() };
        Arriving { level: LevelId(id), limits, workload, ..request(0, None) }
    };
    let mut running = std::collections::VecDeque::new();
    let mut admitted = [0; 3];
    for millis in 0..200 {
        let mut decisions = Vec::new();
        let small = of(0, Workload::Interactive, 100);
        let small = pass(gate.arrive(small, at(millis), &mut decisions));
        gate.done(small, Duration::from_millis(10), at(millis), &mut decisions);
        for id in [1, 2] {
            if millis == 0 && id == 2 {
                continue;
            }
            let batch = gate.arrive(of(id, Workload::Batch, 1_000), at(millis), &mut decisions);
            if let Arrival::Admitted(pass) = batch {
                running.push_back(pass);
            }
        }
        if millis >= 10 {
            let first = running.pop_front().unwrap();
            gate.done(first, Duration::from_millis(10), at(millis), &mut decisions);
        }
        for decision in decisions {
            let Decision::Admit(ticket, pass) = decision else { panic!("{decision:?}") };
            admitted[usize::try_from(ticket.queue.level.0).unwrap()] += 1;
            running.push_back(pass);
        }
    }
    assert!(admitted[2] >= 50, "{admitted:?}");
}

#[test]
fn numbers_of_a_level_are_zero_before_it_is_known() {
    let mut gate = Gate::new(LIMITS);
    assert_eq!(gate.of_level(LEVEL.level), (0, 0));
    gate.tick(at(0), &mut Vec::new());
    pass(arrive(&mut gate, 0).0);
    assert_eq!(gate.of_level(LEVEL.level), (1, 0));
}
