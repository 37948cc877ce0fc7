//! What a real Cassandra keeps of expired rows, and what a cold read of many changes costs.

use std::time::Duration;

use carnet::{Bytes, Db, Uuid, WallTime, block_on};
use carnet_base::{Clock as _, SystemClock};
use carnet_cql::result::Response;
use carnet_cql::system::NodeInfo;
use carnet_cql::{Executor, Parameters, Session};
use scylla::client::session_builder::SessionBuilder;

use super::{LONG_LEASE, loopback, node, store};

const KEYSPACE: &str = "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy'}";

struct Client {
    db: Db,
    executor: Executor,
}

impl Client {
    /// Opens the database in another process, which sweeps only on demand.
    fn open(url: &str) -> Self {
        let db = Db::builder().retention(Duration::ZERO).open(url).unwrap();
        let node = NodeInfo::local(Uuid::from_u64_pair(1, 2));
        Self { executor: Executor::new(db.clone(), node), db }
    }

    fn run_at(&self, statement: &str, now: Option<WallTime>) -> Response {
        let parameters = Parameters { now, ..Parameters::default() };
        block_on(self.executor.query(&Session::new(), statement, &parameters))
            .unwrap_or_else(|error| panic!("{statement}: {error}"))
    }

    fn run(&self, statement: &str) -> Response {
        self.run_at(statement, None)
    }

    fn rows(&self, select: &str) -> Vec<Vec<Option<Bytes>>> {
        let Response::Rows(rows) = self.run(select) else { panic!("{select}: no rows") };
        rows.values()
    }

    /// Returns the number of requests that a query sends to the cluster.
    fn requests(&self, select: &str) -> u64 {
        let reads = || self.db.cluster_figures().unwrap().requests.reads;
        let before = reads();
        assert_eq!(self.rows(select).len(), 1, "{select}");
        reads() - before
    }
}

/// Returns the number of rows of the newest table of cells, and of entries of the commit table.
fn rows_in_cassandra(url: &str) -> (usize, usize) {
    let keyspace = url.rsplit('/').next().unwrap().split('?').next().unwrap().to_owned();
    let point = node::node().unwrap().contact_point.clone();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let session = SessionBuilder::new().known_node(point).build().await.unwrap();
        let query = async |query: String| {
            let answer = session.query_unpaged(query, ()).await.unwrap();
            answer.into_rows_result().unwrap()
        };
        let names = format!(
            "SELECT table_name FROM system_schema.tables WHERE keyspace_name = '{keyspace}'"
        );
        let names = query(names).await;
        let numbers = names.rows::<(String,)>().unwrap().filter_map(|name| {
            name.unwrap().0.strip_prefix("cells_").and_then(|number| number.parse::<u32>().ok())
        });
        let newest = numbers.max().unwrap();
        let cells = query(format!("SELECT pk, ver FROM {keyspace}.cells_{newest}")).await;
        let entries = query(format!("SELECT col FROM {keyspace}.commits3")).await;
        // A row without entries has its epoch.
        let entries = entries.rows::<(Option<Vec<u8>>,)>().unwrap();
        (cells.rows_num(), entries.filter(|entry| entry.as_ref().unwrap().0.is_some()).count())
    })
}

#[test]
fn expired_rows_leave_cassandra() {
    let Some(url) = store(&format!("{LONG_LEASE}&sweep=never")) else { return };
    let client = Client::open(&url);
    client.run(KEYSPACE);
    client.run("CREATE TABLE ks.t (k int PRIMARY KEY, a int, l set<int>)");
    let hour_ago = Some(WallTime(SystemClock.wall().0 - 3_600_000_000));
    for k in 0..100 {
        let insert = format!("INSERT INTO ks.t (k, a, l) VALUES ({k}, 1, {{1}}) USING TTL 60");
        client.run_at(&insert, hour_ago);
    }
    for k in 100..110 {
        client.run(&format!("INSERT INTO ks.t (k, a, l) VALUES ({k}, 1, {{1}})"));
        let element = format!("UPDATE ks.t USING TTL 60 SET l = l + {{2}} WHERE k = {k}");
        client.run_at(&element, hour_ago);
    }
    assert_eq!(rows_in_cassandra(&url).0, 120);
    client.db.compact().unwrap();
    let (cells, entries) = rows_in_cassandra(&url);
    assert_eq!(cells, 10, "one version of each row that has not expired");
    assert!(entries <= 1, "{entries} entries are left");
    // A client's clock shows all stored parts.
    let Response::Rows(rows) = client.run_at("SELECT l FROM ks.t", hour_ago) else {
        panic!("rows")
    };
    let sets = rows.values();
    let elements = |row: &Vec<Option<Bytes>>| row[0].as_ref().unwrap()[3];
    assert_eq!(sets.iter().map(elements).collect::<Vec<_>>(), [1; 10]);
}

#[test]
fn cold_read_of_many_changes_is_short() {
    let Some(url) = store(&format!("{LONG_LEASE}{}&sweep=never", loopback())) else { return };
    let writer = Client::open(&url);
    writer.run(KEYSPACE);
    writer.run("CREATE TABLE ks.s (k int PRIMARY KEY, l set<int>)");
    writer.run("CREATE TABLE ks.n (k int PRIMARY KEY, n counter)");
    for number in 0..200 {
        writer.run("UPDATE ks.n SET n = n + 1 WHERE k = 1");
        writer.run(&format!("UPDATE ks.s SET l = l + {{{number}}} WHERE k = 1"));
    }
    for k in 2..5 {
        writer.run(&format!("INSERT INTO ks.s (k, l) VALUES ({k}, {{1}})"));
    }
    let cold = Client::open(&url);
    for select in ["SELECT l FROM ks.s WHERE k = 2", "SELECT n FROM ks.n WHERE k = 2"] {
        cold.rows(select);
    }
    let image = cold.requests("SELECT l FROM ks.s WHERE k = 3");
    let counter = cold.requests("SELECT n FROM ks.n WHERE k = 1");
    let set = cold.requests("SELECT l FROM ks.s WHERE k = 1");
    assert!(counter <= 3 * image && set <= 3 * image, "{image}, {counter} and {set} requests");
    let value = cold.rows("SELECT n FROM ks.n WHERE k = 1")[0][0].clone().unwrap();
    assert_eq!(value[..], 200_i64.to_be_bytes());
    let elements = cold.rows("SELECT l FROM ks.s WHERE k = 1")[0][0].clone().unwrap();
    assert_eq!(elements[..4], 200_i32.to_be_bytes());
}
