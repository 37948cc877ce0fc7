//! The server, `carnet stress` and the Maelstrom nodes.

use super::super::group::{Better, Group};
use super::super::take::{Take, json};
use super::Field;

pub(super) fn groups() -> Vec<Group> {
    vec![server(), stress(), histories(), maelstrom()]
}

/// Workloads of a server by their names on the command line, and titles.
pub(super) const WORKLOADS: [(&str, &str); 11] = [
    ("read", "point read"),
    ("insert", "insert"),
    ("slice-up", "slice of 100 rows"),
    ("slice-down", "slice of 100 rows, descending"),
    ("page", "page of 5,000 rows"),
    ("scan", "page of 5,000 rows of a table"),
    ("mixed", "three reads for each insert"),
    ("conditional", "update `IF EXISTS`"),
    ("hot", "update of one row by all"),
    ("batch", "batch of 8 inserts"),
    ("transfer", "transfer between two accounts"),
];

/// The server's processor time per operation.
fn server() -> Group {
    const COMMAND: &str =
        "carnet-bench server --in-flight 16 --connections 8 --millis 300 --passes 3 --json";
    let mut group = Group::new("server", "operation");
    for (name, title) in WORKLOADS {
        let (row, at) = ((name, title), |workload, field| json(&[("workload", workload)], field));
        let fields: [Field; 3] = [
            ("processor", "µs of processor", "processor_us"),
            ("p99", "p99 µs", "p99_us"),
            ("rate", "operations/s", "per_second"),
        ];
        for (key, title, field) in fields {
            group.add(row, (key, title), COMMAND, at(name, field));
        }
        if name != "read" {
            let column = ("ratio", "processor, to a point read");
            let ratio = group.add(row, column, COMMAND, at(name, "processor_us"));
            ratio.over(at("read", "processor_us")).better(Better::Less);
        }
    }
    group
}

/// Loads of `carnet stress`, on a server and within the process.
fn stress() -> Group {
    let remote = |options: &str| {
        format!("carnet stress --server 127.0.0.1:9042 {options} --rows 10000 --seconds 3 --json")
    };
    let [one, ten] =
        ["1", "10"].map(|keys| remote(&format!("--workload multi-get --group {keys} --threads 4")));
    let open = remote("--workload read --rate 500");
    let [scan, page] = ["1", "100"].map(|rows| {
        format!(
            "carnet stress --dir DATA --workload scan --group {rows} --rows 10000 --seconds 3 --json"
        )
    });
    let mut group = Group::new("stress", "load");
    let fields: [Field; 3] = [
        ("rate", "operations/s", "operations_per_second"),
        ("p50", "p50 µs", "latency_micros.p50"),
        ("p99", "p99 µs", "latency_micros.p99"),
    ];
    for (name, title, command) in [
        ("multi-get-1", "`multi-get` of 1 key by 4 clients of a server", &one),
        ("multi-get-10", "`multi-get` of 10 keys by 4 clients of a server", &ten),
        ("read-500", "`read` of a server, 500 due a second", &open),
        ("scan-1", "`scan` of 1 row within the process", &scan),
        ("scan-100", "`scan` of 100 rows within the process", &page),
    ] {
        for (key, column, field) in fields {
            group.add((name, title), (key, column), command, json(&[], field));
        }
        let column = ("ratio", "operations/s, to the first of the kind");
        let rate = json(&[], "operations_per_second");
        let other = match name {
            "multi-get-10" => &one,
            "scan-100" => &scan,
            _ => continue,
        };
        let ratio = group.add((name, title), column, command, rate.clone());
        ratio.over_other(other, rate).better(Better::More);
    }
    let row = ("read-500", "`read` of a server, 500 due a second");
    let column = ("kept", "operations/s, to those due");
    let kept = group.add(row, column, &open, json(&[], "operations_per_second"));
    kept.over_number(500.0).better(Better::More);
    group
}

/// Histories of `carnet stress` that the checker accepts.
fn histories() -> Group {
    let mut group = Group::new("histories", "workload");
    for (name, command) in [
        ("list-append", "carnet stress --dir DATA --workload list-append --clients 16 --seconds 3"),
        ("register", "carnet stress --dir DATA --workload register --seconds 3"),
    ] {
        let take = Take::Lines("strictly serializable".to_owned());
        let column = ("", "histories that are strictly serializable, of one");
        group.add((name, name), column, command, take).counted().better(Better::More);
    }
    group
}

/// Messages of the Maelstrom nodes on virtual time, where they do not depend on the machine.
fn maelstrom() -> Group {
    let mut group = Group::new("maelstrom", "run on virtual time");
    for (name, title, options) in [
        ("two", "2 nodes, 100/s", "--rate 100"),
        ("two-10-ms", "2 nodes, 100/s, `--latency 10`", "--rate 100 --latency 10"),
        ("two-10000", "2 nodes, 100/s, `--preload 10000`", "--rate 100 --preload 10000"),
        ("two-serial", "2 nodes, 100/s, `--concurrency 1`", "--rate 100 --concurrency 1"),
        (
            "five",
            "5 nodes, 1000/s, `--concurrency 40`",
            "--node-count 5 --rate 1000 --concurrency 40",
        ),
        (
            "five-10-ms",
            "the same, `--latency 10`",
            "--node-count 5 --rate 1000 --concurrency 40 --latency 10",
        ),
    ] {
        let command =
            &*format!("carnet-maelstrom-test {options} --time-limit 10 --simulated --json");
        let (row, at) = ((name, title), |field| json(&[], field));
        let column = ("messages", "messages a transaction");
        group.add(row, column, command, at("messages.servers_per_op")).counted();
        group.add(row, ("answered", "answered"), command, at("ops.ok")).counted = true;
        group.add(row, ("asked", "asked"), command, at("ops.count")).counted = true;
        group.add(row, ("root", "longest root, bytes"), command, at("root_bytes_max")).counted();
    }
    group
}
