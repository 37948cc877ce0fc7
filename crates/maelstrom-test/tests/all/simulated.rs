//! Nodes on virtual time, by seeds: the guarantees hold under faults, and deliberate bugs are
//! detected.
//!
//! `CARNET_SEED=n cargo test -p carnet-maelstrom-test --test all simulated::` replays one seed.

use std::env;
use std::time::Duration;

use carnet_checker::Model;
use carnet_maelstrom::{Options, Shape};
use carnet_maelstrom_test::{Conditions, Distribution, Faults, Kind, Plan, Report, simulated};

const MILLISECOND: Duration = Duration::from_millis(1);

fn seeds(count: u64) -> impl Iterator<Item = u64> {
    let only = env::var("CARNET_SEED").ok().and_then(|seed| seed.parse().ok());
    let range = only.map_or(0..count, |seed: u64| seed..seed + 1);
    range.inspect(|seed| {
        // The test runner prints this if the test fails.
        println!("seed {seed}: set CARNET_SEED={seed} to replay it alone");
    })
}

fn run(plan: &Plan, options: &Options) -> Report {
    match simulated::run(plan, options) {
        Ok(report) => report,
        Err(error) => panic!("seed {}: {error}", plan.seed),
    }
}

/// Runs a plan whose history must be valid.
fn valid(plan: &Plan, options: &Options) -> Report {
    let report = run(plan, options);
    assert!(report.verdict.is_valid, "seed {}: {}", plan.seed, report.verdict.explanation);
    report
}

fn all_ok(plan: &Plan, options: &Options) -> Report {
    let report = valid(plan, options);
    assert_eq!((report.fail, report.info), (0, 0), "seed {}", plan.seed);
    assert!(report.ok > 0);
    report
}

fn slow(latency: Duration) -> Conditions {
    Conditions { latency, distribution: Distribution::Exponential, loss: 0 }
}

fn short(seed: u64) -> Plan {
    Plan { seed, time_limit: Duration::from_secs(3), ..Plan::default() }
}

#[test]
fn every_workload_is_served() {
    use Kind::{Echo, GSet, LinKv, TxnListAppend, TxnRwRegister};
    for seed in seeds(4) {
        for workload in [TxnListAppend, TxnRwRegister, LinKv, GSet, Echo] {
            for (nodes, latency) in [(1, 0), (2, 10), (5, 3)] {
                let conditions = slow(latency * MILLISECOND);
                let report = valid(
                    &Plan { workload, nodes, conditions, ..short(seed) },
                    &Options::default(),
                );
                assert_eq!(report.info, 0);
                // A compare-and-set may expect the wrong value.
                assert!(report.fail == 0 || workload == LinKv, "{workload:?} {}", report.fail);
            }
        }
    }
}

#[test]
fn a_transaction_takes_less_than_three_messages() {
    for seed in seeds(3) {
        for (preload, options) in [
            (0, Options::default()),
            (10_000, Options::default()),
            // The limit holds without hints as well.
            (0, Options { hint_peers_max: 0, ..batches_every(25 * MILLISECOND) }),
        ] {
            let report = all_ok(&Plan { preload, seed, ..Plan::default() }, &options);
            let messages = report.server_messages_per_op();
            assert!(messages <= 3.0, "seed {seed}: {messages}");
            assert!(report.latency(500) <= 15 * MILLISECOND, "{:?}", report.latency(500));
            assert!(report.root_bytes_max <= 4096, "{}", report.root_bytes_max);
            println!("preload {preload}: {messages:.2}, {} bytes", report.root_bytes_max);
        }
    }
}

/// The node that moved the root is the first to know it; the others must get their turn as well.
#[test]
fn no_node_starves_far_from_the_root() {
    for seed in seeds(3) {
        let conditions = Conditions { latency: 10 * MILLISECOND, ..Plan::default().conditions };
        let two = Plan { conditions, seed, ..Plan::default() };
        let five = Plan { nodes: 5, rate: 1000.0, clients_per_node: 40, ..two.clone() };
        let five = Plan { time_limit: Duration::from_secs(4), ..five };
        for (plan, worst) in [(two, 500), (five, 1500)] {
            let report = all_ok(&plan, &Options::default());
            let (median, late) = (report.latency(500), report.latency(990));
            assert!(late <= worst * MILLISECOND, "seed {seed}: {late:?}");
            println!("{} nodes: p50 {median:?}, p99 {late:?}", plan.nodes);
        }
    }
}

fn batches_every(batch_interval: Duration) -> Options {
    let mut options = Options::default();
    options.tree.batch_interval = batch_interval;
    options
}

#[test]
fn partitions_and_losses_between_nodes_change_no_answer() {
    for seed in seeds(10) {
        let conditions = Conditions { loss: 500, ..slow(MILLISECOND) };
        let partition_every = Some(300 * MILLISECOND);
        let plan = Plan { nodes: 3, conditions, partition_every, ..short(seed) };
        all_ok(&plan, &Options::default());
    }
}

/// Five nodes send hints only if configured to: by default hints cost more than they save, and a
/// partition between nodes would cut nothing.
#[test]
fn partition_of_five_nodes_loses_their_messages() {
    let options = Options { hint_peers_max: 4, ..Options::default() };
    for seed in seeds(5) {
        let partition_every = Some(300 * MILLISECOND);
        let conditions = slow(MILLISECOND);
        let plan = Plan { nodes: 5, conditions, partition_every, ..short(seed) };
        let report = all_ok(&plan, &options);
        let (sent, lost) = (report.messages_between_nodes(), report.lost_messages());
        // Of five nodes two are cut off for half of the time: 6 of 10 pairs.
        assert!(sent > 500 && lost > sent / 10 && lost < sent / 2, "{lost} of {sent} lost");
    }
}

#[test]
fn nodes_cut_off_from_services_serve_again_after() {
    for seed in seeds(10) {
        let (conditions, partition_every) = (slow(MILLISECOND), Some(1000 * MILLISECOND));
        let plan = Plan { nodes: 3, conditions, partition_every, ..short(seed) };
        let plan = Plan { partition_services: true, time_limit: 6000 * MILLISECOND, ..plan };
        // Without hints all messages go to services.
        let mut options = Options { hint_peers_max: 0, ..Options::default() };
        options.tree.answer_timeout = Some(100 * MILLISECOND);
        let report = valid(&plan, &options);
        assert!(report.lost_messages() > 10, "services were reached");
        let unanswered = report.fail + report.info;
        assert!(report.ok > 9 * unanswered, "seed {seed}: {unanswered} unanswered");
    }
}

/// Services whose every answer takes longer than the timeout: 550 ms there, and 550 ms back.
#[test]
fn answers_later_than_the_timeout_count() {
    for seed in seeds(5) {
        let latency = 550 * MILLISECOND;
        let conditions = Conditions { latency, ..Plan::default().conditions };
        let time_limit = 20_000 * MILLISECOND;
        let plan = Plan { conditions, time_limit, rate: 10.0, seed, ..Plan::default() };
        for timeout in [1000, 100] {
            let mut options = Options::default();
            options.tree.answer_timeout = Some(timeout * MILLISECOND);
            let report = valid(&plan, &options);
            let Report { ok, fail, info, .. } = report;
            println!(
                "timeout {timeout} ms: {ok} ok, {fail} fail, {info} info, p50 {:?}, {:.2} messages",
                report.latency(500),
                report.server_messages_per_op()
            );
            assert!(ok > 2 * (fail + info), "seed {seed}: {ok} ok, {fail} fail, {info} info");
        }
    }
}

/// Services that are late, silent and in error.
fn bad_services(per_mille: u64) -> Faults {
    Faults {
        late_requests: per_mille,
        late_answers: per_mille,
        lateness_max: 3000 * MILLISECOND,
        lost: per_mille,
        errors: per_mille,
    }
}

#[test]
fn requests_to_failing_services_are_retried() {
    for seed in seeds(20) {
        let faults = bad_services(20);
        let plan = Plan { faults, conditions: slow(MILLISECOND), ..short(seed) };
        let mut options = Options::default();
        options.tree.answer_timeout = Some(100 * MILLISECOND);
        // Clients wait longer than a request may take.
        options.tree.retry_timeout = Duration::from_secs(4);
        let report = valid(&plan, &options);
        assert!(report.ok > 9 * (report.fail + report.info), "seed {seed}");
    }
}

/// If services fail most of the time, nodes must answer with unknown outcomes, and must not report
/// a definite failure of a transaction that took effect.
#[test]
fn unknown_outcomes_get_no_definite_error() {
    let (mut fail, mut info) = (0, 0);
    for seed in seeds(40) {
        let kinds = [Kind::TxnListAppend, Kind::TxnRwRegister, Kind::LinKv, Kind::GSet];
        let workload = kinds[usize::try_from(seed % 4).unwrap_or_default()];
        let plan = Plan { workload, faults: bad_services(400), ..short(seed) };
        let mut options = Options::default();
        options.tree.answer_timeout = Some(40 * MILLISECOND);
        options.tree.retry_timeout = 150 * MILLISECOND;
        let report = valid(&plan, &options);
        fail += report.fail;
        info += report.info;
    }
    assert!(fail > 60 && info > 60, "{fail} certain failures, {info} unknown");
}

#[test]
fn a_lost_race_is_a_certain_failure_without_retries() {
    let mut fail = 0;
    for seed in seeds(10) {
        let mut options = Options::default();
        options.tree.attempts_max = 1;
        let plan = Plan { conditions: slow(5 * MILLISECOND), ..short(seed) };
        let report = valid(&plan, &options);
        assert_eq!(report.info, 0);
        fail += report.fail;
    }
    assert!(fail > 100, "{fail}");
}

#[test]
fn the_checker_finds_updates_lost_to_late_nodes() {
    let mut options = Options::default();
    options.tree.ignore_missing = true;
    options.tree.shape = Shape::bare();
    let found = seeds(10).filter(|seed| {
        let report = run(&short(*seed), &options);
        let kinds = report.verdict.anomalies.join(", ");
        let names = ["lost update", "incompatible order"];
        !report.verdict.is_valid && names.iter().any(|name| kinds.contains(name))
    });
    assert_eq!(found.count() as u64, seeds(10).count() as u64);
}

#[test]
fn reads_that_are_not_verified_are_stale_but_serializable() {
    let mut options = Options { hint_peers_max: 0, ..Options::default() };
    options.tree.verify_reads = false;
    let stale = seeds(10).filter(|seed| {
        let plan = Plan { model: Model::Serializable, ..short(*seed) };
        let report = valid(&plan, &options);
        report.verdict.anomalies.iter().any(|anomaly| anomaly.contains("-realtime"))
    });
    let stale = stale.count();
    assert!(stale * 2 > seeds(10).count(), "{stale} runs were stale");
}

#[test]
fn a_seed_gives_one_run() {
    let plan = Plan { faults: bad_services(50), conditions: slow(MILLISECOND), ..short(7) };
    let json = || run(&plan, &Options::default()).to_json(&plan);
    assert_eq!(json(), json());
}
