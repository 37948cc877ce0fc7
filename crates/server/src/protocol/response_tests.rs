use carnet_cql::result::{ChangeKind, ChangeTarget, ColumnSpec};
use carnet_data::DataType;
use std::fmt::Write as _;
use std::net::SocketAddr;

use super::*;
use crate::protocol::encoder::Encoding;
use crate::protocol::error::{ErrorCode, ErrorDetail, Replies, WriteType};
use crate::protocol::frame::flags;
use crate::protocol::types::Consistency;

/// Expected encoding of the responses below, one per line: name, version, opcode, body in hex. A
/// stock driver has decoded every line to the value of its name.
const GOLDEN: &str = include_str!("../../tests/recorded/responses.txt");

fn columns() -> Columns {
    Columns::from(vec![
        ColumnSpec::new("ks", "t", "id", DataType::Int),
        ColumnSpec::new("ks", "t", "tags", DataType::set(DataType::Text)),
    ])
}

fn rows(paging_state: Option<&'static [u8]>) -> Rows {
    Rows {
        columns: columns(),
        rows: vec![
            vec![Some(Bytes::from_static(&[0, 0, 0, 7])), None],
            vec![
                Some(Bytes::from_static(&[0, 0, 0, 8])),
                Some(Bytes::from_static(&[0, 0, 0, 1, 0, 0, 0, 1, b'x'])),
            ],
        ]
        .into(),
        paging_state: paging_state.map(Bytes::from_static),
    }
}

fn error(detail: ErrorDetail) -> Response {
    Response::Error(ErrorResponse { detail, message: "why".into(), payload: Vec::new() })
}

fn change(kind: ChangeKind, target: ChangeTarget) -> SchemaChange {
    SchemaChange { kind, keyspace: "ks".into(), target }
}

fn results() -> Vec<(&'static str, Response)> {
    let two_tables = Rows {
        columns: Columns::from(vec![
            ColumnSpec::new("ks", "t", "a", DataType::Bigint),
            ColumnSpec::new("ks", "u", "b", DataType::map(DataType::Text, DataType::Double)),
        ]),
        rows: vec![vec![None, None]].into(),
        paging_state: None,
    };
    let prepared = Prepared {
        id: Bytes::from_static(b"\x01\x02\x03"),
        markers: Columns::from(vec![ColumnSpec::new("ks", "t", "id", DataType::Int)]),
        partition_key: vec![0],
        result: columns(),
    };
    let without_rows = Prepared { result: Columns::default(), ..prepared.clone() };
    let without_markers =
        Prepared { markers: Columns::default(), partition_key: Vec::new(), ..prepared.clone() };
    vec![
        ("ready", Response::Ready),
        ("authenticate", Response::Authenticate("org.apache.cassandra.auth.PasswordAuthenticator")),
        ("auth_success", Response::AuthSuccess),
        (
            "supported",
            Response::Supported(vec![("CQL_VERSION", vec!["3.4.7"]), ("COMPRESSION", vec!["lz4"])]),
        ),
        ("void", Response::Void),
        ("rows", Response::Rows(rows(None), MetadataForm::Full)),
        ("rows_paged", Response::Rows(rows(Some(b"next")), MetadataForm::Full)),
        ("rows_skipped", Response::Rows(rows(Some(b"next")), MetadataForm::Skipped)),
        ("rows_changed", Response::Rows(rows(None), MetadataForm::Changed)),
        ("rows_two_tables", Response::Rows(two_tables, MetadataForm::Full)),
        ("set_keyspace", Response::SetKeyspace("ks".into())),
        ("prepared", Response::Prepared(prepared)),
        ("prepared_without_rows", Response::Prepared(without_rows)),
        ("prepared_without_markers", Response::Prepared(without_markers)),
        (
            "created_keyspace",
            Response::SchemaChange(change(ChangeKind::Created, ChangeTarget::Keyspace)),
        ),
        (
            "dropped_table",
            Response::SchemaChange(change(ChangeKind::Dropped, ChangeTarget::Table("t".into()))),
        ),
        (
            "event_updated_type",
            Response::Event(Event::Schema(change(
                ChangeKind::Updated,
                ChangeTarget::Type("u".into()),
            ))),
        ),
        (
            "event_new_node",
            Response::Event(Event::Topology { is_new: true, address: at("10.0.0.9:9042") }),
        ),
        (
            "event_removed_node",
            Response::Event(Event::Topology { is_new: false, address: at("[::1]:1") }),
        ),
        ("event_up", Response::Event(Event::Status { is_up: true, address: at("10.0.0.9:9042") })),
        ("event_down", Response::Event(Event::Status { is_up: false, address: at("[::1]:1") })),
    ]
}

fn at(address: &str) -> SocketAddr {
    address.parse().unwrap()
}

fn errors() -> Vec<(&'static str, Response)> {
    let replies = Replies { consistency: Consistency::LocalQuorum, received: 1, required: 2 };
    let failures = vec![("127.0.0.1".parse().unwrap(), 1), ("::1".parse().unwrap(), 2)];
    let plain = [
        ErrorCode::Server,
        ErrorCode::Protocol,
        ErrorCode::Authentication,
        ErrorCode::Overloaded,
        ErrorCode::Syntax,
        ErrorCode::Unauthorized,
        ErrorCode::Invalid,
        ErrorCode::Config,
    ];
    let mut all: Vec<_> =
        plain.map(|code| (code.name(), error(ErrorDetail::Plain(code)))).into_iter().collect();
    all.extend([
        ("unavailable", error(ErrorDetail::Unavailable(replies))),
        (
            "write_timeout",
            error(ErrorDetail::WriteTimeout { replies, write_type: WriteType::Simple }),
        ),
        (
            "write_timeout_cas",
            error(ErrorDetail::WriteTimeout { replies, write_type: WriteType::Cas }),
        ),
        ("read_timeout", error(ErrorDetail::ReadTimeout { replies, data_present: true })),
        (
            "read_failure",
            error(ErrorDetail::ReadFailure {
                replies,
                failures: failures.clone(),
                data_present: false,
            }),
        ),
        (
            "function_failure",
            error(ErrorDetail::FunctionFailure {
                keyspace: "ks".into(),
                function: "f".into(),
                argument_types: vec!["int".into(), "text".into()],
            }),
        ),
        (
            "write_failure",
            error(ErrorDetail::WriteFailure { replies, failures, write_type: WriteType::Batch }),
        ),
        ("cas_write_unknown", error(ErrorDetail::CasWriteUnknown(replies))),
        (
            "already_exists",
            error(ErrorDetail::AlreadyExists { keyspace: "ks".into(), table: "t".into() }),
        ),
        ("unprepared", error(ErrorDetail::Unprepared { id: Bytes::from_static(b"\x01\x02") })),
    ]);
    all
}

#[test]
fn responses_have_golden_bytes_in_both_versions() {
    let mut lines = String::new();
    for (name, response) in results().into_iter().chain(errors()) {
        for version in [Version::V4, Version::V5] {
            // Only v5 can report changed columns.
            if name == "rows_changed" && version == Version::V4 {
                continue;
            }
            let (number, opcode) = (version.number(), response.opcode() as u8);
            let body = response.clone().encode(version, Notes::default()).unwrap();
            write!(lines, "{name} {number} {opcode} ").unwrap();
            for byte in body {
                write!(lines, "{byte:02x}").unwrap();
            }
            lines.push('\n');
        }
    }
    for (found, want) in lines.lines().zip(GOLDEN.lines()) {
        assert_eq!(found, want);
    }
    assert_eq!(lines.lines().count(), GOLDEN.lines().count(), "all are:\n{lines}");
}

#[test]
fn warnings_come_before_the_body() {
    let warnings = ["careful".into(), "slow".into()];
    let notes = Notes { warnings: &warnings, ..Notes::default() };
    let body = Response::Void.encode(Version::V4, notes).unwrap();
    assert_eq!(body, b"\0\x02\0\x07careful\0\x04slow\0\0\0\x01"[..]);
}

#[test]
fn payload_of_an_error_follows_the_warnings() {
    let payload = vec![("retry_after_ms", "12".to_owned())];
    let error = ErrorResponse { payload, ..ErrorResponse::plain(ErrorCode::Overloaded, "later") };
    let response = Response::Error(error);
    let notes = Notes { warnings: &["slow".into()], ..Notes::default() };
    let body = response.clone().encode(Version::V4, notes).unwrap();
    let payload = b"\0\x01\0\x04slow\0\x01\0\x0eretry_after_ms\0\0\0\x0212";
    assert_eq!(body[..payload.len()], payload[..], "after the warnings");
    assert_eq!(body[payload.len()..], b"\0\0\x10\x01\0\x05later"[..]);
    let frame =
        Encoding { version: Version::V4, lz4: false }.frame(1, response, Notes::default()).unwrap();
    assert_eq!(frame[1], flags::CUSTOM_PAYLOAD);
}

#[test]
fn columns_are_described_unless_the_client_knows_them() {
    let columns = columns();
    let id = *encoded(&columns).unwrap().id();
    let choose = |skip, known| MetadataForm::choose(skip, known, &columns);
    assert_eq!(choose(false, None), MetadataForm::Full);
    // Over v4 the server cannot tell what the client knows.
    assert_eq!(choose(true, None), MetadataForm::Full);
    assert_eq!(choose(true, Some(&id[..])), MetadataForm::Skipped);
    assert_eq!(choose(false, Some(&id[..])), MetadataForm::Full);
    // A client that would decode the rows with other columns is told so, whatever it requested.
    assert_eq!(choose(true, Some(b"older...")), MetadataForm::Changed);
}

#[test]
fn oversized_response_is_an_error() {
    let response = Response::SetKeyspace("k".repeat(70_000));
    assert!(response.encode(Version::V5, Notes::default()).is_err());
}
