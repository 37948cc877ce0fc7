//! The Grafana dashboard and the alerts in `docs/grafana` use metrics that exist, as their kinds permit.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::{Server, carnet, succeed};

/// Labels that Prometheus adds, and the label of histogram buckets.
const GIVEN_LABELS: [&str; 3] = ["instance", "job", "le"];

fn docs(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name)
}

fn read(name: &str) -> String {
    fs::read_to_string(docs(name)).unwrap()
}

/// A metric's kind and labels.
struct Metric {
    kind: String,
    labels: BTreeSet<String>,
}

/// Returns the metrics that `docs/metrics.md` lists, which another test compares with `/metrics`.
fn metrics() -> BTreeMap<String, Metric> {
    let page = read("metrics.md");
    let rows = page.lines().filter(|line| line.starts_with("| `"));
    let found: BTreeMap<String, Metric> = rows
        .filter_map(|row| {
            let cells: Vec<&str> = row.split('|').map(str::trim).collect();
            let [_, name, kind, labels, ..] = cells[..] else { return None };
            let labels = labels.split('`').skip(1).step_by(2).map(str::to_owned).collect();
            let is_kind = ["counter", "gauge", "histogram"].contains(&kind);
            is_kind
                .then(|| (name.trim_matches('`').to_owned(), Metric { kind: kind.into(), labels }))
        })
        .collect();
    assert!(found.len() > 80, "{} metrics are listed", found.len());
    found
}

/// Adds the labels that metrics have only once statements have run.
fn add_labels_of_load(metrics: &mut BTreeMap<String, Metric>) {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path(), &[]);
    let mut shell = carnet();
    shell.args(["shell", "--server", &server.cql.to_string(), "-e", "SELECT * FROM system.local"]);
    succeed(&mut shell);
    for line in server.get("/metrics").1.lines().filter(|line| !line.starts_with('#')) {
        let Some((name, labels)) = line.split_once('{') else { continue };
        if let Some(metric) = metrics.get_mut(name) {
            let labels =
                labels.split("\",").map(|label| label.split('=').next().unwrap().to_owned());
            metric.labels.extend(labels.filter(|label| !label.starts_with('}')));
        }
    }
}

/// Returns the expressions of the Grafana dashboard.
fn grafana_expressions() -> Vec<String> {
    fn collect(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(fields) => {
                for (name, value) in fields {
                    match value.as_str() {
                        Some(text) if name == "expr" || name == "definition" => {
                            found.push(text.to_owned());
                        }
                        _ => collect(value, found),
                    }
                }
            }
            Value::Array(items) => items.iter().for_each(|item| collect(item, found)),
            _ => {}
        }
    }
    let mut found = Vec::new();
    collect(&serde_json::from_str(&read("grafana/carnet.json")).unwrap(), &mut found);
    assert!(found.len() > 40, "{found:?}");
    found
}

/// Returns the expressions of the alerts. A folded one (`>-`) goes on in the lines that are indented deeper.
fn alert_expressions() -> Vec<String> {
    let rules = read("grafana/alerts.yml");
    let mut found: Vec<String> = Vec::new();
    let mut is_folded = false;
    for line in rules.lines() {
        if let Some(text) = line.trim_start().strip_prefix("expr: ") {
            is_folded = text == ">-";
            found.push(if is_folded { String::new() } else { text.to_owned() });
        } else if is_folded && line.starts_with("          ") {
            let last = found.last_mut().unwrap();
            last.push_str(line.trim_start());
            last.push(' ');
        } else {
            is_folded = false;
        }
    }
    assert_eq!(found.len(), rules.matches("- alert: ").count());
    found
}

/// Returns the positions at which names of metrics begin, and the names.
fn names(expression: &str) -> Vec<(usize, &str)> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut found = Vec::new();
    for prefix in ["carnet_", "process_"] {
        for (at, _) in expression.match_indices(prefix) {
            if !expression[..at].chars().next_back().is_some_and(is_part) {
                let rest = &expression[at..];
                found.push((at, &rest[..rest.find(|c| !is_part(c)).unwrap_or(rest.len())]));
            }
        }
    }
    found
}

/// Returns the labels in a selector `{label="…"}` at the start of a text.
fn selected(text: &str) -> Vec<&str> {
    let Some(inner) = text.strip_prefix('{').and_then(|rest| rest.split('}').next()) else {
        return Vec::new();
    };
    let pairs = inner.split("\",").map(|pair| pair.split(['=', '!']).next().unwrap().trim());
    pairs.filter(|label| !label.is_empty()).collect()
}

fn check(expression: &str, metrics: &BTreeMap<String, Metric>) {
    let found = names(expression);
    let mut labels: BTreeSet<&str> = GIVEN_LABELS.into();
    for (at, name) in &found {
        let parts = ["_bucket", "_sum", "_count"];
        let of_histogram = parts.iter().find_map(|part| name.strip_suffix(part));
        let histogram = of_histogram.and_then(|base| Some((base, metrics.get(base)?)));
        let metric = metrics.get(*name).or(histogram.map(|(_, metric)| metric));
        let metric = metric.unwrap_or_else(|| panic!("{name} is no metric: {expression}"));
        let grows = metric.kind == "counter" || histogram.is_some();
        let is_rate = ["rate(", "increase("].iter().any(|call| expression[..*at].ends_with(call));
        assert_eq!(grows, is_rate, "{name} is a {}: {expression}", metric.kind);
        labels.extend(metric.labels.iter().map(String::as_str));
        for label in selected(&expression[at + name.len()..]) {
            let is_known = metric.labels.contains(label) || GIVEN_LABELS.contains(&label);
            assert!(is_known, "{name} has no label {label}: {expression}");
        }
    }
    for grouped in expression.split("by (").skip(1) {
        for label in grouped.split(')').next().unwrap().split(',').map(str::trim) {
            assert!(labels.contains(label), "no metric has the label {label}: {expression}");
        }
    }
}

#[test]
fn dashboard_and_alerts_use_metrics_that_exist() {
    let mut metrics = metrics();
    add_labels_of_load(&mut metrics);
    for expression in grafana_expressions().iter().chain(&alert_expressions()) {
        assert!(!names(expression).is_empty() || expression.starts_with("up{"), "{expression}");
        check(expression, &metrics);
    }
}

/// The page that describes the alerts names each, and no others.
#[test]
fn every_alert_is_described() {
    let (page, rules) = (read("dashboard.md"), read("grafana/alerts.yml"));
    let alerts: BTreeSet<&str> =
        rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
    let described = page.lines().filter(|line| line.starts_with("| `Carnet"));
    let described: BTreeSet<&str> =
        described.flat_map(|line| line.split('`').skip(1).step_by(2)).collect();
    assert_eq!(alerts, described);
    assert_eq!(rules.matches("summary: ").count(), alerts.len());
    assert_eq!(rules.matches("severity: ").count(), alerts.len());
}
