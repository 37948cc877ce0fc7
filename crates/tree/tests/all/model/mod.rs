//! Transactors, clients and faults from one seed, checked against a map.
//!
//! Each writing transaction also appends its number to a list, `order`, and each transaction reads
//! that list. So each answer shows its position in the order of all transactions, and is checked
//! against a map with the earlier transactions applied: this is serializability. The times of call
//! and return add strictness.
//!
//! `CARNET_SEED=n cargo test -p carnet-tree --test all model::` replays one seed.

mod history;
mod mutants;

use std::env;
use std::time::Duration;

use carnet_tree::memory::Faults;
use carnet_tree::{Options, Shape};
use history::{Outcome, Plan, run};

const MILLISECOND: Duration = Duration::from_millis(1);

pub(crate) fn seeds(count: u64) -> impl Iterator<Item = u64> {
    let only = env::var("CARNET_SEED").ok().map(|seed| seed.parse().unwrap());
    let range = only.map_or(0..count, |seed: u64| seed..seed + 1);
    range.inspect(|seed| {
        // The test runner shows this for failed tests.
        println!("seed {seed}: set CARNET_SEED={seed} to replay it alone");
    })
}

/// A slow network that loses and delays requests and answers.
pub(crate) fn faulty() -> Faults {
    Faults {
        latency_max: 4 * MILLISECOND,
        lateness_max: 40 * MILLISECOND,
        lost_requests: 15,
        lost_answers: 15,
        delayed_requests: 15,
        timeout: 20 * MILLISECOND,
    }
}

/// Draws options from a seed, to test their combinations.
pub(crate) fn options(seed: u64) -> Options {
    let pick = |shift: u32, of: u64| (seed >> shift) % of;
    Options {
        cache_root: pick(0, 3) > 0,
        cache_bytes: [1 << 20, 0, 4000][usize::try_from(pick(1, 3)).unwrap()],
        batch_transactions_max: [1024, 1, 3][usize::try_from(pick(2, 3)).unwrap()],
        batch_interval: MILLISECOND * u32::try_from(pick(0, 2) * 5).unwrap(),
        reads_in_flight: [64, 1][usize::try_from(pick(3, 2)).unwrap()],
        writes_in_flight: [64, 1][usize::try_from(pick(4, 2)).unwrap()],
        answer_timeout: [None, Some(3 * MILLISECOND)][usize::try_from(pick(5, 2)).unwrap()],
        shape: match pick(0, 4) {
            0 => Shape::flat(),
            1 => Shape { leaf_bytes_max: 60, inline_bytes_max: 20, ..Shape::bare() },
            2 => Shape { buffer_bytes: 200, run_bytes_max: 200, ..Shape::default() },
            _ => Shape::default(),
        },
        ..Options::default()
    }
}

#[test]
fn without_faults_every_transaction_is_answered() {
    for seed in seeds(60) {
        let faults = Faults { latency_max: 2 * MILLISECOND, ..Faults::default() };
        let report = run(&Plan { options: options(seed), faults, ..Plan::new(seed) });
        assert_eq!(report.violation, None, "seed {seed}");
        assert!(report.outcomes.iter().all(|outcome| *outcome == Outcome::Ok), "seed {seed}");
    }
}

#[test]
fn late_nodes_and_lost_answers_are_tolerated() {
    let (mut in_doubt, mut unknown) = (0, 0);
    for seed in seeds(150) {
        let report = run(&Plan { options: options(seed), faults: faulty(), ..Plan::new(seed) });
        assert_eq!(report.violation, None, "seed {seed}");
        in_doubt += report.in_doubt;
        unknown += report.outcomes.iter().filter(|outcome| **outcome != Outcome::Ok).count();
    }
    // The faults are shorter than the retry_timeout: each doubt is resolved.
    assert!(env::var("CARNET_SEED").is_ok() || in_doubt > 100, "only {in_doubt} were in doubt");
    assert_eq!(unknown, 0);
}

#[test]
fn short_retry_timeout_leaves_doubtful_moves_unknown() {
    let mut unknown = 0;
    for seed in seeds(60) {
        let options = Options { retry_timeout: 30 * MILLISECOND, ..options(seed) };
        let faults = Faults { lost_answers: 100, delayed_requests: 100, ..faulty() };
        let report = run(&Plan { options, faults, ..Plan::new(seed) });
        assert_eq!(report.violation, None, "seed {seed}");
        unknown += report.outcomes.iter().filter(|outcome| **outcome == Outcome::Unknown).count();
    }
    assert!(env::var("CARNET_SEED").is_ok() || unknown > 20, "only {unknown} were unknown");
}

#[test]
fn seed_replays_a_run() {
    let plan = |seed| Plan { options: options(seed), faults: faulty(), ..Plan::new(seed) };
    let (one, two) = (run(&plan(7)), run(&plan(7)));
    assert_eq!((one.calls, one.took, one.outcomes), (two.calls, two.took, two.outcomes));
    assert_ne!(one.took, run(&plan(8)).took);
}

#[test]
fn serializable_reads_may_be_stale_and_nothing_else() {
    for seed in seeds(60) {
        let options = Options { verify_reads: false, ..options(seed) };
        let plan = Plan { options, faults: faulty(), is_strict: false, ..Plan::new(seed) };
        let report = run(&plan);
        assert_eq!(report.violation, None, "seed {seed}");
    }
}
