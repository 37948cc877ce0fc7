//! The rows of `system_views.settings`: the settings that Carnet has in common with Cassandra, under
//! Cassandra's names and in its units, and the settings of Carnet's own server, as `section.name`.

use std::time::Duration;

use super::encode::{self, Cell};
use super::node::{NodeInfo, PARTITIONER};
use super::table::SystemTable;

/// Settings of statements.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StatementSettings {
    /// Of statements that name the keys they read and write.
    pub(crate) statement: Option<Duration>,
    /// Of statements that scan a table, filter or aggregate.
    pub(crate) scan: Option<Duration>,
    /// Bytes of a batch that is warned of.
    pub(crate) batch_bytes: u64,
    /// Partitions of an unlogged batch that is warned of.
    pub(crate) unlogged_partitions: usize,
    /// Deleted rows that are warned of.
    pub(crate) tombstones: u64,
}

/// Returns the settings by name.
pub(super) fn rows(
    table: &SystemTable,
    node: &NodeInfo,
    given: StatementSettings,
    own: &[(String, String)],
) -> Vec<Vec<Cell>> {
    let millis = |timeout: Option<Duration>| timeout.map(|time| format!("{}ms", time.as_millis()));
    let (statement, scan) = (millis(given.statement), millis(given.scan));
    let address = node.address.to_string();
    let settings = [
        ("batch_size_warn_threshold", Some(binary_bytes(given.batch_bytes))),
        ("cluster_name", Some(node.cluster_name.clone())),
        ("dynamic_data_masking_enabled", Some("false".to_owned())),
        ("materialized_views_enabled", Some("true".to_owned())),
        ("native_transport_port", Some(node.port.to_string())),
        ("num_tokens", Some(node.tokens.len().to_string())),
        ("partitioner", Some(PARTITIONER.to_owned())),
        ("range_request_timeout", scan),
        ("read_request_timeout", statement.clone()),
        ("rpc_address", Some(address)),
        ("tombstone_warn_threshold", Some(given.tombstones.to_string())),
        (
            "unlogged_batch_across_partitions_warn_threshold",
            Some(given.unlogged_partitions.to_string()),
        ),
        ("user_defined_functions_enabled", Some("false".to_owned())),
        ("write_request_timeout", statement),
    ];
    let row = |(name, value): (&str, Option<String>)| {
        table.row([
            ("name", encode::text(name)),
            ("value", value.and_then(|value| encode::text(&value))),
        ])
    };
    let own = own.iter().map(|(name, value)| {
        (name.as_str(), Some(value.clone()).filter(|value| !value.is_empty()))
    });
    let mut all: Vec<_> = settings.into_iter().chain(own).collect();
    all.sort_unstable_by_key(|(name, _)| *name);
    all.into_iter().map(row).collect()
}

/// Returns a number of bytes in the largest unit of Cassandra that divides it.
fn binary_bytes(bytes: u64) -> String {
    let units = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let unit = units.into_iter().find(|(unit, _)| bytes > 0 && bytes.is_multiple_of(*unit));
    unit.map_or_else(|| format!("{bytes}B"), |(unit, name)| format!("{}{name}", bytes / unit))
}
