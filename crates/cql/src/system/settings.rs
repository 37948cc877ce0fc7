//! The rows of `system_views.settings`: the settings that Carnet has in common with Cassandra, under
//! Cassandra's names and in its units.

use std::time::Duration;

use super::encode::{self, Cell};
use super::node::{NodeInfo, PARTITIONER};
use super::table::SystemTable;

/// Timeouts that are settings.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SettingTimeouts {
    /// Of statements that name the keys they read and write.
    pub(crate) statement: Option<Duration>,
    /// Of statements that scan a table, filter or aggregate.
    pub(crate) scan: Option<Duration>,
}

/// Returns the settings by name.
pub(super) fn rows(
    table: &SystemTable,
    node: &NodeInfo,
    timeouts: SettingTimeouts,
) -> Vec<Vec<Cell>> {
    let millis = |timeout: Option<Duration>| timeout.map(|time| format!("{}ms", time.as_millis()));
    let (statement, scan) = (millis(timeouts.statement), millis(timeouts.scan));
    let address = node.address.to_string();
    let settings = [
        ("cluster_name", Some(node.cluster_name.clone())),
        ("dynamic_data_masking_enabled", Some("false".to_owned())),
        ("materialized_views_enabled", Some("true".to_owned())),
        ("native_transport_port", Some(node.port.to_string())),
        ("num_tokens", Some(node.tokens.len().to_string())),
        ("partitioner", Some(PARTITIONER.to_owned())),
        ("range_request_timeout", scan),
        ("read_request_timeout", statement.clone()),
        ("rpc_address", Some(address)),
        ("user_defined_functions_enabled", Some("false".to_owned())),
        ("write_request_timeout", statement),
    ];
    let row = |(name, value): (&str, Option<String>)| {
        table.row([
            ("name", encode::text(name)),
            ("value", value.and_then(|value| encode::text(&value))),
        ])
    };
    settings.into_iter().map(row).collect()
}
