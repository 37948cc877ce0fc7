//! System tables: every form of `SELECT` over them, and their rows about built indexes and views.

use std::sync::Arc;

use carnet::{Db, Uuid, block_on};
use carnet_admission::AdmissionLimits;
use carnet_base::Spawn;
use carnet_cql::result::{Response, Rows};
use carnet_cql::system::NodeInfo;
use carnet_cql::{CqlError, Executor, Parameters, Session};
use carnet_storage::disk::sim::SimDisk;

use crate::support::derived::KeepsBuilder;

struct Client {
    executor: Executor,
    session: Session,
}

impl Client {
    fn new(db: Db) -> Self {
        let executor = Executor::new(db, NodeInfo::local(Uuid::from_u64_pair(1, 2)));
        let client = Self { executor, session: Session::new() };
        client.say("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy'}");
        client.say("CREATE TABLE ks.t (k int, c int, v int, PRIMARY KEY (k, c))");
        client.say("CREATE TABLE ks.u (k int PRIMARY KEY, w text)");
        client.say("CREATE INDEX by_v ON ks.t (v)");
        client.say(
            "CREATE MATERIALIZED VIEW ks.by_w AS SELECT * FROM ks.u \
             WHERE w IS NOT NULL AND k IS NOT NULL PRIMARY KEY (w, k)",
        );
        client
    }

    fn run(&self, statement: &str) -> Result<Rows, CqlError> {
        match block_on(self.executor.query(&self.session, statement, &Parameters::default()))? {
            Response::Rows(rows) => Ok(rows),
            _ => Ok(Rows::default()),
        }
    }

    fn say(&self, statement: &str) {
        self.run(statement).unwrap_or_else(|error| panic!("{statement}: {error}"));
    }

    /// Returns the rows as literals, with a comma between columns.
    fn rows(&self, statement: &str) -> Vec<String> {
        let rows = self.run(statement).unwrap_or_else(|error| panic!("{statement}: {error}"));
        let line = |row: &Vec<Option<carnet::Bytes>>| {
            let cells = rows.columns.iter().zip(row).map(|(column, bytes)| match bytes {
                Some(bytes) => column.data_type.deserialize(bytes).unwrap().to_literal(),
                None => "null".to_owned(),
            });
            cells.collect::<Vec<_>>().join(", ")
        };
        rows.values().iter().map(line).collect()
    }
}

fn client() -> Client {
    Client::new(Db::builder().in_memory())
}

#[test]
fn functions_are_evaluated_on_system_tables() {
    let client = client();
    for statement in [
        "SELECT now() FROM system.local",
        "SELECT uuid() FROM system.local",
        "SELECT toTimestamp(now()) FROM system.local",
        "SELECT dateOf(now()) FROM system.local WHERE key = 'local'",
        "SELECT JSON * FROM system.local",
        "SELECT token(key) FROM system.local",
    ] {
        let rows = client.rows(statement);
        assert!(rows.len() == 1 && rows[0] != "null", "{statement}: {rows:?}");
    }
    for (statement, expected) in [
        ("SELECT max(key), count(*) FROM system.local", "'local', 1"),
        ("SELECT JSON key, rack FROM system.local", r#"'{"key": "local", "rack": "rack1"}'"#),
        ("SELECT toJson(tokens) FROM system.local", r#"'["-9223372036854775808"]'"#),
        ("SELECT rpc_port + 1 AS p FROM system.local", "9043"),
        ("SELECT ttl(rack), writetime(rack) FROM system.local", "null, null"),
        ("SELECT CAST(rpc_port AS text) FROM system.local", "'9042'"),
        ("SELECT rack FROM system.local WHERE tokens CONTAINS '-9223372036854775808'", "'rack1'"),
        ("SELECT key FROM system.local WHERE rpc_port > 9000 AND rpc_port < 9100", "'local'"),
        ("SELECT count(*) FROM system.peers", "0"),
    ] {
        assert_eq!(client.rows(statement), [expected], "{statement}");
    }
}

#[test]
fn limits_groups_and_orders_apply_to_system_tables() {
    let client = client();
    let tables = "system_schema.tables WHERE keyspace_name IN ('ks', 'system_traces')";
    for (statement, expected) in [
        (format!("SELECT table_name FROM {tables} PER PARTITION LIMIT 1"), vec!["'t'", "'events'"]),
        (format!("SELECT table_name FROM {tables} LIMIT 3"), vec!["'t'", "'u'", "'events'"]),
        (
            format!("SELECT keyspace_name, count(*) FROM {tables} GROUP BY keyspace_name"),
            vec!["'ks', 2", "'system_traces', 2"],
        ),
        (format!("SELECT DISTINCT keyspace_name FROM {tables}"), vec!["'ks'", "'system_traces'"]),
        (
            "SELECT table_name FROM system_schema.tables WHERE keyspace_name = 'ks' \
             ORDER BY table_name DESC"
                .to_owned(),
            vec!["'u'", "'t'"],
        ),
        (
            "SELECT table_name FROM system_schema.tables WHERE keyspace_name = 'ks' \
             AND table_name > 't'"
                .to_owned(),
            vec!["'u'"],
        ),
        (
            format!("SELECT table_name FROM {tables} ORDER BY table_name LIMIT 2"),
            vec!["'events'", "'sessions'"],
        ),
        (
            "SELECT column_name FROM system_schema.columns WHERE keyspace_name = 'ks' \
             AND table_name = 't' AND kind = 'clustering'"
                .to_owned(),
            vec!["'c'"],
        ),
        (
            "SELECT column_name FROM system_schema.columns WHERE keyspace_name = 'ks' \
             AND (table_name, column_name) >= ('t', 'k') AND (table_name, column_name) < ('u', 'w')"
                .to_owned(),
            vec!["'k'", "'v'", "'k'"],
        ),
        (
            "SELECT max(table_name) FROM system_schema.tables WHERE keyspace_name = 'ks'"
                .to_owned(),
            vec!["'u'"],
        ),
    ] {
        assert_eq!(client.rows(&statement), expected, "{statement}");
    }
    let by_token = |op: &str| {
        client.rows(&format!(
            "SELECT keyspace_name FROM system_schema.keyspaces \
             WHERE token(keyspace_name) {op} token('ks')"
        ))
    };
    assert!(!by_token(">").contains(&"'ks'".to_owned()));
    let all = client.rows("SELECT keyspace_name FROM system_schema.keyspaces");
    assert!(all.is_sorted(), "{all:?}");
    assert_eq!(by_token(">").len() + by_token("<=").len(), all.len());
}

#[test]
fn faults_of_statements_on_system_tables_are_errors() {
    let client = client();
    for (statement, expected) in [
        ("SELECT nothing FROM system.local", "nothing"),
        ("SELECT * FROM system.nothing", "system.nothing does not exist"),
        ("SELECT * FROM system.local AS OF 5", "it has no past"),
        ("SELECT DISTINCT rack FROM system.local", "partition key columns and/or static columns"),
        ("SELECT key FROM system.local ORDER BY key", "ORDER BY"),
        ("INSERT INTO system.local (key) VALUES ('x')", "system"),
        (
            "BEGIN TRANSACTION LET x = (SELECT rack FROM system.local WHERE key = 'local'); \
             SELECT x.rack; COMMIT TRANSACTION",
            "system table system.local",
        ),
    ] {
        let error = client.run(statement).unwrap_err();
        assert!(error.message().contains(expected), "{statement}: {error}");
    }
}

#[test]
fn built_indexes_and_views_are_listed() {
    let client = client();
    for (statement, expected) in [
        ("SELECT table_name, index_name FROM system.\"IndexInfo\"", vec!["'ks', 'by_v'"]),
        ("SELECT * FROM system.built_views", vec!["'ks', 'by_w', True"]),
        ("SELECT * FROM system.view_builds_in_progress", vec![]),
        (
            "SELECT keyspace_name, view_name, status FROM system_distributed.view_build_status \
             WHERE keyspace_name = 'ks' AND view_name = 'by_w'",
            vec!["'ks', 'by_w', 'SUCCESS'"],
        ),
        ("SELECT * FROM system.compaction_history", vec![]),
        ("SELECT * FROM system.sstable_activity", vec![]),
        ("SELECT * FROM system_views.thread_pools", vec![]),
    ] {
        assert_eq!(client.rows(statement), expected, "{statement}");
    }
}

#[test]
fn statements_that_run_and_wait_are_thread_pools() {
    let db = Db::builder().admission(AdmissionLimits::of_server(2)).in_memory();
    let pools = Client::new(db).rows("SELECT name, pending_tasks FROM system_views.thread_pools");
    assert_eq!(pools, ["'MutationStage', 0", "'Native-Transport-Requests', 0", "'ReadStage', 0"]);
}

#[test]
fn builds_in_progress_are_listed() {
    let spawn = Arc::new(KeepsBuilder::default());
    let db = Db::builder().spawn(Arc::clone(&spawn) as Arc<dyn Spawn>).in_memory();
    let client = Client::new(db);
    for k in 0..600 {
        client.say(&format!("INSERT INTO ks.u (k, w) VALUES ({k}, 'w')"));
    }
    client.say(
        "CREATE MATERIALIZED VIEW ks.late AS SELECT * FROM ks.u \
         WHERE w IS NOT NULL AND k IS NOT NULL PRIMARY KEY (k, w)",
    );
    client.say("CREATE INDEX late_index ON ks.u (w)");
    let states = || {
        [
            client.rows("SELECT view_name, keys_built FROM system.view_builds_in_progress"),
            client.rows("SELECT view_name FROM system.built_views"),
            client.rows("SELECT view_name, status FROM system_distributed.view_build_status"),
            client.rows("SELECT index_name FROM system.\"IndexInfo\""),
        ]
    };
    let building = states();
    assert_eq!(building[0].len(), 1, "{building:?}");
    assert!(building[0][0].starts_with("'late', "), "{building:?}");
    assert_eq!(building[1], ["'by_w'"]);
    assert_eq!(building[2], ["'by_w', 'SUCCESS'", "'late', 'STARTED'"]);
    assert_eq!(building[3], ["'by_v'"]);
    for _ in 0..100 {
        spawn.step();
    }
    let built = states();
    assert_eq!(built[0], [""; 0]);
    assert_eq!(built[1], ["'by_w'", "'late'"]);
    assert_eq!(built[2], ["'by_w', 'SUCCESS'", "'late', 'SUCCESS'"]);
    assert_eq!(built[3], ["'by_v'", "'late_index'"]);
}

/// Statements show in the statistics of their tables and of indexes; a database without a storage
/// engine has none.
#[test]
fn statistics_of_tables_count_statements() {
    let disk = SimDisk::new(1);
    let client = Client::new(Db::builder().open_on(Arc::new(disk)).unwrap());
    for k in 0..20 {
        client.say(&format!("INSERT INTO ks.t (k, c, v) VALUES ({k}, 1, 7)"));
        client.say(&format!("INSERT INTO ks.t (k, c, v) VALUES ({k}, 2, 8)"));
    }
    client.say("DELETE FROM ks.t WHERE k = 1 AND c = 1");
    for k in 0..3 {
        client.say(&format!("SELECT v FROM ks.t WHERE k = {k} AND c = 1"));
        client.say(&format!("SELECT v FROM ks.t WHERE k = {k}"));
    }
    let of = |columns: &str, table: &str| {
        let text = format!(
            "SELECT {columns} FROM system_views.table_statistics \
             WHERE keyspace_name = 'ks' AND table_name = '{table}'"
        );
        client.rows(&text)
    };
    assert_eq!(
        of("writes, cells_written, tombstones_written, is_index", "t"),
        ["41, 41, 1, False"]
    );
    assert_eq!(
        of("writes, is_index", "t.by_v"),
        ["41, True"],
        "an index is written with its table"
    );
    let [reads] = &of("reads, scans, tombstones_read, cells_read", "t")[..] else {
        panic!("a row")
    };
    let numbers: Vec<u64> = reads.split(", ").map(|number| number.parse().unwrap()).collect();
    assert!(numbers[0] >= 3 && numbers[1] >= 3, "{reads}");
    assert!(numbers[2] >= 2 && numbers[3] >= 2 + 5, "a deleted row, and those around it: {reads}");
    assert_eq!(of("writes, reads", "u"), ["0, 0"]);
    let latency = "SELECT count FROM system_views.local_write_latency \
                   WHERE keyspace_name = 'ks' AND table_name = 't'";
    assert_eq!(client.rows(latency), ["41"]);
    let percentiles = client.rows(
        "SELECT p50th_ms, p99th_ms, max_ms, per_second FROM system_views.local_read_latency \
         WHERE keyspace_name = 'ks' AND table_name = 't'",
    );
    let numbers: Vec<f64> = percentiles[0].split(", ").map(|one| one.parse().unwrap()).collect();
    assert!(numbers[0] <= numbers[1] && numbers[1] <= numbers[2], "{percentiles:?}");
    let names = client.rows("SELECT table_name FROM system_views.tombstones_per_read");
    assert_eq!(names, ["'t'", "'u'", "'by_w'"], "indexes are not among Cassandra's");
    assert!(self::client().rows("SELECT * FROM system_views.table_statistics").is_empty());
}
