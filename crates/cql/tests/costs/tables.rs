//! Table with large values, a partition for each kind.
//!
//! | `k` | rows |
//! | --- | --- |
//! | 1 | numbers of 2 MiB, numbers that arithmetic just takes, and decimals of extreme scales |
//! | 2 | collections of [`ELEMENTS`] elements |
//! | 3 | 24 rows with a text of 1 MiB |
//! | 4 | 4,000 small rows |
//! | 5 | values of deep types |
//! | 6 | 100 rows with a vector and a blob of 64 KiB |

use std::fmt::Write as _;
use std::sync::Arc;

use carnet::{DataType, Value};
use carnet_data::{BigInt, Composite};

use super::client::Client;

/// Number of elements of the largest collections.
pub(crate) const ELEMENTS: i32 = 100_000;

/// Number of nested types, each with two fields of the one before.
pub(crate) const TYPES: usize = 8;

pub(crate) fn fill(client: &Client) {
    let run = |text: &str| drop(client.run(text).unwrap_or_else(|e| panic!("{text:.200}: {e}")));
    run("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy'}");
    run("USE ks");
    run("CREATE TYPE ty0 (a text, b text)");
    for at in 1..TYPES {
        run(&format!("CREATE TYPE ty{at} (a frozen<ty{0}>, b frozen<ty{0}>)", at - 1));
    }
    run(&format!(
        "CREATE TABLE t (k int, c int, st text static, i int, n varint, d decimal, tx text, b blob, \
         l list<int>, s set<text>, m map<text, int>, fl frozen<list<int>>, \
         ml map<int, frozen<list<text>>>, u frozen<ty{}>, v vector<float, 4>, PRIMARY KEY (k, c))",
        TYPES - 1
    ));
    numbers(client);
    collections(client);
    rows(client);
    run(&format!("INSERT INTO t (k, c, u) VALUES (5, 0, {})", nested(TYPES)));
}

fn numbers(client: &Client) {
    let insert = "INSERT INTO t (k, c, i, n, d) VALUES (1, ?, ?, ?, ?)";
    let (long, short) = (16_000_000_u32, 100_000);
    let numbers = [(long, 3), (short, 0), (short, 20_000), (3, i32::MAX), (3, i32::MIN)];
    for (row, (bits, scale)) in (0..).zip(numbers) {
        let number = (BigInt::from(1) << bits) + BigInt::from(1);
        let decimal = Value::Decimal { unscaled: number.clone(), scale };
        client.insert(insert, &[Value::Int(row), Value::Int(row), Value::Varint(number), decimal]);
    }
}

fn collections(client: &Client) {
    let of = |data_type: DataType, parts: Vec<Value>| {
        let parts = parts.into_iter().map(Some).collect();
        Value::Composite(Composite::new(data_type, parts).unwrap())
    };
    let text_list = DataType::List(Arc::new(DataType::Text));
    let numbers =
        of(DataType::List(Arc::new(DataType::Int)), (0..ELEMENTS).map(Value::Int).collect());
    let text = |at: i32| Value::Text(format!("element {at}"));
    let half = ELEMENTS / 2;
    let texts: Vec<Value> = (0..half).map(text).collect();
    let list = of(text_list.clone(), texts[..200].to_vec());
    let map = (0..half).flat_map(|at| [text(at), Value::Int(at)]).collect();
    let lists = (0..200).flat_map(|at| [Value::Int(at), list.clone()]).collect();
    for (c, column, value) in [
        (0, "l", numbers.clone()),
        (0, "fl", numbers),
        (1, "s", of(DataType::Set(Arc::new(DataType::Text)), texts)),
        (1, "m", of(DataType::Map(Arc::new((DataType::Text, DataType::Int))), map)),
        (1, "ml", of(DataType::Map(Arc::new((DataType::Int, text_list))), lists)),
    ] {
        client.insert(&format!("INSERT INTO t (k, c, {column}) VALUES (2, {c}, ?)"), &[value]);
    }
}

fn rows(client: &Client) {
    let long = Value::Text("x".repeat(1 << 20));
    client.insert("INSERT INTO t (k, st) VALUES (3, ?)", std::slice::from_ref(&long));
    for c in 0..24 {
        client.insert(
            &format!("INSERT INTO t (k, c, tx) VALUES (3, {c}, ?)"),
            std::slice::from_ref(&long),
        );
    }
    for first in (0..4_000).step_by(100) {
        let mut batch = "BEGIN BATCH ".to_owned();
        for c in first..first + 100 {
            write!(batch, "INSERT INTO t (k, c, i, n, d, tx, l, v) VALUES (4, {c}, {c}, {c}, {c}.5, 'text', [1, 2], [1, {c}, 0, 0]);").unwrap();
        }
        batch += " APPLY BATCH";
        drop(client.run(&batch).unwrap());
    }
    let blob = Value::Blob(vec![7; 64 << 10].into());
    for c in 0..100 {
        let insert =
            format!("INSERT INTO t (k, c, v, b) VALUES (6, {c}, [1, {}, 0, 0], ?)", c % 16);
        client.insert(&insert, std::slice::from_ref(&blob));
    }
}

/// Returns the literal of a value of nested types.
fn nested(depth: usize) -> String {
    if depth == 0 {
        return "'x'".to_owned();
    }
    let part = nested(depth - 1);
    format!("{{a: {part}, b: {part}}}")
}
