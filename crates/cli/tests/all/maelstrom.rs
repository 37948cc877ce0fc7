//! The real `carnet maelstrom` over pipes, under the harness. Verdicts and counts are checked, not
//! times: the machine may be busy.

use std::io::{BufRead, Write};
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use carnet_maelstrom_test::processes::{Program, run};
use carnet_maelstrom_test::{Conditions, Faults, Kind, Plan, Report};

use crate::support;

fn node(options: &[&str]) -> Program {
    let arguments = ["maelstrom"].iter().chain(options).map(|word| (*word).to_owned()).collect();
    let path = PathBuf::from(env!("CARGO_BIN_EXE_carnet"));
    Program { path, arguments, shows_log: false }
}

fn short() -> Plan {
    // A slow answer is not wrong.
    let client_timeout = Duration::from_secs(30);
    Plan { time_limit: Duration::from_secs(3), client_timeout, ..Plan::default() }
}

fn valid(plan: &Plan, options: &[&str]) -> Report {
    let report = run(plan, &node(options)).unwrap();
    assert!(report.verdict.is_valid, "seed {}: {}", plan.seed, report.verdict.explanation);
    assert!(report.ok > 100, "{} of {}", report.ok, report.to_json(plan));
    report
}

#[test]
fn transactions_are_strictly_serializable_and_all_answered() {
    let report = valid(&short(), &[]);
    assert_eq!((report.fail, report.info), (0, 0));
    assert!(report.root_bytes_max <= 4096, "{}", report.root_bytes_max);
    // A busy machine makes larger batches and fewer messages.
    let messages = report.server_messages_per_op();
    assert!(messages <= 3.0, "{messages}");
}

#[test]
fn every_workload_is_served() {
    for workload in [Kind::TxnRwRegister, Kind::LinKv, Kind::GSet, Kind::Echo] {
        let time_limit = Duration::from_secs(2);
        let report = valid(&Plan { workload, time_limit, ..short() }, &[]);
        assert_eq!(report.info, 0);
    }
}

#[test]
fn partitions_and_service_failures_keep_the_verdict() {
    let partition_every = Some(Duration::from_millis(500));
    let conditions = Conditions { loss: 300, ..Plan::default().conditions };
    let report = valid(&Plan { nodes: 3, partition_every, conditions, ..short() }, &[]);
    assert_eq!((report.fail, report.info), (0, 0));

    let lateness_max = Duration::from_millis(500);
    let faults = Faults { late_requests: 50, late_answers: 50, lateness_max, lost: 50, errors: 50 };
    valid(&Plan { faults, ..short() }, &["--service-timeout", "50"]);
}

/// Each answer of a service takes 1.1 s, and the node repeats its request after 1 s.
#[test]
fn service_later_than_its_timeout_is_waited_for() {
    let latency = Duration::from_millis(550);
    let conditions = Conditions { latency, ..Plan::default().conditions };
    let time_limit = Duration::from_secs(7);
    let plan = Plan { conditions, time_limit, rate: 10.0, ..Plan::default() };
    let report = run(&plan, &node(&[])).unwrap();
    assert!(report.verdict.is_valid, "{}", report.verdict.explanation);
    let Report { ok, fail, info, .. } = report;
    assert!(ok > fail + info, "{ok} ok, {fail} failed, {info} unknown");
}

#[test]
fn deliberate_mistakes_are_found() {
    let options = ["--ignore-missing", "--layout", "tree"];
    let report = run(&short(), &node(&options)).unwrap();
    assert!(!report.verdict.is_valid, "late nodes were taken for empty ones");
    let found = report.verdict.anomalies.join(", ");
    assert!(found.contains("lost update") || found.contains("incompatible order"), "{found}");

    // These options break real-time order; whether that shows differs from run to run.
    let options = ["--no-verify-reads", "--no-hints"];
    let found = (0..5).any(|seed| {
        let report = run(&Plan { seed, ..short() }, &node(&options)).unwrap();
        let is_real_time = |anomaly: &String| anomaly.contains("-realtime");
        assert!(report.verdict.anomalies.iter().all(is_real_time));
        !report.verdict.is_valid
    });
    assert!(found, "reads that are not verified were never stale");
}

#[test]
fn malformed_lines_are_dropped_until_end_of_input() {
    let mut command = support::carnet();
    command.arg("maelstrom").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut node = support::Guard::new(command.spawn().unwrap());
    let (mut stdin, mut stdout) = (node.stdin(), node.stdout());
    let mut ask = |body: &str| {
        writeln!(stdin, r#"{{"src":"c1","dest":"n0","body":{body}}}"#).unwrap();
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        line
    };
    let early = ask(r#"{"type":"echo","msg_id":1,"echo":1}"#);
    assert!(early.contains(r#""code":11"#), "{early}");
    let init = r#"{"type":"init","msg_id":2,"node_id":"n0","node_ids":["n0"]}"#;
    assert!(ask(init).contains(r#""type":"init_ok""#));
    let unknown = ask(r#"{"type":"dance","msg_id":3}"#);
    assert!(unknown.contains(r#""code":10"#), "{unknown}");
    // These lines have no sender to answer; the next one has.
    let garbage = "{\"type\":\"echo\"}}\n\n[\n{\"src\":1}\n{}\nnull";
    writeln!(stdin, "{garbage}").unwrap();
    writeln!(stdin, r#"{{"src":"c1","dest":"n0","body":{{"type":"txn","msg_id":4}}}}"#).unwrap();
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    assert!(line.contains(r#""code":12"#) && line.contains(r#""in_reply_to":4"#), "{line}");
    drop(stdin);
    assert!(node.wait().success());
}
