//! Tests of the simulator: seeds replay, and deliberate bugs are found.
//!
//! Many seeds run in release mode, by the command: see CONTRIBUTING.md.

use carnet_sim::{Mutant, Order, Scenario, Workload};

#[test]
fn a_seed_replays_to_the_last_event() {
    for (scenario, seeds) in [(Scenario::Embedded, 4), (Scenario::Cluster, 1)] {
        for seed in 0..seeds {
            let first = Order::new(scenario, seed).run();
            // Another seed in between, to expose state that is left over.
            let other = Order::new(scenario, seed + 100).run();
            let second = Order::new(scenario, seed).run();
            assert_eq!((first.trace, first.events), (second.trace, second.events), "seed {seed}");
            assert_ne!(first.trace, other.trace);
        }
    }
}

#[test]
fn seeds_run_many_transactions_without_violations() {
    for (scenario, seeds) in [(Scenario::Embedded, 8), (Scenario::Cluster, 1)] {
        for seed in 1_000..1_000 + seeds {
            let run = Order::new(scenario, seed).run();
            assert_eq!(run.verdict, Ok(()), "{} {seed}", scenario.name());
            assert!(run.transactions >= 1_000 && run.faults >= 5, "seed {seed}: {run:?}");
            assert!(run.committed * 3 > run.transactions, "seed {seed}: {run:?}");
        }
    }
}

/// Goodput, shares and returned permits, under ten times the capacity.
#[test]
fn overload_keeps_its_limits_and_replays() {
    let run = Order::new(Scenario::Overload, 0).run();
    assert_eq!(run.verdict, Ok(()), "{}", run.setup);
    assert!(run.transactions > 10_000 && run.faults > 50, "{run:?}");
    let again = Order::new(Scenario::Overload, 0).run();
    assert_eq!((run.trace, run.events), (again.trace, again.events));
}

#[test]
fn both_interfaces_see_expiry_and_restored_copies() {
    // Of each interface: rows that expired, and copies that were restored.
    let mut counts = [(0, 0); 2];
    for seed in 20..36 {
        let run = Order::new(Scenario::Embedded, seed).run();
        let count = &mut counts[usize::from(run.setup.contains("facade: true"))];
        *count = (count.0 + run.expired, count.1 + run.copies);
        if counts.iter().all(|(expired, copies)| *expired > 0 && *copies > 0) {
            return;
        }
    }
    panic!("expired rows and copies of both interfaces: {counts:?}");
}

#[test]
fn each_workload_runs_alone() {
    for workload in Workload::ALL {
        let order = Order { workload: Some(workload), ..Order::new(Scenario::Embedded, 7) };
        assert_eq!(order.run().verdict, Ok(()), "{}", workload.name());
    }
}

/// Three processes change rows, create and build indexes and views, and are killed; the builder of a
/// killed process leaves its work to others.
#[test]
fn indexes_agree_with_their_table_over_a_cluster() {
    let order =
        |seed| Order { workload: Some(Workload::Derived), ..Order::new(Scenario::Cluster, seed) };
    let runs = [7, 8, 7].map(|seed| order(seed).run());
    for run in &runs {
        assert_eq!(run.verdict, Ok(()), "{}", run.setup);
        assert!(run.transactions >= 1_000 && run.faults >= 5, "{run:?}");
    }
    let [first, _, again] = runs;
    assert_eq!((first.trace, first.events), (again.trace, again.events));
}

#[test]
fn broken_maintenance_is_found_over_a_cluster() {
    for mutant in [Mutant::BuildNotGuarded, Mutant::DerivedCellNotDeleted] {
        let found = (0..20).any(|seed| {
            let order = Order::new(Scenario::Cluster, seed);
            let order = Order { workload: mutant.workload(), mutant: Some(mutant), ..order };
            order.run().verdict.is_err()
        });
        assert!(found, "{}", mutant.name());
    }
}

#[test]
fn broken_rule_is_found_by_its_workload() {
    for (mutant, workload) in [
        (Mutant::ReadPointsIgnored, Workload::Lists),
        (Mutant::ReadPointsIgnored, Workload::Doctors),
        (Mutant::ReadRangesIgnored, Workload::Rows),
        (Mutant::ReadRangesIgnored, Workload::Seats),
        (Mutant::OverwritesUnchecked, Workload::Bank),
        (Mutant::UndecidedVersionsRead, Workload::Bank),
    ] {
        let found = (0..20).any(|seed| {
            let order = Order::new(Scenario::Embedded, seed);
            let order = Order { workload: Some(workload), mutant: Some(mutant), ..order };
            order.run().verdict.is_err()
        });
        assert!(found, "{} beside {}", mutant.name(), workload.name());
    }
}
