//! Table of errors in the documents.

use std::time::Duration;

use bytes::Bytes;
use carnet_base::ErrorKind;

use crate::failure::{Failure, FailureKind};
use crate::protocol::Version;
use crate::protocol::types::Consistency;

/// Page with the table, between two comments.
const PAGE: &str = include_str!("../../../docs/cql.md");
const BEGIN: &str = "<!-- errors: made of crates/server/src/failure_docs.rs -->\n";
const END: &str = "<!-- end of errors -->";

struct Described {
    kind: FailureKind,
    cause: &'static str,
    action: &'static str,
}

fn described() -> Vec<Described> {
    let overloaded = || FailureKind::Overloaded { retry_after: Duration::from_millis(1) };
    let rows: [(FailureKind, &str, &str); 22] = [
        (
            FailureKind::Conflict,
            "the statement lost to another transaction 64 times in a row, although it [waited for its \
             turn](design/0013-turns.md); nothing was written",
            "run it again after `retry_after_ms`",
        ),
        (
            FailureKind::Aborted,
            "a transaction that stays open [has ended](#transactions-that-stay-open) without effect",
            "run it again from its start, after `retry_after_ms`",
        ),
        (FailureKind::Raised, "a transaction ended by `RAISE`, with this text", ""),
        (
            overloaded(),
            "the server is overloaded, and the [service level or the client asks for \
             refusals](overload.md#path-of-a-statement); nothing was done",
            "try again after `retry_after_ms`",
        ),
        (
            overloaded(),
            "the server has no memory for the request or the answer, or as many open transactions as it \
             may; nothing was done",
            "try again after `retry_after_ms`",
        ),
        (
            FailureKind::Timeout,
            "the statement [timed out](overload.md#path-of-a-statement) before it wrote anything",
            "try again; a longer timeout",
        ),
        (
            FailureKind::Killed,
            "[`KILL STATEMENT`](#running-statements) ended the statement before it wrote anything",
            "",
        ),
        (
            FailureKind::Unknown,
            "the effect of the statement is unknown",
            "check the effect before trying again",
        ),
        (
            FailureKind::Unavailable,
            "the store cannot be reached or written; the message says why; nothing was written",
            "try again after `retry_after_ms`",
        ),
        (
            FailureKind::Unprepared { id: Bytes::new() },
            "a table of the prepared statement changed, or the statement was evicted \
             ([limits](limits.md))",
            "drivers prepare it again automatically",
        ),
        (
            FailureKind::FunctionFailure {
                keyspace: String::new(),
                function: String::new(),
                argument_types: Vec::new(),
            },
            "a function of values failed: an integer was divided by zero",
            "change the values",
        ),
        (
            FailureKind::Syntax,
            "the text is not CQL, or sets an unknown option of a keyspace or table, or one to a value of \
             another type",
            "change the text",
        ),
        (
            FailureKind::Unauthorized,
            "the statement would change a system keyspace; another user started the transaction; the [role](roles.md) lacks \
             a permission, or was dropped; the user is not in the users file any more",
            "",
        ),
        (
            FailureKind::Protocol,
            "the paging state is unknown",
            "start the query again; some drivers close the connection",
        ),
        (
            FailureKind::Invalid,
            "the statement does not match the existing tables; the type, index or service level to \
             create exists already; an option of a service level is unknown or has a value that it \
             cannot have; a keyspace with `LocalStrategy`",
            "change the statement",
        ),
        (FailureKind::Invalid, "the statement is not supported yet", "change the statement"),
        (
            FailureKind::Invalid,
            "the moment of `AS OF` or of the next page is older than the retention; the message names \
             the oldest moment that can be read",
            "name a later moment; begin the query anew",
        ),
        (
            FailureKind::Invalid,
            "a value, a key or a number of things is beyond a [limit](limits.md)",
            "change the values",
        ),
        (
            FailureKind::Invalid,
            "the transaction is not open, or runs another statement",
            "see [there](#transactions-that-stay-open)",
        ),
        (
            FailureKind::Config,
            "an option of a keyspace or table has a value that it cannot have",
            "change the value",
        ),
        (
            FailureKind::AlreadyExists { keyspace: String::new(), table: String::new() },
            "the keyspace, table or view to create exists already",
            "",
        ),
        (
            FailureKind::Server,
            "stored bytes are damaged, or the server failed; its log says where",
            "look at the log",
        ),
    ];
    let rows = rows.into_iter();
    rows.map(|(kind, cause, action)| Described { kind, cause, action }).collect()
}

/// Returns the kind of the Rust API that becomes a kind of failure.
const fn in_rust(kind: &FailureKind) -> &'static str {
    match kind {
        FailureKind::Conflict => "`Conflict`, `TooOld`",
        FailureKind::Aborted | FailureKind::Raised => "`Aborted`",
        FailureKind::Overloaded { .. } => "`Overloaded`",
        FailureKind::Timeout => "`Timeout`",
        FailureKind::Killed => "`Aborted`",
        FailureKind::Unknown => "`Unknown`",
        FailureKind::Unavailable => "`Unavailable`",
        FailureKind::Invalid => "`Invalid`, `Unsupported`, `TooOld`",
        FailureKind::AlreadyExists { .. } => "`AlreadyExists`",
        FailureKind::Server => "`Corrupted`",
        FailureKind::Unprepared { .. }
        | FailureKind::FunctionFailure { .. }
        | FailureKind::Syntax
        | FailureKind::Unauthorized
        | FailureKind::Protocol
        | FailureKind::Config => "",
    }
}

fn code(kind: &FailureKind) -> String {
    let code = |version| {
        let response = Failure::new(kind.clone(), "").into_response(Consistency::One);
        response.code(version) as i32
    };
    match (code(Version::V5), code(Version::V4)) {
        (later, earlier) if later == earlier => format!("0x{later:04X}"),
        (later, earlier) => format!("v5: 0x{later:04X}; v4: 0x{earlier:04X} of a `CAS` write"),
    }
}

fn table() -> String {
    let mut lines = vec![
        "| cause | code | `carnet.error` | Rust API | action |".to_owned(),
        "| --- | --- | --- | --- | --- |".to_owned(),
    ];
    lines.extend(described().iter().map(|Described { kind, cause, action }| {
        let name = kind.name().map(|name| format!("`{name}`")).unwrap_or_default();
        let cells = [*cause, &code(kind), &name, in_rust(kind), action];
        let cells =
            cells.map(|cell| if cell.is_empty() { " |".into() } else { format!(" {cell} |") });
        format!("|{}", cells.concat())
    }));
    lines.join("\n") + "\n"
}

#[test]
fn table_of_errors_is_on_its_page() {
    let begin = PAGE.find(BEGIN).expect("the page has the table") + BEGIN.len();
    let found = &PAGE[begin..begin + PAGE[begin..].find(END).expect("the table has an end")];
    let table = table();
    assert!(found == table, "docs/cql.md needs this table of errors:\n{table}");
}

#[test]
fn every_kind_of_failure_is_described() {
    let described = described();
    let has = |kind: &FailureKind| {
        let same =
            |other: &Described| std::mem::discriminant(&other.kind) == std::mem::discriminant(kind);
        described.iter().any(same)
    };
    let start = carnet_base::Timestamp::ZERO;
    let overloaded = ErrorKind::Overloaded { retry_after: Duration::ZERO };
    for kind in [
        ErrorKind::Conflict,
        ErrorKind::Unknown { start },
        ErrorKind::TooOld,
        overloaded,
        ErrorKind::Timeout,
        ErrorKind::Invalid,
        ErrorKind::AlreadyExists,
        ErrorKind::Unsupported,
        ErrorKind::Aborted,
        ErrorKind::Unavailable,
        ErrorKind::Corrupted,
    ] {
        let failure = Failure::from(carnet_base::Error::new(kind, "why"));
        assert!(has(&failure.kind), "{kind:?}");
    }
}
