//! The rows of `system_traces`.

use std::sync::Arc;
use std::time::Duration;

use carnet::Value;

use super::encode::{self, Cell};
use super::node::NodeInfo;
use super::table::SystemTable;
use crate::trace::{Trace, TraceEvent};
use crate::uuids::Uuids;

/// Returns a row for each trace.
pub(super) fn sessions(
    table: &SystemTable,
    node: &NodeInfo,
    traces: &[Arc<Trace>],
) -> Vec<Vec<Cell>> {
    let row = |trace: &Arc<Trace>| {
        let (_, took) = trace.steps();
        let parameters = trace.parameters.iter().map(|(name, value)| (*name, value.as_str()));
        table.row([
            ("session_id", encode::uuid(trace.id)),
            ("client", encode::inet(trace.client)),
            ("command", encode::text("QUERY")),
            ("coordinator", encode::inet(node.address)),
            ("coordinator_port", encode::int(node.port.into())),
            ("duration", micros(took)),
            ("parameters", encode::text_map(parameters)),
            ("request", encode::text(trace.request)),
            ("started_at", Some(Value::Timestamp(trace.started.millis()).serialize())),
        ])
    };
    traces.iter().map(row).collect()
}

/// Returns a row for each step of each trace.
pub(super) fn events(
    table: &SystemTable,
    node: &NodeInfo,
    traces: &[Arc<Trace>],
) -> Vec<Vec<Cell>> {
    let rows_of = |trace: &Arc<Trace>| {
        let (events, _) = trace.steps();
        let row = |(place, event): (u64, TraceEvent)| {
            table.row([
                ("session_id", encode::uuid(trace.id)),
                ("event_id", Some(Value::Timeuuid(Uuids::later(trace.id, place)).serialize())),
                ("activity", encode::text(&event.activity)),
                ("source", encode::inet(node.address)),
                ("source_elapsed", micros(event.elapsed)),
                ("source_port", encode::int(node.port.into())),
                ("thread", encode::text("carnet")),
            ])
        };
        (1..).zip(events).map(row).collect::<Vec<_>>()
    };
    traces.iter().flat_map(rows_of).collect()
}

fn micros(time: Duration) -> Cell {
    encode::int(i32::try_from(time.as_micros()).unwrap_or(i32::MAX))
}
