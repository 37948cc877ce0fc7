//! Tests of the decoding of statements.

use carnet_cql::ast::BatchKind;
use carnet_cql::{Bound, Values};

use super::*;
use crate::protocol::statement::{BatchStatement, QueryParams};

fn head(version: Version, opcode: Opcode, body: &'static [u8]) -> Result<StatementHead> {
    StatementHead::read(BodyReader::new(Bytes::from_static(body)), version, opcode)
}

fn read(version: Version, opcode: Opcode, body: &'static [u8]) -> Result<Statement> {
    head(version, opcode, body)?.decode()
}

fn statement(version: Version, opcode: Opcode, body: &'static [u8]) -> Statement {
    read(version, opcode, body).unwrap()
}

#[test]
fn v4_query_with_every_parameter_is_decoded() {
    let body = b"\0\0\0\x01q\0\x06\x3f\0\x02\0\0\0\x01v\xff\xff\xff\xff\0\0\0\x64\
        \0\0\0\x02ps\0\x08\0\0\0\0\0\0\0\x2a";
    let Statement::Query { text, params } = statement(Version::V4, Opcode::Query, body) else {
        panic!("a query");
    };
    assert_eq!(text, "q");
    let want = QueryParams {
        consistency: Consistency::LocalQuorum,
        values: Values::Positional(vec![Bound::Bytes(Bytes::from_static(b"v")), Bound::Null]),
        skip_metadata: true,
        page_size: Some(100),
        paging_state: Some(Bytes::from_static(b"ps")),
        serial_consistency: Some(Consistency::Serial),
        timestamp: Some(42),
        keyspace: None,
        now_in_seconds: None,
    };
    assert_eq!(params, want);
}

#[test]
fn v5_execute_with_names_keyspace_and_now_is_decoded() {
    let body = b"\0\x02id\0\x02md\0\x01\0\0\x01\xc1\0\x01\0\x01n\xff\xff\xff\xfe\
        \0\x02ks\0\0\0\x07";
    let Statement::Execute { id, result_id, params } =
        statement(Version::V5, Opcode::Execute, body)
    else {
        panic!("an execute");
    };
    assert_eq!((id, result_id), (Bytes::from_static(b"id"), Some(Bytes::from_static(b"md"))));
    assert_eq!(params.values, Values::Named(vec![("n".into(), Bound::Unset)]));
    assert_eq!(params.keyspace.as_deref(), Some("ks"));
    assert_eq!(params.now_in_seconds, Some(7));
}

#[test]
fn batch_of_text_and_prepared_is_decoded() {
    let body = b"\x01\0\x02\0\0\0\0\x01q\0\x01\0\0\0\x01v\x01\0\x02id\0\0\0\x01\x20\
        \0\0\0\0\0\0\0\x05";
    let Statement::Batch(batch) = statement(Version::V4, Opcode::Batch, body) else {
        panic!("a batch");
    };
    assert_eq!(batch.kind, BatchKind::Unlogged);
    assert_eq!(batch.items.len(), 2);
    assert_eq!(batch.items[0].statement, BatchStatement::Text("q".into()));
    assert_eq!(batch.items[0].values, [Bound::Bytes(Bytes::from_static(b"v"))]);
    assert_eq!(batch.items[1].statement, BatchStatement::Prepared(Bytes::from_static(b"id")));
    assert_eq!(batch.params.timestamp, Some(5));
}

#[test]
fn prepare_has_flags_in_v5_only() {
    let want = |keyspace: Option<&str>| Statement::Prepare {
        text: "q".into(),
        keyspace: keyspace.map(Into::into),
    };
    let v4 = statement(Version::V4, Opcode::Prepare, b"\0\0\0\x01q");
    assert_eq!(v4, want(None));
    let v5 = statement(Version::V5, Opcode::Prepare, b"\0\0\0\x01q\0\0\0\x01\0\x02ks");
    assert_eq!(v5, want(Some("ks")));
}

#[test]
fn malformed_requests_are_refused() {
    let refused =
        |version, opcode, body: &'static [u8]| read(version, opcode, body).unwrap_err().to_string();
    let query = |body| refused(Version::V4, Opcode::Query, body);
    assert!(query(b"\0\0\0\x01q\0\x0b\0").contains("0x000b is not a consistency"));
    assert!(query(b"\0\0\0\x01q\0\x01\x80").contains("flags 0x80"));
    assert!(query(b"\0\0\0\x01\xff\0\x01\0").contains("UTF-8"));
    assert!(query(b"\xff\xff\xff\xff").contains("-1 bytes"));
    assert!(query(b"\0\0\0\x01q\0\x01\x01\xff\xff").contains("65535 items"));
    let batch = |body| refused(Version::V4, Opcode::Batch, body);
    assert!(batch(b"\x03").contains("kind 3"));
    assert!(batch(b"\0\0\x01\x02\0\0\0\0").contains("not 2"));
    assert!(batch(b"\0\0\0\0\x01\x40").contains("flags 0x40"));
}

/// An int, a null, a list of three elements and a truncated value.
const VALUES: &[u8] =
    b"\0\x04\0\0\0\x04\0\0\0\x09\xff\xff\xff\xff\0\0\0\x0a\0\0\0\x03------\0\0\0\x63";

fn lens(version: Version, front: &[u8]) -> [Option<usize>; 5] {
    let body = Bytes::from([front, VALUES].concat());
    let head = StatementHead::read(BodyReader::new(body), version, Opcode::Execute).unwrap();
    let Peek::Execute { id, values } = head.peek() else { panic!("an execute") };
    assert_eq!(id, b"id");
    [0, 1, 2, 3, 4].map(|index| values.list_len(index))
}

#[test]
fn lengths_of_bound_lists_are_known_before_they_are_decoded() {
    let expected = [Some(9), None, Some(3), None, None];
    assert_eq!(lens(Version::V4, b"\0\x02id\0\x01\x01"), expected);
    assert_eq!(lens(Version::V5, b"\0\x02id\0\x02md\0\x01\0\0\0\x01"), expected);
    let named = lens(Version::V4, b"\0\x02id\0\x01\x41");
    assert_eq!(named, [None; 5], "values by name are not examined");
    assert_eq!(lens(Version::V4, b"\0\x02id\0\x01\0"), [None; 5], "no values");
}

#[test]
fn admission_needs_no_valid_rest() {
    for (opcode, body, peek) in [
        (Opcode::Query, &b"\0\0\0\x08SELECT 1"[..], Peek::Query("SELECT 1")),
        (Opcode::Query, b"\0\0\0\x07SELECT\xff", Peek::Query("SELECT")),
        (Opcode::Prepare, b"\0\0\0\x01\xff", Peek::Prepare),
        (Opcode::Batch, b"\x03", Peek::Batch),
    ] {
        let head = head(Version::V4, opcode, body).unwrap();
        assert_eq!(head.peek(), peek);
        assert!(head.decode().is_err(), "{body:?}");
    }
}

#[test]
fn malformed_heads_are_refused() {
    for (opcode, body) in [
        (Opcode::Query, &b"\0\0\0\x09SELECT 1"[..]),
        (Opcode::Query, b"\xff\xff\xff\xff"),
        (Opcode::Execute, b"\0\x03id"),
        (Opcode::Execute, b"\0"),
        (Opcode::Execute, b"\0\x02id\0\x01\x80"),
        (Opcode::Startup, b"\0\0"),
    ] {
        assert!(head(Version::V4, opcode, body).is_err(), "{body:?}");
    }
}

#[test]
fn long_text_is_cut_at_a_character() {
    let long = "é".repeat(TEXT_LEN_MAX);
    let len = |text| match Peek::of_text(text) {
        Peek::Query(text) => text.len(),
        _ => usize::MAX,
    };
    assert_eq!(len(long.as_bytes()), TEXT_LEN_MAX);
    assert_eq!(len(&long.as_bytes()[1..]), 0);
}
