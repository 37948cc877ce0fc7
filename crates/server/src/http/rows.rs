//! Results of statements as JSON, for the dashboard.
//!
//! ```json
//! {"kind": "rows", "columns": [{"name": "k", "type": "int"}], "rows": [[1]], "next": null, "warnings": []}
//! {"kind": "done", "warnings": []}
//! {"error": {"kind": "invalid", "message": "…"}}
//! ```

use std::fmt::Write as _;

use carnet_base::Charge;
use carnet_cql::result::{ChangeKind, Response as Outcome, Rows};
use carnet_cql::write_shown_json;
use serde_json::json;

use crate::failure::{Failure, FailureKind};

/// An answer's text with its memory, which is given back when the text is sent.
pub(super) struct Told {
    pub(super) text: String,
    pub(super) _held: Charge,
}

impl AsRef<[u8]> for Told {
    fn as_ref(&self) -> &[u8] {
        self.text.as_bytes()
    }
}

/// Returns the result of a statement as JSON.
///
/// # Errors
///
/// A value that has no text.
pub(super) fn told(outcome: &Outcome, warnings: &[String]) -> Result<String, Failure> {
    Ok(match outcome {
        Outcome::Rows(rows) => told_rows(rows, warnings)?,
        Outcome::Void => json!({ "kind": "done", "warnings": warnings }).to_string(),
        Outcome::SetKeyspace(keyspace) => {
            json!({ "kind": "keyspace", "keyspace": keyspace, "warnings": warnings }).to_string()
        }
        Outcome::SchemaChange(change) => {
            let what = match change.kind {
                ChangeKind::Created => "created",
                ChangeKind::Updated => "altered",
                ChangeKind::Dropped => "dropped",
            };
            let keyspace = &change.keyspace;
            json!({ "kind": "schema", "change": what, "keyspace": keyspace, "warnings": warnings })
                .to_string()
        }
    })
}

fn told_rows(rows: &Rows, warnings: &[String]) -> Result<String, Failure> {
    let columns: Vec<_> = rows
        .columns
        .iter()
        .map(|column| json!({ "name": column.name, "type": column.data_type.to_string() }))
        .collect();
    let mut out = String::from("{\"kind\":\"rows\",\"columns\":");
    let _ = write!(out, "{},\"rows\":[", serde_json::Value::from(columns));
    for (number, row) in rows.rows.to_vec().iter().enumerate() {
        out.push_str(if number > 0 { ",[" } else { "[" });
        for (place, (column, value)) in rows.columns.iter().zip(row).enumerate() {
            if place > 0 {
                out.push(',');
            }
            write_shown_json(&mut out, &column.data_type, value.as_ref())
                .map_err(|error| Failure::invalid(error.to_string()))?;
        }
        out.push(']');
    }
    let next = rows.paging_state.as_ref().map(|state| {
        state.iter().fold(String::new(), |mut hex, byte| {
            let _ = write!(hex, "{byte:02x}");
            hex
        })
    });
    let _ = write!(out, "],\"next\":{},\"warnings\":{}}}", json!(next), json!(warnings));
    Ok(out)
}

/// Returns the failure of a statement as JSON.
pub(super) fn failed(failure: &Failure) -> String {
    let kind = match &failure.kind {
        FailureKind::Syntax => "syntax",
        FailureKind::Unauthorized => "unauthorized",
        FailureKind::Conflict => "conflict",
        FailureKind::Aborted => "aborted",
        FailureKind::Overloaded { .. } => "overloaded",
        FailureKind::Killed => "killed",
        FailureKind::Timeout => "timeout",
        FailureKind::Unknown => "unknown",
        FailureKind::Unavailable => "unavailable",
        FailureKind::Server | FailureKind::Protocol => "server",
        _ => "invalid",
    };
    json!({ "error": { "kind": kind, "message": failure.message } }).to_string()
}
