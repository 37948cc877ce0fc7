//! Tests of the output that cqlsh prints.

use carnet::catalog::{ColumnKind, TableSchema};
use carnet::{Db, Uuid, block_on};
use carnet_data::Order;

use super::*;
use crate::ast::Statement;
use crate::parser::{Limits, parse};
use crate::system::{
    check_option,
    tests::{node, sample},
};

fn try_describe(db: &Db, text: &str, current: Option<&str>) -> Result<Rows> {
    let parsed = parse(text, &Limits::default()).unwrap();
    let Statement::Describe(statement) = parsed.statement else { panic!("{text}") };
    let snapshot = db.snapshot().unwrap();
    block_on(describe(snapshot.as_async(), &node(), &[], &statement, current))
}

fn describe_column(text: &str, current: Option<&str>, column: usize) -> Vec<String> {
    let rows = try_describe(&sample(), text, current).unwrap();
    let text = |row: &Vec<Cell>| String::from_utf8(row[column].clone().unwrap().to_vec()).unwrap();
    rows.values().iter().map(text).collect()
}

fn names(text: &str, current: Option<&str>) -> Vec<String> {
    describe_column(text, current, 2)
}

fn statements(text: &str, current: Option<&str>) -> Vec<String> {
    describe_column(text, current, 3)
}

fn refusal(text: &str, current: Option<&str>) -> String {
    let error = try_describe(&sample(), text, current).unwrap_err();
    assert_eq!(error.kind(), carnet::ErrorKind::Invalid);
    error.to_string()
}

fn column_names(text: &str, current: Option<&str>) -> Vec<String> {
    let rows = try_describe(&sample(), text, current).unwrap();
    for row in rows.rows.iter() {
        assert_eq!(row.len(), rows.columns.len());
    }
    rows.columns.iter().map(|column| column.name.clone()).collect()
}

const BANK: &str = "CREATE KEYSPACE bank WITH replication = \
                    {'class': 'NetworkTopologyStrategy', 'datacenter1': '3'}  \
                    AND durable_writes = false;";

const ACCOUNTS: &str = "\
CREATE TABLE bank.accounts (
    id bigint PRIMARY KEY,
    balance decimal,
    owner text
) WITH additional_write_policy = '99p'
    AND allow_auto_snapshot = true
    AND bloom_filter_fp_chance = 0.01
    AND caching = {'keys': 'ALL', 'rows_per_partition': 'NONE'}
    AND cdc = false
    AND comment = ''
    AND compaction = {'class': 'org.apache.cassandra.db.compaction.SizeTieredCompactionStrategy', \
'max_threshold': '32', 'min_threshold': '4'}
    AND compression = {'chunk_length_in_kb': '16', \
'class': 'org.apache.cassandra.io.compress.LZ4Compressor'}
    AND memtable = 'default'
    AND crc_check_chance = 1.0
    AND default_time_to_live = 0
    AND extensions = {}
    AND gc_grace_seconds = 864000
    AND incremental_backups = true
    AND max_index_interval = 2048
    AND memtable_flush_period_in_ms = 0
    AND min_index_interval = 128
    AND read_repair = 'BLOCKING'
    AND speculative_retry = '99p';";

const LOG: &str = "\
CREATE TABLE bank.\"Log\" (
    day date,
    who text,
    at timestamp,
    \"order\" int,
    mood ascii static,
    \"What\" blob,
    PRIMARY KEY ((day, who), at, \"order\")
) WITH CLUSTERING ORDER BY (at DESC, \"order\" ASC)
    AND additional_write_policy = '99p'
    AND allow_auto_snapshot = true
    AND bloom_filter_fp_chance = 0.1
    AND caching = {'keys': 'ALL', 'rows_per_partition': 'NONE'}
    AND cdc = false
    AND comment = 'who''s who'
    AND compaction = {'class': 'org.apache.cassandra.db.compaction.LeveledCompactionStrategy', \
'max_threshold': '32', 'min_threshold': '4'}
    AND compression = {'chunk_length_in_kb': '16', \
'class': 'org.apache.cassandra.io.compress.LZ4Compressor'}
    AND memtable = 'default'
    AND crc_check_chance = 1.0
    AND default_time_to_live = 0
    AND extensions = {}
    AND gc_grace_seconds = 60
    AND incremental_backups = true
    AND max_index_interval = 2048
    AND memtable_flush_period_in_ms = 0
    AND min_index_interval = 128
    AND read_repair = 'BLOCKING'
    AND speculative_retry = '99p'
    AND transactional_mode = 'full';";

#[test]
fn lists_name_all_objects() {
    assert_eq!(
        names("DESCRIBE KEYSPACES", Some("bank")),
        [
            "bank",
            "\"Shop\"",
            "system",
            "system_auth",
            "system_distributed",
            "system_schema",
            "system_traces",
            "system_views",
            "system_virtual_schema",
        ]
    );
    assert_eq!(names("DESC TABLES", Some("bank")), ["accounts", "\"Log\""]);
    assert_eq!(names("DESC TABLES", Some("Shop")), [""; 0]);
    let all = try_describe(&sample(), "DESC TABLES", None).unwrap();
    assert_eq!(all.rows.len(), 2 + system::tables().len());
    assert_eq!(all.values()[1][..2], [Some("bank".into()), Some("table".into())]);
    for list in ["KEYSPACES", "TABLES", "TYPES", "FUNCTIONS", "AGGREGATES"] {
        let statement = format!("DESCRIBE {list}");
        assert_eq!(column_names(&statement, None), LIST);
        let specs = try_describe(&sample(), &statement, None).unwrap().columns;
        assert!(specs.iter().all(|spec| spec.keyspace == "system" && spec.table == "describe"));
    }
    for list in ["TYPES", "FUNCTIONS", "AGGREGATES"] {
        assert_eq!(names(&format!("DESCRIBE {list}"), None), [""; 0]);
    }
    assert_eq!(refusal("DESC TABLES", Some("gone")), "'gone' not found in keyspaces");
}

#[test]
fn keyspaces_and_tables_are_statements() {
    assert_eq!(statements("DESCRIBE KEYSPACE bank", None), [BANK, ACCOUNTS, LOG]);
    assert_eq!(statements("DESCRIBE KEYSPACE", Some("bank")), [BANK, ACCOUNTS, LOG]);
    assert_eq!(statements("DESCRIBE bank", Some("Shop")), [BANK, ACCOUNTS, LOG]);
    assert_eq!(statements("DESCRIBE ONLY KEYSPACE bank", None), [BANK]);
    assert_eq!(statements("DESCRIBE TABLE bank.\"Log\"", None), [LOG]);
    assert_eq!(statements("DESCRIBE \"Log\"", Some("bank")), [LOG]);
    assert_eq!(statements("DESCRIBE bank.accounts", None), [ACCOUNTS]);
    assert_eq!(column_names("DESCRIBE bank.accounts", None), ELEMENT);
    assert_eq!(describe_column("DESCRIBE bank", None, 1), ["keyspace", "table", "table"]);
    let shop = "CREATE KEYSPACE \"Shop\" WITH replication = \
                {'class': 'SimpleStrategy', 'replication_factor': '1'}  AND durable_writes = true;";
    assert_eq!(statements("DESCRIBE SCHEMA", Some("bank")), [BANK, ACCOUNTS, LOG, shop]);
    let full = statements("DESCRIBE FULL SCHEMA", None);
    assert_eq!(full.len(), 4 + system::KEYSPACES.len() + system::tables().len());
}

#[test]
fn internals_are_ids() {
    let with_id = |statement: &str, id| {
        statement.replacen(
            ") WITH ",
            &format!(") WITH ID = 00000000-0000-0000-0000-{id}\n    AND "),
            1,
        )
    };
    assert_eq!(
        statements("DESC TABLE bank.accounts WITH INTERNALS", None),
        [with_id(ACCOUNTS, "00000000000a")]
    );
    assert_eq!(
        statements("DESC TABLE bank.\"Log\" WITH INTERNALS", None),
        [with_id(LOG, "00000000000b")]
    );
}

#[test]
fn virtual_objects_are_comments() {
    const STATISTICS: [&str; 7] = [
        "disk_usage",
        "local_read_latency",
        "local_scan_latency",
        "local_write_latency",
        "rows_per_read",
        "table_statistics",
        "tombstones_per_read",
    ];
    let name = |table: &str| format!("VIRTUAL TABLE system_views.{table} (");
    let (of_tables, mut others): (Vec<String>, Vec<String>) =
        statements("DESCRIBE KEYSPACE system_views", None)
            .into_iter()
            .partition(|text| STATISTICS.iter().any(|table| text.contains(&name(table))));
    assert_eq!(of_tables.len(), STATISTICS.len());
    assert_eq!(
        of_tables[1],
        "/*
Warning: Table system_views.local_read_latency is a virtual table and cannot be recreated with CQL.
Structure, for reference:
VIRTUAL TABLE system_views.local_read_latency (
    keyspace_name text,
    table_name text,
    count bigint,
    max_ms double,
    p50th_ms double,
    p99th_ms double,
    per_second double,
    PRIMARY KEY ((keyspace_name, table_name))
) WITH comment = 'latencies of point reads of each table';
*/"
    );
    // Enough of the others.
    let more = [
        "conflicts",
        "lost_rows",
        "queries",
        "row_waits",
        "service_levels",
        "statement_statistics",
    ];
    others.retain(|text| !more.iter().any(|table| text.contains(&name(table))));
    assert_eq!(
        others,
        [
            "/*
Warning: Keyspace system_views is a virtual keyspace and cannot be recreated with CQL.
Structure, for reference:
VIRTUAL KEYSPACE system_views;
*/",
            "/*
Warning: Table system_views.bottleneck is a virtual table and cannot be recreated with CQL.
Structure, for reference:
VIRTUAL TABLE system_views.bottleneck (
    rank int PRIMARY KEY,
    explanation text,
    level text,
    share double,
    statement text,
    table_name text,
    user_name text,
    waited_seconds double,
    waits bigint,
    why text
) WITH comment = 'what statements waited for in the last 10 s';
*/",
            "/*
Warning: Table system_views.clients is a virtual table and cannot be recreated with CQL.
Structure, for reference:
VIRTUAL TABLE system_views.clients (
    address inet,
    port int,
    client_options frozen<map<text, text>>,
    connection_stage text,
    driver_name text,
    driver_version text,
    hostname text,
    protocol_version int,
    request_count bigint,
    ssl_cipher_suite text,
    ssl_enabled boolean,
    ssl_protocol text,
    username text,
    PRIMARY KEY (address, port)
) WITH CLUSTERING ORDER BY (port ASC)
    AND comment = 'currently connected clients';
*/",
            "/*
Warning: Table system_views.indexes is a virtual table and cannot be recreated with CQL.
Structure, for reference:
VIRTUAL TABLE system_views.indexes (
    keyspace_name text,
    index_name text,
    failure text,
    is_building boolean,
    is_queryable boolean,
    part_read double,
    partitions int,
    rows_read bigint,
    state text,
    table_name text,
    target text,
    PRIMARY KEY (keyspace_name, index_name)
) WITH CLUSTERING ORDER BY (index_name ASC)
    AND comment = 'state of secondary indexes';
*/",
            "/*
Warning: Table system_views.materialized_views is a virtual table and cannot be recreated with CQL.
Structure, for reference:
VIRTUAL TABLE system_views.materialized_views (
    keyspace_name text,
    view_name text,
    base_table_name text,
    failure text,
    is_building boolean,
    is_queryable boolean,
    part_read double,
    rows_read bigint,
    state text,
    PRIMARY KEY (keyspace_name, view_name)
) WITH CLUSTERING ORDER BY (view_name ASC)
    AND comment = 'state of materialized views';
*/",
            "/*
Warning: Table system_views.settings is a virtual table and cannot be recreated with CQL.
Structure, for reference:
VIRTUAL TABLE system_views.settings (
    name text PRIMARY KEY,
    value text
) WITH comment = 'current settings';
*/",
            "/*
Warning: Table system_views.thread_pools is a virtual table and cannot be recreated with CQL.
Structure, for reference:
VIRTUAL TABLE system_views.thread_pools (
    name text PRIMARY KEY,
    active_tasks int,
    active_tasks_limit int,
    blocked_tasks bigint,
    blocked_tasks_all_time bigint,
    completed_tasks bigint,
    pending_tasks int
) WITH comment = 'statements that run and wait, by their class';
*/",
            "/*
Warning: Table system_views.transactions is a virtual table and cannot be recreated with CQL.
Structure, for reference:
VIRTUAL TABLE system_views.transactions (
    number int PRIMARY KEY,
    age_seconds double,
    client text,
    id uuid,
    idle_seconds double,
    isolation text,
    read_timestamp bigint,
    since timestamp,
    start_timestamp bigint,
    statement text
) WITH comment = 'open transactions, oldest snapshot first';
*/",
        ]
    );
    assert_eq!(
        statements("DESCRIBE ONLY KEYSPACE system", None),
        ["CREATE KEYSPACE system WITH replication = {'class': 'LocalStrategy'}  \
          AND durable_writes = true;"]
    );
}

#[test]
fn missing_objects_are_named() {
    for (text, current, message) in [
        ("DESC KEYSPACE", None, "No keyspace specified and no current keyspace"),
        ("DESC TABLE t", None, "No keyspace specified and no current keyspace"),
        ("DESC nothing", None, "'nothing' not found in keyspaces"),
        ("DESC nothing", Some("bank"), "'nothing' not found in keyspace 'bank'"),
        ("DESC bank.nothing", None, "'nothing' not found in keyspace 'bank'"),
        ("DESC TABLE bank.log", None, "Table 'log' not found in keyspace 'bank'"),
        ("DESC KEYSPACE shop", None, "'shop' not found in keyspaces"),
        ("DESC INDEX i", Some("bank"), "Table for existing index 'i' not found in 'bank'"),
        ("DESC MATERIALIZED VIEW bank.v", None, "Materialized view 'v' not found in 'bank'"),
        ("DESC TYPE bank.t", None, "User defined type 't' not found in 'bank'"),
        ("DESC FUNCTION bank.f", None, "User defined function 'f' not found in 'bank'"),
        ("DESC AGGREGATE bank.a", None, "User defined aggregate 'a' not found in 'bank'"),
    ] {
        assert_eq!(refusal(text, current), message, "{text}");
    }
}

#[test]
fn cluster_is_one_node() {
    let plain = try_describe(&sample(), "DESCRIBE CLUSTER", None).unwrap();
    assert_eq!(plain.columns.len(), 3);
    let row = ["Carnet", "Murmur3Partitioner", "SimpleSnitch"];
    assert_eq!(plain.values(), [row.map(|text| Some(Bytes::from(text))).to_vec()]);
    assert_eq!(try_describe(&sample(), "DESC CLUSTER", Some("system")).unwrap(), plain);

    let owned = try_describe(&sample(), "DESCRIBE CLUSTER", Some("bank")).unwrap();
    assert_eq!(owned.columns[3].name, "range_ownership");
    assert_eq!(owned.columns[3].data_type.to_string(), "map<text, frozen<list<text>>>");
    let expected = b"\0\0\0\x01\0\0\0\x14-9223372036854775808\
                     \0\0\0\x16\0\0\0\x01\0\0\0\x0e127.0.0.1:9042";
    assert_eq!(owned.values()[0][3].as_deref(), Some(&expected[..]));
}

/// The map has each server's tokens, in key order.
#[test]
fn servers_share_the_ring() {
    let other = node().among_others();
    let peers = {
        let announced = NodeInfo { port: 9043, host_id: Uuid::from_u128(7), ..other.clone() };
        other.peers(&[announced.announcement(None, None)])
    };
    let owned = ownership(&other, &peers);
    assert_eq!(owned[..4], 32_u32.to_be_bytes());
    let mut tokens: Vec<String> = [other.tokens, peers[0].tokens()].concat();
    tokens.sort_unstable();
    let mut rest = &owned[4..];
    for token in tokens {
        let (key, behind) = rest.split_at(4 + token.len());
        assert_eq!(key[4..], *token.as_bytes());
        let owner = if peers[0].tokens().contains(&token) { b'3' } else { b'2' };
        assert_eq!(behind[25], owner, "the last digit of the port");
        rest = &behind[26..];
    }
    assert!(rest.is_empty());
}

/// Descriptions can be executed: the statement's columns, key, order and options equal the table's.
#[test]
fn described_statements_are_parsed() {
    let db = sample();
    for text in statements("DESCRIBE SCHEMA", None) {
        match parse(&text, &Limits::default()).unwrap().statement {
            Statement::CreateKeyspace(keyspace) => assert_eq!(keyspace.options.len(), 2),
            Statement::CreateTable(create) => assert_same(&db, &create),
            other => panic!("{other}"),
        }
    }
    for text in statements("DESCRIBE FULL SCHEMA WITH INTERNALS", None) {
        let is_virtual = text.starts_with("/*");
        assert_eq!(parse(&text, &Limits::default()).is_ok(), !is_virtual, "{text}");
    }
}

fn assert_same(db: &Db, create: &crate::ast::CreateTable) {
    let keyspace = create.table.keyspace.as_ref().unwrap().as_str();
    let snapshot = db.snapshot().unwrap();
    let name = create.table.table.as_str();
    let table = block_on(carnet::catalog::table(snapshot.as_async(), keyspace, name));
    let table = table.unwrap().unwrap();

    let names = |names: &[Name]| names.iter().map(|name| name.text.clone()).collect::<Vec<_>>();
    let key = |table: &TableSchema, kind: fn(ColumnKind) -> bool| {
        let columns = table.columns.iter().filter(|column| kind(column.kind));
        columns.map(|column| column.name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(names(&create.key.partition), key(&table, |kind| kind == ColumnKind::Partition));
    assert_eq!(
        names(&create.key.clustering),
        key(&table, |kind| matches!(kind, ColumnKind::Clustering(_)))
    );
    let orders = create.clustering_order.iter().map(|ordering| {
        if ordering.to_string().ends_with("DESC") { Order::Desc } else { Order::Asc }
    });
    assert_eq!(orders.collect::<Vec<_>>(), table.clustering_orders());
    assert_eq!(create.columns.len(), table.columns.len());
    for column in &create.columns {
        let stored = table.column(column.name.as_str()).unwrap();
        assert_eq!(column.type_name.to_string(), stored.data_type.name());
        assert_eq!(column.is_static, stored.kind == ColumnKind::Static);
    }
    // Storing the options and describing them once more gives the same text.
    let mut again = TableSchema::clone(&table);
    again.options.clear();
    for (name, value) in &create.options {
        again.options.insert(name.text.clone(), check_option(name.as_str(), value).unwrap());
    }
    let fresh = sample();
    let alter = |tx: &carnet::SyncTx| block_on(carnet::catalog::alter_table(tx.as_async(), &again));
    fresh.transact(alter).unwrap();
    let text = |db: &Db| {
        let statement = format!("DESCRIBE TABLE {}", create.table);
        try_describe(db, &statement, None).unwrap().rows
    };
    assert_eq!(text(&fresh), text(db));
}
