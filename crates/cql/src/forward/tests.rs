//! Round trips of all messages, and damaged ones.

use std::sync::Arc;
use std::time::Duration;

use carnet::{Bytes, DataType, Timestamp, Uuid, WallTime};
use carnet_data::{TypeReference, UserType};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::kinds::{ROWS, VERSION};
use super::*;
use crate::ast::BatchKind;
use crate::bound::Bound;
use crate::cql_error::{CqlError, CqlErrorKind};
use crate::result::{ColumnSpec, Response, Rows};

fn bytes() -> impl Strategy<Value = Bytes> {
    vec(any::<u8>(), 0..20).prop_map(Bytes::from)
}

fn text() -> impl Strategy<Value = String> {
    ".{0,8}"
}

fn micros() -> impl Strategy<Value = Duration> {
    any::<u64>().prop_map(Duration::from_micros)
}

fn statement() -> impl Strategy<Value = Statement> {
    let value = prop_oneof![Just(Bound::Null), Just(Bound::Unset), bytes().prop_map(Bound::Bytes)];
    let table = (option::of(text()), text(), any::<u32>(), any::<u32>());
    let preparation =
        (any::<[u8; 32]>(), vec(table, 0..3)).prop_map(|(id, tables)| Preparation { id, tables });
    (text(), option::of(text()), vec(value, 0..4), option::of(preparation)).prop_map(
        |(text, keyspace, values, preparation)| Statement { text, keyspace, values, preparation },
    )
}

fn task() -> impl Strategy<Value = Task> {
    let time = || option::of(any::<i64>().prop_map(WallTime));
    let kind =
        prop_oneof![Just(BatchKind::Logged), Just(BatchKind::Unlogged), Just(BatchKind::Counter)];
    prop_oneof![
        (statement(), option::of(any::<u64>()), option::of(bytes()), time()).prop_map(
            |(statement, page_rows, paging_state, now)| Task::Statement {
                statement,
                page_rows,
                paging_state,
                now
            }
        ),
        (kind, vec(statement(), 0..4), time()).prop_map(|(kind, statements, now)| Task::Batch {
            kind,
            statements,
            now
        }),
        Just(Task::Cancel),
        Just(Task::Transactions),
    ]
}

fn request() -> impl Strategy<Value = Request> {
    let address = option::of(any::<std::net::IpAddr>());
    let caller = (text(), option::of(text()), any::<bool>(), address).prop_map(
        |(name, user, is_role, address)| {
            let is_role = is_role && user.is_some();
            Caller { name, user, is_role, address }
        },
    );
    (any::<u64>(), any::<u128>(), caller, option::of(micros()), task()).prop_map(
        |(call, transaction, caller, left, task)| Request {
            call,
            transaction: Uuid::from_u128(transaction),
            caller,
            left,
            task,
        },
    )
}

fn data_type() -> impl Strategy<Value = DataType> {
    let scalar = proptest::sample::select(DataType::SCALARS.to_vec());
    scalar.prop_recursive(3, 12, 3, |part| {
        prop_oneof![
            part.clone().prop_map(DataType::list),
            part.clone().prop_map(DataType::set),
            (part.clone(), part.clone()).prop_map(|(key, value)| DataType::map(key, value)),
            (part.clone(), 1_u16..).prop_map(|(element, length)| DataType::vector(element, length)),
            vec(part.clone(), 1..3).prop_map(DataType::tuple),
            (text(), text(), vec((text(), part), 1..3)).prop_map(|(keyspace, name, fields)| {
                DataType::Udt(Arc::new(UserType {
                    keyspace,
                    name,
                    fields,
                    reference: TypeReference::default(),
                    keys: carnet_data::FieldKeys::Open,
                }))
            }),
        ]
    })
}

fn rows() -> impl Strategy<Value = Rows> {
    let column =
        (text(), text(), text(), data_type()).prop_map(|(keyspace, table, name, data_type)| {
            ColumnSpec { keyspace, table, name, data_type }
        });
    (vec(column, 1..4), option::of(bytes())).prop_flat_map(|(columns, paging_state)| {
        let row = vec(option::of(bytes()), columns.len());
        vec(row, 0..4).prop_map(move |rows| Rows {
            columns: columns.clone().into(),
            rows: rows.into(),
            paging_state: paging_state.clone(),
        })
    })
}

fn kind() -> impl Strategy<Value = CqlErrorKind> {
    let plain = [
        CqlErrorKind::Invalid,
        CqlErrorKind::Protocol,
        CqlErrorKind::Unauthorized,
        CqlErrorKind::Config,
        CqlErrorKind::Unsupported,
        CqlErrorKind::Conflict,
        CqlErrorKind::Aborted,
        CqlErrorKind::Raised,
        CqlErrorKind::Timeout,
        CqlErrorKind::Unavailable,
        CqlErrorKind::Corrupted,
    ];
    let start = (0..u64::MAX / 2).prop_map(|start| Timestamp::new(start).unwrap());
    prop_oneof![
        proptest::sample::select(plain.to_vec()),
        (any::<usize>(), any::<usize>())
            .prop_map(|(line, column)| CqlErrorKind::Syntax { line, column }),
        any::<[u8; 32]>().prop_map(|id| CqlErrorKind::Unprepared { id }),
        (text(), option::of(text()))
            .prop_map(|(keyspace, table)| CqlErrorKind::AlreadyExists { keyspace, table }),
        (text(), text(), vec(text(), 0..3)).prop_map(|(keyspace, function, argument_types)| {
            CqlErrorKind::FunctionFailure { keyspace, function, argument_types }
        }),
        micros().prop_map(|retry_after| CqlErrorKind::Overloaded { retry_after }),
        start.prop_map(|start| CqlErrorKind::Unknown { start }),
    ]
}

fn answer() -> impl Strategy<Value = Answer> {
    let result = prop_oneof![
        Just(Ok(Response::Void)),
        rows().prop_map(|rows| Ok(Response::Rows(rows))),
        (kind(), text()).prop_map(|(kind, message)| Err(CqlError::new(kind, message))),
    ];
    prop_oneof![
        Just(Answer::NotHeld),
        text().prop_map(Answer::Refused),
        (result, vec(text(), 0..3))
            .prop_map(|(result, warnings)| Answer::Done { result, warnings }),
    ]
}

proptest! {
    #[test]
    fn requests_round_trip(request in request()) {
        let bytes = request.encode();
        prop_assert_eq!(Request::decode(bytes), Ok(request));
    }

    #[test]
    fn answers_round_trip(answer in answer()) {
        let bytes = answer.encode();
        prop_assert_eq!(Answer::decode(bytes), Ok(answer));
    }

    #[test]
    fn shortened_and_lengthened_messages_are_refused(request in request(), answer in answer()) {
        let (request, answer) = (request.encode(), answer.encode());
        for cut in 0..request.len() {
            prop_assert!(Request::decode(request.slice(..cut)).is_err());
        }
        for cut in 0..answer.len() {
            prop_assert!(Answer::decode(answer.slice(..cut)).is_err());
        }
        let longer = |bytes: &Bytes| Bytes::from([bytes, &[0][..]].concat());
        prop_assert!(Request::decode(longer(&request)).is_err());
        prop_assert!(Answer::decode(longer(&answer)).is_err());
    }

    #[test]
    fn accepted_bytes_are_encoded_alike(content in vec(any::<u8>(), 0..80)) {
        let bytes = Bytes::from([&[VERSION][..], &content].concat());
        if let Ok(request) = Request::decode(bytes.clone()) {
            prop_assert_eq!(request.encode(), bytes.clone());
        }
        if let Ok(answer) = Answer::decode(bytes.clone()) {
            prop_assert_eq!(answer.encode(), bytes);
        }
    }
}

#[test]
fn other_versions_are_named() {
    let mut bytes = Answer::NotHeld.encode().to_vec();
    bytes[0] = 9;
    let malformed = Answer::decode(bytes.clone().into()).unwrap_err();
    assert_eq!(malformed, Malformed::Version(9));
    assert_eq!(Request::decode(bytes.into()), Err(Malformed::Version(9)));
    assert!(malformed.to_string().contains("version 9"), "{malformed}");
}

#[test]
fn long_lists_and_deep_types_are_refused_before_memory_is_taken() {
    // Kind `rows`, and a list of 4 billion columns.
    let columns = [VERSION, ROWS, 0xff, 0xff, 0xff, 0xff, 0];
    assert!(Answer::decode(Bytes::copy_from_slice(&columns)).is_err());
    // No columns, and 4 billion rows.
    let rows = [VERSION, ROWS, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0];
    assert!(Answer::decode(Bytes::copy_from_slice(&rows)).is_err());
    let head = [VERSION, ROWS, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let deep = [&head[..], &[0, 0x20].repeat(1 << 20)].concat();
    assert_eq!(Answer::decode(deep.into()), Err(Malformed::Bytes("a type is too deep")));
}
