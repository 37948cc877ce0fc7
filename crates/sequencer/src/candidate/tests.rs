//! The election, step by step.

use super::*;
use crate::lease::Address;

fn owner(nonce: u64) -> Owner {
    Owner { nonce, address: Address::new(format!("node-{nonce}")).unwrap() }
}

fn candidate(nonce: u64) -> Candidate {
    Candidate::new(owner(nonce), LeaseOptions { bound_step: 100, ..LeaseOptions::default() })
}

fn at(number: u64) -> Timestamp {
    Timestamp::new(number).unwrap()
}

fn ms(millis: u64) -> Moment {
    Moment(Duration::from_millis(millis))
}

fn standing(headroom: u64) -> Input {
    let standing = Standing { fence_from: at(40), latest: at(50), wall: WallTime(7), headroom };
    Input::Next(Some(standing))
}

fn set_of(action: Action) -> (Option<Lease>, Lease) {
    match action {
        Action::Set { expected, new } => (expected, new),
        other => panic!("a lease is to be set, not {other:?}"),
    }
}

/// Runs an election to its end, on a database whose lease is `stored`.
fn elected(nonce: u64, stored: Option<Lease>) -> (Candidate, Lease) {
    let mut candidate = candidate(nonce);
    assert_eq!(candidate.step(Input::Next(None), ms(0)), Action::Read);
    let mut action = candidate.step(Input::Lease(stored.clone()), ms(0));
    if stored.as_ref().is_some_and(|lease| !lease.released) {
        assert!(matches!(action, Action::Wait(_)));
        assert_eq!(candidate.step(Input::Next(None), ms(1000)), Action::Read);
        action = candidate.step(Input::Lease(stored), ms(1000));
    }
    let (_, taken) = set_of(action);
    let fence = candidate.step(Input::Set, ms(1000));
    let expected = Action::Fence { epoch: taken.epoch, from: taken.fence_from, to: taken.bound };
    assert_eq!(fence, expected);
    let (_, recorded) = set_of(candidate.step(Input::Fenced, ms(1000)));
    assert!(matches!(candidate.step(Input::Set, ms(1000)), Action::Serve(_)));
    (candidate, recorded)
}

#[test]
fn first_leader_starts_at_the_first_timestamp() {
    let (_, lease) = elected(1, None);
    assert_eq!((lease.epoch, lease.bound, lease.fence_from), (Epoch(1), at(101), at(1)));
}

#[test]
fn next_leader_starts_at_the_stored_bound() {
    let (_, first) = elected(1, None);
    let (_, second) = elected(2, Some(first.clone()));
    assert_eq!((second.epoch, second.fence_from), (Epoch(2), first.bound));
    assert_eq!(second.bound, at(201));
}

#[test]
fn renewed_lease_is_not_taken() {
    let (_, mut lease) = elected(1, None);
    let mut other = candidate(2);
    for tick in 0..20 {
        lease.renewal += 1;
        other.step(Input::Next(None), ms(tick * 900));
        let action = other.step(Input::Lease(Some(lease.clone())), ms(tick * 900));
        assert!(matches!(action, Action::Wait(_)), "tick {tick}");
    }
    assert_eq!(other.others(), Some(&lease));
}

#[test]
fn released_lease_is_taken_at_once() {
    let (mut leader, _) = elected(1, None);
    let (_, released) = set_of(leader.step(Input::Release, ms(1000)));
    assert_eq!(leader.step(Input::Set, ms(1000)), Action::Stop);
    let (_, next) = elected(2, Some(released));
    assert_eq!(next.epoch, Epoch(2));
}

#[test]
fn loser_of_the_race_keeps_watching() {
    let mut loser = candidate(2);
    loser.step(Input::Next(None), ms(0));
    set_of(loser.step(Input::Lease(None), ms(0)));
    let (_, winner) = elected(1, None);
    let action = loser.step(Input::NotSet(Some(winner.clone())), ms(0));
    assert!(matches!(action, Action::Wait(_)));
    assert_eq!(loser.others(), Some(&winner));
}

#[test]
fn a_lost_answer_is_settled_by_a_serial_read() {
    for was_set in [true, false] {
        let mut candidate = candidate(1);
        candidate.step(Input::Next(None), ms(0));
        let (_, new) = set_of(candidate.step(Input::Lease(None), ms(0)));
        assert!(matches!(candidate.step(Input::Unsure, ms(0)), Action::Wait(_)));
        assert_eq!(candidate.step(Input::Next(None), ms(20)), Action::Read);
        if was_set {
            let action = candidate.step(Input::Lease(Some(new)), ms(0));
            assert!(matches!(action, Action::Fence { .. }));
        } else {
            let (_, again) = set_of(candidate.step(Input::Lease(None), ms(0)));
            assert_eq!(again, new, "the same once more");
        }
    }
}

/// If a leader dies with rows unfenced, the next one fences them.
#[test]
fn next_leader_fences_rows_of_a_dead_one() {
    let (_, first) = elected(1, None);
    let mut dies = candidate(2);
    dies.step(Input::Next(None), ms(0));
    dies.step(Input::Lease(Some(first.clone())), ms(0));
    let (_, taken) = set_of(dies.step(Input::Lease(Some(first.clone())), ms(1000)));
    assert!(matches!(dies.step(Input::Set, ms(1000)), Action::Fence { .. }));
    assert_eq!(taken.fence_from, first.fence_from, "nothing is fenced yet");
    let mut third = candidate(3);
    third.step(Input::Next(None), ms(0));
    third.step(Input::Lease(Some(taken.clone())), ms(0));
    set_of(third.step(Input::Lease(Some(taken)), ms(1000)));
    let action = third.step(Input::Set, ms(1000));
    assert_eq!(action, Action::Fence { epoch: Epoch(3), from: at(1), to: at(301) });
}

#[test]
fn renewal_raises_the_bound_after_fencing() {
    let (mut leader, lease) = elected(1, None);
    assert!(matches!(leader.step(standing(80), ms(1100)), Action::Wait(_)), "not due");
    let (_, renewed) = set_of(leader.step(standing(80), ms(1250)));
    assert_eq!((renewed.renewal, renewed.bound), (lease.renewal + 1, lease.bound));
    assert_eq!((renewed.fence_from, renewed.wall), (at(40), (at(50), WallTime(7))));
    assert!(matches!(leader.step(Input::Set, ms(1250)), Action::Wait(_)));
    let (_, raised) = set_of(leader.step(standing(49), ms(1260)));
    assert_eq!(raised.bound, at(201));
    let fence = leader.step(Input::Set, ms(1260));
    assert_eq!(fence, Action::Fence { epoch: Epoch(1), from: at(101), to: at(201) });
    assert_eq!(leader.step(Input::Fenced, ms(1260)), Action::Extend(at(201)));
}

#[test]
fn a_leader_steps_down_when_it_finds_another() {
    let (mut leader, lease) = elected(1, None);
    set_of(leader.step(standing(80), ms(1250)));
    let others = Lease { epoch: Epoch(2), owner: owner(2), ..lease };
    assert_eq!(leader.step(Input::NotSet(Some(others.clone())), ms(1250)), Action::StepDown);
    let (mut leader, _) = elected(1, None);
    assert_eq!(leader.step(Input::Superseded, ms(1250)), Action::StepDown);
    let (mut leader, _) = elected(1, None);
    set_of(leader.step(standing(80), ms(1250)));
    assert!(matches!(leader.step(Input::Unsure, ms(1250)), Action::Wait(_)));
    assert_eq!(leader.step(standing(80), ms(1270)), Action::Read);
    assert_eq!(leader.step(Input::Lease(Some(others)), ms(1250)), Action::StepDown);
}

/// Every compare-and-set compares the whole lease, so a renewal or a candidate that read an old
/// lease sets nothing.
#[test]
fn a_candidate_expects_the_whole_lease_that_it_saw() {
    let (_, first) = elected(1, None);
    let mut other = candidate(2);
    other.step(Input::Next(None), ms(0));
    other.step(Input::Lease(Some(first.clone())), ms(0));
    let (expected, _) = set_of(other.step(Input::Lease(Some(first.clone())), ms(1000)));
    assert_eq!(expected, Some(first));
}

/// If the outcome of a renewal is unknown when its process leaves, the lease that is stored is
/// released.
#[test]
fn release_after_unknown_renewal_matches_the_stored_lease() {
    for is_renewed in [true, false] {
        let (mut leader, stored) = elected(1, None);
        let (_, renewed) = set_of(leader.step(standing(100), ms(2000)));
        assert!(matches!(leader.step(Input::Unsure, ms(2000)), Action::Wait(_)));
        let now = if is_renewed { renewed } else { stored };
        let (expected, mut released) = set_of(leader.step(Input::Release, ms(2000)));
        if expected.as_ref() != Some(&now) {
            let again = leader.step(Input::NotSet(Some(now.clone())), ms(2000));
            let (expected, second) = set_of(again);
            assert_eq!(expected.as_ref(), Some(&now));
            released = second;
        }
        assert!(released.released);
        assert_eq!(leader.step(Input::Set, ms(2000)), Action::Stop);
    }
}

#[test]
fn stopped_candidate_does_not_lead_again() {
    let (mut leader, lease) = elected(1, None);
    leader.step(Input::Release, ms(1000));
    let (_, others) = elected(2, Some(lease));
    assert_eq!(leader.step(Input::NotSet(Some(others)), ms(3000)), Action::Stop);
    assert_eq!(leader.step(Input::Next(None), ms(9000)), Action::Stop);
}
