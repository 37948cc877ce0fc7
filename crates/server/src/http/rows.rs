//! Results of statements as JSON, for the dashboard.
//!
//! ```json
//! {"kind": "rows", "columns": [{"name": "k", "type": "int"}], "rows": [[1]], "next": null, "warnings": []}
//! {"kind": "done", "warnings": []}
//! {"error": {"kind": "invalid", "message": "…"}}
//! ```

use std::fmt::Write as _;

use bytes::Bytes;
use carnet_base::Charge;
use carnet_cql::result::{ChangeKind, Rows};
use carnet_cql::{AnswerMemory, write_shown_json};
use serde_json::json;

use crate::executor::failure;
use crate::failure::{Failure, FailureKind};
use crate::protocol::response::Response;

/// Text of an answer with its memory, which is given back when the text is sent.
pub(super) struct AnswerText {
    pub(super) text: String,
    pub(super) _held: Charge,
}

impl AsRef<[u8]> for AnswerText {
    fn as_ref(&self) -> &[u8] {
        self.text.as_bytes()
    }
}

/// Returns the result of a statement as JSON. The text of rows is charged while it is made.
///
/// # Errors
///
/// A value that has no text; a text that the answer has no memory for.
pub(super) fn result_text(
    response: &Response,
    warnings: &[String],
    memory: &AnswerMemory,
) -> Result<String, Failure> {
    Ok(match response {
        Response::Rows(rows, _) => rows_text(rows, warnings, memory)?,
        Response::SetKeyspace(keyspace) => {
            json!({ "kind": "keyspace", "keyspace": keyspace, "warnings": warnings }).to_string()
        }
        Response::SchemaChange(change) => {
            let what = match change.kind {
                ChangeKind::Created => "created",
                ChangeKind::Updated => "altered",
                ChangeKind::Dropped => "dropped",
            };
            let keyspace = &change.keyspace;
            json!({ "kind": "schema", "change": what, "keyspace": keyspace, "warnings": warnings })
                .to_string()
        }
        // A statement that was not prepared has no other response.
        _ => json!({ "kind": "done", "warnings": warnings }).to_string(),
    })
}

fn rows_text(rows: &Rows, warnings: &[String], memory: &AnswerMemory) -> Result<String, Failure> {
    let columns: Vec<_> = rows
        .columns
        .iter()
        .map(|column| json!({ "name": column.name, "type": column.data_type.to_string() }))
        .collect();
    let mut out = String::from("{\"kind\":\"rows\",\"columns\":");
    let _ = write!(out, "{},\"rows\":[", serde_json::Value::from(columns));
    let rows_len = rows.rows.encoded().len();
    for (number, row) in rows.rows.iter().enumerate() {
        out.push_str(if number > 0 { ",[" } else { "[" });
        for (place, (column, value)) in rows.columns.iter().zip(row).enumerate() {
            if place > 0 {
                out.push(',');
            }
            let value = value.map(Bytes::copy_from_slice);
            write_shown_json(&mut out, &column.data_type, value.as_ref())
                .map_err(|error| failure(&error))?;
        }
        out.push(']');
        memory.grow_to(out.len(), rows_len).map_err(|error| failure(&error))?;
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
