//! Lines of an audit log.

use carnet_base::WallTime;
use carnet_cql::AuditEntry;
use chrono::{DateTime, SecondsFormat};
use serde::Serialize;

/// The JSON object of an entry, with its members in this order.
#[derive(Serialize)]
struct Line<'a> {
    time: String,
    category: &'a str,
    operation: &'a str,
    user: Option<&'a str>,
    client: &'a str,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    keyspaces: &'a [String],
    #[serde(skip_serializing_if = "str::is_empty")]
    statement: &'a str,
    outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lost: Option<u64>,
}

/// Returns the JSON object of an entry, with the number of entries lost before it, and a line's end.
pub(super) fn line(time: WallTime, entry: &AuditEntry, lost: u64) -> String {
    let object = Line {
        time: shown(time),
        category: entry.category.name(),
        operation: entry.operation,
        user: entry.user.as_deref(),
        client: &entry.client,
        keyspaces: &entry.keyspaces,
        statement: &entry.statement,
        outcome: if entry.error.is_some() { "error" } else { "ok" },
        error: entry.error.as_deref(),
        lost: (lost > 0).then_some(lost),
    };
    let mut line = serde_json::to_string(&object).expect("texts and numbers are JSON");
    line.push('\n');
    line
}

fn shown(time: WallTime) -> String {
    let time = DateTime::from_timestamp_micros(time.0).unwrap_or_default();
    time.to_rfc3339_opts(SecondsFormat::Micros, true)
}

#[cfg(test)]
mod tests {
    use carnet_cql::AuditCategory;
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn line_is_one_json_object() {
        let entry = AuditEntry {
            category: AuditCategory::Dml,
            operation: "INSERT",
            user: Some("ann\n{}".into()),
            client: "10.0.0.7:1".to_owned(),
            keyspaces: vec!["bank".to_owned()],
            statement: "INSERT INTO t (k) VALUES ('\n\u{1b}\"')".to_owned(),
            error: Some("it\nfailed".to_owned()),
        };
        let line = line(WallTime(1_700_000_000_123_456), &entry, 3);
        assert_eq!(line.matches('\n').count(), 1);
        let object: Value = serde_json::from_str(&line).unwrap();
        let expected = json!({
            "time": "2023-11-14T22:13:20.123456Z", "category": "dml", "operation": "INSERT",
            "user": "ann\n{}", "client": "10.0.0.7:1", "keyspaces": ["bank"],
            "statement": entry.statement, "outcome": "error", "error": "it\nfailed", "lost": 3,
        });
        assert_eq!(object, expected);
    }

    #[test]
    fn lines_are_those_of_the_page() {
        const PAGE: &str = include_str!("../../../../docs/security.md");
        let login = AuditEntry {
            category: AuditCategory::Login,
            operation: "LOGIN",
            user: Some("ann".into()),
            client: "10.0.0.7:50312".to_owned(),
            keyspaces: Vec::new(),
            statement: String::new(),
            error: Some("the user or the password is wrong".to_owned()),
        };
        let ddl = AuditEntry {
            category: AuditCategory::Ddl,
            operation: "CREATE TABLE",
            client: "10.0.0.7:50314".to_owned(),
            keyspaces: vec!["bank".to_owned()],
            statement: "CREATE TABLE bank.t (k int PRIMARY KEY)".to_owned(),
            error: None,
            ..login.clone()
        };
        for (time, entry) in
            [("2026-03-02T10:16:47.120344Z", login), ("2026-03-02T10:16:49.003115Z", ddl)]
        {
            let time: DateTime<chrono::Utc> = time.parse().unwrap();
            let line = line(WallTime(time.timestamp_micros()), &entry, 0);
            assert!(PAGE.contains(&line), "{line}");
        }
    }
}
