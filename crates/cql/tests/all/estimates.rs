//! Estimates of a table that is too large to be counted.

use carnet::{DataType, Db, Uuid, Value, block_on};
use carnet_cql::result::Response;
use carnet_cql::system::NodeInfo;
use carnet_cql::{Executor, Parameters, Session};

const PARTITIONS: i64 = 5_000;

fn rows(executor: &Executor, text: &str) -> Vec<Vec<Value>> {
    let session = Session::new();
    let response = block_on(executor.query(&session, text, &Parameters::default()));
    match response.expect("the statement runs") {
        Response::Rows(found) => {
            let value = |bytes: &Option<carnet::Bytes>| {
                DataType::Bigint.deserialize(bytes.as_ref().expect("a number")).expect("a bigint")
            };
            found.values().iter().map(|row| row.iter().map(value).collect()).collect()
        }
        _ => Vec::new(),
    }
}

#[test]
fn samples_tell_the_number_of_partitions() {
    let executor = Executor::new(Db::builder().in_memory(), NodeInfo::local(Uuid::nil()));
    rows(&executor, "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy'}");
    rows(&executor, "CREATE TABLE ks.t (k bigint PRIMARY KEY, v text)");
    let text = "x".repeat(100);
    for first in (0..PARTITIONS).step_by(500) {
        let inserts = (first..first + 500)
            .map(|k| format!("INSERT INTO ks.t (k, v) VALUES ({k}, '{text}');"))
            .collect::<String>();
        rows(&executor, &format!("BEGIN UNLOGGED BATCH {inserts} APPLY BATCH"));
    }
    let found = rows(
        &executor,
        "SELECT partitions_count, mean_partition_size FROM system.size_estimates WHERE \
         keyspace_name = 'ks' AND table_name = 't'",
    );
    let [Value::Bigint(partitions), Value::Bigint(bytes)] = found[0][..] else {
        panic!("two numbers, not {found:?}");
    };
    // The rows are always the same ones, so the estimate is, too.
    let most = PARTITIONS * 5 / 4;
    assert!((PARTITIONS * 3 / 4..most).contains(&partitions), "{partitions}");
    assert!((100..160).contains(&bytes), "{bytes}");
}
