//! Turns of tenants, and slots of long requests.

use super::*;

/// A client with one request at a time beside one with many in flight.
#[test]
fn tenants_are_served_in_turns() {
    let mut gate = busy();
    let arrive = |gate: &mut Gate, tenant, millis| {
        let workload = Workload::Unspecified;
        let arriving = Arriving { tenant: Tenant(tenant), workload, ..request(1, None) };
        match gate.arrive(arriving, at(millis), &mut Vec::new()) {
            Arrival::Queued(ticket) | Arrival::Throttled(ticket) => ticket,
            other => panic!("{other:?}"),
        }
    };
    let greedy: Vec<_> = (0..4).map(|_| arrive(&mut gate, 7, 0)).collect();
    let modest = [arrive(&mut gate, 3, 1), arrive(&mut gate, 9, 2)];
    let served: Vec<_> = (0..4).flat_map(|_| admitted(&done(&mut gate, 3))).collect();
    assert_eq!(served, [modest[0], greedy[0], modest[1], greedy[1]]);
    // The oldest request of a tenant was cancelled.
    assert!(gate.cancel(greedy[2]));
    let next = arrive(&mut gate, 3, 4);
    assert_eq!(admitted(&done(&mut gate, 5)), [next]);
    assert_eq!(admitted(&done(&mut gate, 5)), [greedy[3]]);
}

/// The request that is chosen is not the oldest one, whose deadline is checked first.
#[test]
fn chosen_request_is_not_run_after_its_deadline() {
    let mut gate = busy();
    let mut decisions = Vec::new();
    let first = ticket(gate.arrive(
        Arriving { tenant: Tenant(2), ..request(1, None) },
        at(0),
        &mut decisions,
    ));
    let late = Arriving { tenant: Tenant(1), ..request(1, Some(at(5))) };
    let late = ticket(gate.arrive(late, at(1), &mut decisions));
    let decisions = done(&mut gate, 9);
    let is_late = |decision: &&Decision| matches!(decision, Decision::Shed(ticket, Shed { reason: Reason::Deadline, .. }) if *ticket == late);
    assert_eq!(decisions.iter().filter(is_late).count(), 1);
    assert!(
        decisions
            .iter()
            .any(|decision| matches!(decision, Decision::Admit(ticket, _) if *ticket == first))
    );
}

#[test]
fn tenants_compete_on_a_busy_machine_only() {
    let mut gate = Gate::new(GateLimits { running_max: 16, ..LIMITS });
    let mut arrive = |tenant, age, millis| {
        let age = Duration::from_millis(age);
        let arriving = Arriving { tenant: Tenant(tenant), age, ..request(1, None) };
        pass(gate.arrive(arriving, at(millis), &mut Vec::new())).yields
    };
    assert!(!arrive(1, 9, 10), "one tenant alone");
    assert!(!arrive(2, 0, 11), "the machine has time");
    assert!(arrive(1, 9, 12));
    assert!(arrive(1, 9, 13), "the other one is expected again");
    assert!(!arrive(1, 9, 40), "it has gone");
}

#[test]
fn long_requests_free_their_slots() {
    let mut gate = Gate::new(LIMITS);
    let mut decisions = Vec::new();
    let mut long = Vec::new();
    for _ in 0..LIMITS.running_max {
        let pass = pass(arrive(&mut gate, 0).0);
        assert!(gate.begin_long(pass));
        gate.pause(pass, at(0), &mut decisions);
        long.push(pass);
    }
    assert!(!gate.is_full());
    let short = [pass(arrive(&mut gate, 1).0), pass(arrive(&mut gate, 1).0)];
    assert!(!gate.begin_long(short[0]), "as many as may are long");
    ticket(arrive(&mut gate, 1).0);
    gate.resume(long[0]);
    gate.end_long();
    assert!(gate.begin_long(short[0]));
    let batch = Pass { queue: QueueId { workload: Workload::Batch, ..LEVEL }, ..short[1] };
    assert!(!gate.begin_long(batch), "it has a slot that no others take");
}

#[test]
fn level_with_a_limit_keeps_the_slots_of_its_long_requests() {
    let mut gate = Gate::new(LIMITS);
    let limits = LevelLimits { running_max: Some(1), ..LevelLimits::default() };
    let limited = Arriving { level: LevelId(3), limits, ..request(1, None) };
    let pass = pass(gate.arrive(limited, at(0), &mut Vec::new()));
    assert!(!gate.begin_long(pass));
}
