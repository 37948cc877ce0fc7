//! `docs/metrics.md` lists what `/metrics` serves. `UPDATE_GOLDENFILES=1` writes the list anew.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::{env, fs};

use crate::support::{Server, carnet, succeed};

const BEGIN: &str = "<!-- begin of the list of metrics -->\n";
const END: &str = "<!-- end of the list of metrics -->";

/// A metric with its kind, its meaning and its labels.
#[derive(Default)]
struct Metric {
    kind: String,
    help: String,
    labels: BTreeSet<String>,
}

/// Returns the metrics of an answer, in the order of their names.
fn parse(text: &str) -> BTreeMap<String, Metric> {
    let mut metrics: BTreeMap<String, Metric> = BTreeMap::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').unwrap();
            metrics.entry(name.into()).or_default().help = help.into();
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            metrics.entry(name.into()).or_default().kind = kind.into();
        } else if let Some((name, labels)) = line.split_once('{') {
            let parts = ["_bucket", "_sum", "_count"];
            let histogram = parts.iter().find_map(|part| name.strip_suffix(part)).unwrap_or(name);
            let labels = labels.split_once('}').unwrap().0;
            let labels = labels.split("\",").map(|label| label.split('=').next().unwrap().into());
            metrics.get_mut(histogram).unwrap().labels.extend(labels);
        }
    }
    metrics
}

/// Returns the unit of a metric, which its name has; empty for a number of things.
fn unit(name: &str) -> &'static str {
    let has = |word: &str| name.split('_').any(|part| part == word);
    match (has("seconds"), has("bytes")) {
        (true, _) => "s",
        (_, true) => "bytes",
        _ => "",
    }
}

fn table(metrics: &BTreeMap<String, Metric>) -> String {
    let mut table =
        "| metric | kind | labels | unit | meaning |\n| --- | --- | --- | --- | --- |\n".to_owned();
    for (name, Metric { kind, help, labels }) in metrics {
        let unit = unit(name);
        let labels = labels.iter().filter(|label| *label != "le").map(|label| format!("`{label}`"));
        let labels = labels.collect::<Vec<_>>().join(", ");
        table.push_str(&format!("| `{name}` | {kind} | {labels} | {unit} | {help} |\n"));
    }
    table
}

#[test]
fn page_lists_every_metric() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/metrics.md");
    let page = fs::read_to_string(&path).unwrap();
    let (head, rest) = page.split_once(BEGIN).unwrap();
    let (list, tail) = rest.split_once(END).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path(), &[]);
    // The metrics of tables need a table.
    let statements =
        "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};
                      CREATE TABLE k.t (k int PRIMARY KEY); INSERT INTO k.t (k) VALUES (1)";
    succeed(carnet().args(["shell", "--server", &server.cql.to_string(), "-e", statements]));
    let (_, text) = server.get("/metrics");
    assert!(text.contains("carnet_table_writes_total{keyspace=\"k\",table=\"t\"} 1\n"), "{text}");
    let metrics = parse(&text);
    for (name, Metric { kind, help, .. }) in &metrics {
        assert_eq!(kind == "counter", name.ends_with("_total"), "{name} is a {kind}");
        assert!(
            help.ends_with('.') && help.starts_with(char::is_uppercase) || help.starts_with('1'),
            "{name}: {help}"
        );
        assert!(["counter", "gauge", "histogram"].contains(&kind.as_str()), "{name}: {kind}");
    }
    let now = table(&metrics);
    if env::var("UPDATE_GOLDENFILES").is_ok_and(|update| update == "1") {
        fs::write(&path, format!("{head}{BEGIN}{now}{END}{tail}")).unwrap();
    } else {
        assert_eq!(list, now, "UPDATE_GOLDENFILES=1 writes docs/metrics.md anew");
    }
    // The metrics named in the text exist.
    for name in head.split('`').skip(1).step_by(2).filter(|name| name.starts_with("carnet_")) {
        // Those of a cluster are tested over a cluster.
        let is_other = name.starts_with("carnet_cluster_") || name.ends_with('_');
        assert!(is_other || metrics.contains_key(name), "{name} is no metric");
    }
}
