//! Tests of the checker: it must detect deliberate errors.

use carnet_tree::Options;
use carnet_tree::memory::Faults;

use super::history::{Plan, run};
use super::{MILLISECOND, options, seeds};

fn violations(plan: impl Fn(u64) -> Plan) -> Vec<String> {
    seeds(40).filter_map(|seed| run(&plan(seed)).violation).collect()
}

#[test]
fn missing_nodes_treated_as_empty_lose_updates() {
    let violations = violations(|seed| Plan {
        options: Options { ignore_missing: true, ..options(seed) },
        faults: Faults { lateness_max: 40 * MILLISECOND, ..Faults::default() },
        ..Plan::new(seed)
    });
    let lost = violations.iter().filter(|violation| violation.contains("is lost")).count();
    assert!(lost > 5, "{lost} lost updates in {violations:?}");
}

#[test]
fn unverified_reads_are_stale() {
    let violations = violations(|seed| Plan {
        options: Options { verify_reads: false, cache_root: true, ..options(seed) },
        faults: Faults { latency_max: 2 * MILLISECOND, ..Faults::default() },
        pause: 30 * MILLISECOND,
        ..Plan::new(seed)
    });
    let stale = violations.iter().filter(|violation| violation.contains("is stale")).count();
    assert!(stale > 5, "{stale} stale reads in {violations:?}");
    assert_eq!(stale, violations.len());
}
