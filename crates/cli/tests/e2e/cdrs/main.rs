//! Values of every type, pages, batches and conditions through cdrs-tokio: cdrs PORT

use std::collections::HashMap;
use std::fmt::Debug;
use std::net::IpAddr;
use std::time::Duration;

use cdrs_tokio::cluster::session::{Session, SessionBuilder, TcpSessionBuilder};
use cdrs_tokio::cluster::{NodeTcpConfigBuilder, TcpConnectionManager};
use cdrs_tokio::frame::{TryFromRow, TryFromUdt};
use cdrs_tokio::load_balancing::RoundRobinLoadBalancingStrategy;
use cdrs_tokio::query::{BatchQueryBuilder, QueryValues};
use cdrs_tokio::query_values;
use cdrs_tokio::transport::TransportTcp;
use cdrs_tokio::types::blob::Blob;
use cdrs_tokio::types::decimal::Decimal;
use cdrs_tokio::types::list::List;
use cdrs_tokio::types::map::Map;
use cdrs_tokio::types::rows::Row;
use cdrs_tokio::types::tuple::Tuple;
use cdrs_tokio::types::udt::Udt;
use cdrs_tokio::types::value::{Bytes, Value};
use cdrs_tokio::types::{AsRustType, ByName, IntoRustByIndex, IntoRustByName};
use cdrs_tokio::{IntoCdrsValue, TryFromRow, TryFromUdt};
use chrono::{DateTime, Utc};
use num_bigint::BigInt;
use uuid::Uuid;

type Driver = Session<
    TransportTcp,
    TcpConnectionManager,
    RoundRobinLoadBalancingStrategy<TransportTcp, TcpConnectionManager>,
>;

#[derive(Clone, Debug, IntoCdrsValue, PartialEq, TryFromUdt)]
struct Place {
    x: i32,
    name: String,
}

#[derive(Clone, Debug, PartialEq, TryFromRow)]
struct Item {
    c: i32,
    text: String,
}

async fn rows(session: &Driver, query: &str) -> Vec<Row> {
    let answer = session.query(query).await.unwrap_or_else(|error| panic!("{query}: {error}"));
    answer.response_body().unwrap().into_rows().unwrap_or_default()
}

async fn run(session: &Driver, query: &str) {
    session.query(query).await.unwrap_or_else(|error| panic!("{query}: {error}"));
}

/// Stores values of a type and reads them.
async fn round_trip<T>(session: &Driver, data_type: &str, values: Vec<T>)
where
    T: Clone + Debug + Into<Bytes> + PartialEq,
    Row: IntoRustByName<T>,
{
    let name: String = data_type.chars().filter(char::is_ascii_alphanumeric).collect();
    let table = format!("ks.t_{name}");
    run(session, &format!("CREATE TABLE {table} (k int PRIMARY KEY, v {data_type})")).await;
    let insert = session.prepare(format!("INSERT INTO {table} (k, v) VALUES (1, ?)"));
    let insert = insert.await.unwrap();
    for value in values {
        let values = QueryValues::SimpleValues(vec![Value::new(value.clone())]);
        session.exec_with_values(&insert, values).await.unwrap();
        let found = rows(session, &format!("SELECT v FROM {table} WHERE k = 1")).await;
        let found: T = found[0].get_r_by_name("v").unwrap();
        assert_eq!(found, value, "{data_type}");
    }
}

async fn every_type(session: &Driver) {
    let strings = |values: &[&str]| values.iter().map(|value| (*value).to_owned()).collect();
    round_trip::<String>(session, "ascii", strings(&["", "a"])).await;
    round_trip(session, "bigint", vec![i64::MAX, -1]).await;
    round_trip(session, "blob", vec![Blob::from(vec![]), Blob::from(vec![0, 255])]).await;
    round_trip(session, "boolean", vec![true, false]).await;
    // Days, with 2^31 for 1970-01-01.
    round_trip(session, "date", vec![i32::MIN, 0, i32::MAX]).await;
    let decimal = |text: &str, scale| Decimal { unscaled: text.parse().unwrap(), scale };
    let decimals = vec![decimal("-150", 2), decimal("12345678901234567890123", 3)];
    round_trip(session, "decimal", decimals).await;
    round_trip(session, "double", vec![-1.5_f64, 1e300]).await;
    round_trip(session, "float", vec![-1.5_f32, 3.25]).await;
    let addresses: [IpAddr; 2] = ["127.0.0.1".parse().unwrap(), "2001:db8::ff".parse().unwrap()];
    round_trip(session, "inet", addresses.to_vec()).await;
    round_trip(session, "int", vec![i32::MAX, i32::MIN]).await;
    round_trip(session, "smallint", vec![i16::MAX, i16::MIN]).await;
    round_trip::<String>(session, "text", strings(&["", "it's", "ünï"])).await;
    round_trip(session, "time", vec![0_i64, 86_399_999_999_999]).await;
    let times: [DateTime<Utc>; 2] =
        [DateTime::UNIX_EPOCH, "2026-11-26T10:00:00.123Z".parse().unwrap()];
    round_trip(session, "timestamp", times.to_vec()).await;
    let timeuuid: Uuid = "50554d6e-29bb-11e5-b345-feff819cdc9f".parse().unwrap();
    round_trip(session, "timeuuid", vec![timeuuid]).await;
    round_trip(session, "tinyint", vec![i8::MAX, i8::MIN]).await;
    round_trip(session, "uuid", vec![Uuid::new_v4()]).await;
    let large: BigInt = "170141183460469231731687303715884105728".parse().unwrap();
    round_trip(session, "varint", vec![BigInt::from(-1), large]).await;
}

async fn composite_types(session: &Driver) {
    run(session, "CREATE TYPE ks.place (x int, name text)").await;
    run(
        session,
        "CREATE TABLE ks.composites (k int PRIMARY KEY, numbers list<int>, tags set<text>, \
         scores map<text, int>, lists map<text, frozen<list<int>>>, pair tuple<int, text>, \
         place place, places list<frozen<place>>)",
    )
    .await;
    let place = |x: i32| Place { x, name: format!("p{x}") };
    let scores = HashMap::from([("a".to_owned(), 1_i32), ("b".to_owned(), 2)]);
    let lists = HashMap::from([("a".to_owned(), vec![1_i32, 2])]);
    let values = query_values!(
        1_i32,
        vec![3_i32, 1, 3],
        vec!["b".to_owned(), "a".to_owned()],
        scores.clone(),
        lists,
        place(1),
        vec![place(2), place(3)]
    );
    let insert = "INSERT INTO ks.composites (k, numbers, tags, scores, lists, place, places, pair) \
                  VALUES (?, ?, ?, ?, ?, ?, ?, (7, 'x'))";
    session.query_with_values(insert, values).await.unwrap();
    let found = rows(session, "SELECT * FROM ks.composites").await.remove(0);
    let list = |name: &str| -> List { found.get_r_by_name(name).unwrap() };
    let numbers: Vec<i32> = list("numbers").as_r_type().unwrap();
    assert_eq!(numbers, [3, 1, 3]);
    let tags: Vec<String> = list("tags").as_r_type().unwrap();
    assert_eq!(tags, ["a", "b"]);
    let map: Map = found.get_r_by_name("scores").unwrap();
    let map: HashMap<String, i32> = map.as_r_type().unwrap();
    assert_eq!(map, scores);
    let map: Map = found.get_r_by_name("lists").unwrap();
    let map: HashMap<String, List> = map.as_r_type().unwrap();
    let numbers: Vec<i32> = map["a"].as_r_type().unwrap();
    assert_eq!(numbers, [1, 2]);
    let pair: Tuple = found.get_r_by_name("pair").unwrap();
    let pair: (i32, String) = (pair.get_r_by_index(0).unwrap(), pair.get_r_by_index(1).unwrap());
    assert_eq!(pair, (7, "x".to_owned()));
    let udt: Udt = found.get_r_by_name("place").unwrap();
    assert_eq!(Place::try_from_udt(udt).unwrap(), place(1));
    let udts: Vec<Udt> = list("places").as_r_type().unwrap();
    let places: Vec<Place> =
        udts.into_iter().map(|udt| Place::try_from_udt(udt).unwrap()).collect();
    assert_eq!(places, [place(2), place(3)]);
    // A null and a value that is left out.
    session
        .query_with_values(
            "UPDATE ks.composites SET numbers = ?, tags = ? WHERE k = 1",
            QueryValues::SimpleValues(vec![Value::Null, Value::NotSet]),
        )
        .await
        .unwrap();
    let found = rows(session, "SELECT numbers, tags FROM ks.composites").await.remove(0);
    let numbers: Option<List> = found.by_name("numbers").unwrap();
    assert!(numbers.is_none());
    let tags: Option<List> = found.by_name("tags").unwrap();
    assert!(tags.is_some());
}

async fn pages_and_batches(session: &Driver) {
    run(
        session,
        "CREATE TABLE ks.items (k int, c int, text text, PRIMARY KEY (k, c)) \
         WITH CLUSTERING ORDER BY (c DESC)",
    )
    .await;
    let text = "INSERT INTO ks.items (k, c, text) VALUES (?, ?, ?)";
    let insert = session.prepare(text).await.unwrap();
    let mut batch = BatchQueryBuilder::new();
    for c in 0..20_i32 {
        let values = query_values!(1_i32, c, format!("t{c}"));
        batch = match c % 2 {
            0 => batch.add_query_prepared(&insert, values),
            _ => batch.add_query(text, values),
        };
    }
    session.batch(batch.build().unwrap()).await.unwrap();
    let mut pager = session.paged(3);
    let mut pages = pager.query("SELECT c, text FROM ks.items WHERE k = 1");
    let mut found = Vec::new();
    loop {
        let page = pages.next().await.unwrap();
        assert!(page.len() <= 3);
        found.extend(page.into_iter().map(|row| Item::try_from_row(row).unwrap().c));
        if !pages.has_more() {
            break;
        }
    }
    assert_eq!(found, (0..20).rev().collect::<Vec<_>>());
}

async fn conditions_counters_and_expiry(session: &Driver) {
    run(session, "CREATE TABLE ks.sessions (id text PRIMARY KEY, owner text)").await;
    let applied = async |query: &str| -> bool {
        rows(session, query).await[0].get_r_by_name("[applied]").unwrap()
    };
    let insert = "INSERT INTO ks.sessions (id, owner) VALUES ('t', 'a') IF NOT EXISTS";
    assert!(applied(insert).await);
    assert!(!applied(insert).await);
    assert!(applied("UPDATE ks.sessions SET owner = 'b' WHERE id = 't' IF owner = 'a'").await);
    assert!(!applied("UPDATE ks.sessions SET owner = 'c' WHERE id = 't' IF owner = 'a'").await);
    assert!(applied("DELETE FROM ks.sessions WHERE id = 't' IF EXISTS").await);

    run(session, "CREATE TABLE ks.hits (page text PRIMARY KEY, n counter)").await;
    let add = session.prepare("UPDATE ks.hits SET n = n + ? WHERE page = 'p'").await.unwrap();
    for amount in [5_i64, -2] {
        session.exec_with_values(&add, query_values!(amount)).await.unwrap();
    }
    let n: i64 = rows(session, "SELECT n FROM ks.hits").await[0].get_r_by_name("n").unwrap();
    assert_eq!(n, 3);

    let ttl = "INSERT INTO ks.sessions (id, owner) VALUES ('short', 'a') USING TTL ?";
    session.query_with_values(ttl, query_values!(1_i32)).await.unwrap();
    assert_eq!(rows(session, "SELECT * FROM ks.sessions").await.len(), 1);
    tokio::time::sleep(Duration::from_millis(2_100)).await;
    assert!(rows(session, "SELECT * FROM ks.sessions").await.is_empty());
}

async fn errors_have_kinds(session: &Driver) {
    for (query, kind) in [("SELECT", "Syntax"), ("SELECT * FROM ks.missing", "Invalid")] {
        let error = format!("{:?}", session.query(query).await.unwrap_err());
        assert!(error.contains(kind), "{error}");
    }
}

#[tokio::main]
async fn main() {
    let port = std::env::args().nth(1).expect("a port");
    let config = NodeTcpConfigBuilder::new()
        .with_contact_point(format!("127.0.0.1:{port}").into())
        .build()
        .await
        .unwrap();
    let builder = TcpSessionBuilder::new(RoundRobinLoadBalancingStrategy::new(), config);
    let session = builder.build().await.unwrap();
    run(
        &session,
        "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    )
    .await;
    every_type(&session).await;
    composite_types(&session).await;
    pages_and_batches(&session).await;
    conditions_counters_and_expiry(&session).await;
    errors_have_kinds(&session).await;
}
