//! Compares tables of the pages with the code: limits of the server and of the data, and the options of service
//! levels.

use carnet::levels::ServiceLevel;
use carnet_admission::AdmissionLimits;
use carnet_base::limits::{CLUSTERING_KEY_BYTES_MAX, PARTITION_KEY_BYTES_MAX, VALUE_BYTES_MAX};
use carnet_cql::{OpenLimits, WarnThresholds};
use carnet_server::Limits;

const LIMITS: &str = include_str!("../../../../docs/limits.md");
const CQL: &str = include_str!("../../../../docs/cql.md");

/// Returns the row of a page that begins with some words.
fn row(page: &'static str, begin: &str) -> &'static str {
    let begin = format!("| {begin}");
    let mut found = page.lines().filter(|line| line.starts_with(&begin));
    let row = found.next().unwrap_or_else(|| panic!("no row begins: {begin}"));
    assert!(found.next().is_none(), "several rows begin: {begin}");
    row
}

fn has(begin: &str, words: &str) {
    let row = row(LIMITS, begin);
    assert!(row.contains(words), "{words:?} in {row}");
}

/// Writes a number with commas.
fn shown(number: usize) -> String {
    let digits = number.to_string();
    let mut shown = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            shown.push(',');
        }
        shown.push(digit);
    }
    shown
}

fn mib(bytes: usize) -> String {
    format!("{} MiB", bytes >> 20)
}

#[test]
fn limits_of_data_are_on_the_page() {
    has("partition key, as", &format!("{} bytes", shown(PARTITION_KEY_BYTES_MAX)));
    has(
        "clustering key, or key of a raw table",
        &format!("{} bytes", shown(CLUSTERING_KEY_BYTES_MAX)),
    );
    has("value: a row with its columns", &mib(VALUE_BYTES_MAX));
}

#[test]
fn limits_of_a_server_are_on_the_page() {
    let limits = Limits::default();
    has("connections of the server", &limits.connections_max.to_string());
    has("statements in progress of a connection", &shown(limits.requests_per_connection_max));
    has("a request's body", &mib(limits.body_bytes_max));
    has("time for the arrival of a request", &format!("{} s,", limits.frame_timeout.as_secs()));
    has("time for which a client reads nothing", &format!("{} s;", limits.stall_timeout.as_secs()));
    has("time for which a client reads nothing", &mib(limits.unsent_bytes_max));
    has("time until a client logs in", &format!("{} s", limits.greeting_timeout.as_secs()));
    has("time for which SIGTERM waits", &format!("{} s", limits.drain_timeout.as_secs()));
    has("idle time of a client", &format!("{} minutes", limits.idle_timeout.as_secs() / 60));
    let gate = AdmissionLimits::of_server(2).statements;
    has("statements that run at a time", &format!("{} for each processor", gate.running_max / 2));
    let waiting = format!("{} with {}", shown(gate.queue_max), mib(gate.queue_bytes_max));
    has("statements that wait, for each class", &waiting);
    let open = OpenLimits::default();
    has(
        "transactions that stay open",
        &format!("{}, `limits.transactions`", open.transactions_max),
    );
    has("transactions that stay open", &format!("{} minutes", open.idle_timeout.as_secs() / 60));
    has("service levels |", &carnet::levels::LEVELS_MAX.to_string());
    has("service levels |", &shown(carnet::levels::ATTACHED_MAX));
}

/// Options of service levels stand in the order in which `LIST` shows them.
#[test]
fn options_of_service_levels_are_on_the_page() {
    let (_, rest) = CQL.split_once("## Service levels\n").unwrap();
    let (_, table) = rest.split_once("| option | value | default |\n").unwrap();
    let rows = table.lines().skip(1).take_while(|line| line.starts_with('|'));
    let listed: Vec<&str> = rows.map(|row| row.split('`').nth(1).unwrap()).collect();
    let level = ServiceLevel::default();
    let mut known = level.settings().map(|setting| setting.name()).to_vec();
    assert_eq!(listed.len(), known.len(), "{listed:?} and {known:?}");
    known.retain(|name| !listed.contains(name));
    assert!(known.is_empty(), "{known:?} are not on the page");
    assert!(row(CQL, "`shares`").contains(&format!("| {};", level.shares)));
}

#[test]
fn thresholds_of_warnings_are_on_the_page() {
    let thresholds = WarnThresholds::default();
    let batch = format!("\"{}KiB\"", thresholds.batch_bytes >> 10);
    assert!(row(CQL, "a batch of several partitions").contains(&batch), "{batch}");
    let partitions = format!("| {} |", thresholds.unlogged_partitions);
    assert!(row(CQL, "an unlogged batch writes").contains(&partitions), "{partitions}");
    let tombstones = format!("| {} |", thresholds.tombstones);
    assert!(row(CQL, "a statement reads over many").contains(&tombstones), "{tombstones}");
}

#[test]
fn interval_of_certificates_is_on_the_page() {
    const SECURITY: &str = include_str!("../../../../docs/security.md");
    let seconds = Limits::default().certificate_interval.as_secs();
    let said = format!("The server examines the files every {seconds} seconds");
    assert!(SECURITY.contains(&said), "{said}");
}
