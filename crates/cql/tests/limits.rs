//! Limits through CQL: what is too large is refused by name, and the server's memory is its own.

#![expect(clippy::unwrap_used, reason = "helpers outside of #[test] functions unwrap as well")]

use carnet::base::limits::{CLUSTERING_KEY_BYTES_MAX, VALUE_BYTES_MAX};
use carnet::{Bytes, Db, TransactionLimits, Uuid, block_on};
use carnet_cql::system::NodeInfo;
use carnet_cql::{Bound, CqlErrorKind, Executor, Parameters, Session, Values};

struct Client {
    executor: Executor,
    session: Session,
}

impl Client {
    fn new(limits: TransactionLimits) -> Self {
        let db = Db::builder().transaction_limits(limits).in_memory();
        let executor = Executor::new(db, NodeInfo::local(Uuid::from_u64_pair(1, 2)));
        let client = Self { executor, session: Session::new() };
        client
            .run("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy'}", &[])
            .unwrap();
        client.run("USE ks", &[]).unwrap();
        let table = "CREATE TABLE t (p blob, c blob, v blob, PRIMARY KEY (p, c))";
        client.run(table, &[]).unwrap();
        client
    }

    fn run(&self, text: &str, lens: &[usize]) -> Result<(), String> {
        let value = |len: &usize| Bound::Bytes(Bytes::from(vec![0xff; *len]));
        let values = Values::Positional(lens.iter().map(value).collect());
        let parameters = Parameters { values, ..Parameters::default() };
        let result = block_on(self.executor.query(&self.session, text, &parameters));
        result.map(drop).map_err(|error| {
            assert_eq!(error.kind(), &CqlErrorKind::Invalid, "{error}");
            error.to_string()
        })
    }

    fn insert(&self, partition: usize, clustering: usize, value: usize) -> Result<(), String> {
        self.run("INSERT INTO t (p, c, v) VALUES (?, ?, ?)", &[partition, clustering, value])
    }
}

fn refused(result: Result<(), String>, words: &[&str]) {
    let error = result.unwrap_err();
    for word in words {
        assert!(error.contains(word), "{word} in {error}");
    }
}

#[test]
fn keys_and_rows() {
    let client = Client::new(TransactionLimits::default());
    client.insert(65_535, 65_535, 1).unwrap();
    refused(client.insert(65_536, 1, 1), &["65536", "65535"]);
    // Encoded in the order of its bytes, a key has two more to end with.
    client.insert(1, CLUSTERING_KEY_BYTES_MAX - 2, 1).unwrap();
    let error = client.insert(1, CLUSTERING_KEY_BYTES_MAX - 1, 1);
    refused(error, &["clustering key of 262141 bytes", "at most 262140"]);
    // A row image has its columns' lengths and write times beside them.
    client.insert(1, 1, VALUE_BYTES_MAX - 100).unwrap();
    refused(client.insert(1, 1, VALUE_BYTES_MAX), &["value of 335544", "at most 33554432"]);
}

#[test]
fn cells_of_a_statement() {
    let limits = TransactionLimits { write_cells: 20, ..TransactionLimits::default() };
    let client = Client::new(limits);
    let batch = |rows: usize| {
        let row = |n| format!("INSERT INTO t (p, c, v) VALUES (0x01, 0x{n:02x}, 0x00);");
        let rows: String = (0..rows).map(row).collect();
        client.run(&format!("BEGIN BATCH {rows} APPLY BATCH"), &[])
    };
    batch(20).unwrap();
    refused(batch(21), &["21 cells", "at most 20"]);
}
