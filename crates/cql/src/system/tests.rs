//! Tests of the system tables' rows, as drivers read them.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use carnet::catalog::{self, ColumnKind, KeyspaceSchema, TableKind, TableSchema};
use carnet::roles::{Permission, Permissions, Resource, RoleChanges, Roles, StoredPassword};
use carnet::{Bytes, DataType, Db, Holder, Label, Timestamp, Uuid, WallTime, block_on};
use carnet_admission::diagnosis::{Cause, Named, Report, Waiter, Why};
use carnet_data::Order;

use super::*;

/// Creates a database with two keyspaces of tables.
pub(crate) fn sample() -> Db {
    let db = Db::builder().in_memory();
    let tx = db.begin().unwrap();
    block_on(async {
        let tx = tx.as_async();
        let mut bank = KeyspaceSchema::local("bank");
        bank.replication = [("class", "NetworkTopologyStrategy"), ("replication_factor", "3")]
            .map(|(key, value)| (key.into(), value.into()))
            .into();
        bank.durable_writes = false;
        catalog::create_keyspace(tx, &bank).await.unwrap();
        catalog::create_keyspace(tx, &KeyspaceSchema::local("Shop")).await.unwrap();
        catalog::create_table(tx, accounts()).await.unwrap();
        catalog::create_table(tx, log()).await.unwrap();
    });
    tx.commit().unwrap();
    db.raw("bank.stock").unwrap();
    db
}

fn accounts() -> TableSchema {
    let mut table = TableSchema::new("bank", "accounts", TableKind::Rows, Uuid::from_u128(0xa));
    table.add_column("owner", DataType::Text, ColumnKind::Regular).unwrap();
    table.add_column("id", DataType::Bigint, ColumnKind::Partition).unwrap();
    table.add_column("balance", DataType::Decimal, ColumnKind::Regular).unwrap();
    table
}

fn log() -> TableSchema {
    let mut table = TableSchema::new("bank", "Log", TableKind::Rows, Uuid::from_u128(0xb));
    let columns = [
        ("day", DataType::Date, ColumnKind::Partition),
        ("who", DataType::Text, ColumnKind::Partition),
        ("at", DataType::Timestamp, ColumnKind::Clustering(Order::Desc)),
        ("order", DataType::Int, ColumnKind::Clustering(Order::Asc)),
        ("What", DataType::Blob, ColumnKind::Regular),
        ("mood", DataType::Ascii, ColumnKind::Static),
    ];
    for (name, data_type, kind) in columns {
        table.add_column(name, data_type, kind).unwrap();
    }
    let options = [
        ("comment", "'who''s who'"),
        ("gc_grace_seconds", "60"),
        ("compaction", "{'class': 'LeveledCompactionStrategy'}"),
        ("transactional_mode", "'full'"),
    ];
    table.options = options.map(|(name, text)| (name.into(), text.into())).into();
    table
}

pub(crate) fn node() -> NodeInfo {
    NodeInfo { started_secs: 1_700_000_000, ..NodeInfo::local(Uuid::from_u128(0x42)) }
}

fn rows_of(
    table: &SystemTable,
    (db, snapshot): (&Db, &carnet::Snapshot),
    node: &NodeInfo,
) -> Vec<Vec<Cell>> {
    let sources = Sources {
        node,
        db,
        peers: &peers(),
        open: &open,
        running: &Vec::new,
        statistics: &Vec::new,
        conflicts: &Vec::new,
        levels: &|_| Vec::new(),
        open_elsewhere: &[],
        report: &report,
        wants: &|_, _| true,
        wants_keyspace: &|_| true,
        rows_max: None,
        figures: &|_| None,
        settings: StatementSettings::default(),
        row_waits: &Vec::new,
        hot_rows: &Vec::new,
        own_settings: &[],
        roles: RolesView { roles: &roles(), has_hashes: true },
        traces: &Vec::new,
    };
    block_on(rows(table, snapshot.as_async(), &sources)).unwrap()
}

fn roles() -> Roles {
    let mut roles = Roles::default();
    let login = RoleChanges {
        can_login: Some(true),
        password: Some(StoredPassword::new("$2a$10$hash")),
        ..RoleChanges::default()
    };
    roles.create("staff", &RoleChanges::default()).unwrap();
    roles.create("ann", &login).unwrap();
    roles.grant_role("staff", "ann").unwrap();
    roles.grant(Permissions::of(&[Permission::Select]), Resource::Keyspaces, "staff").unwrap();
    let both = Permissions::of(&[Permission::Select, Permission::Modify]);
    roles.grant(both, Resource::table("bank", "accounts"), "ann").unwrap();
    roles.add_identity("spiffe://bank/ann", "ann").unwrap();
    roles
}

/// Writes each row as the `name value` pairs of its columns that are not null.
fn dump(table: &SystemTable, db: &Db, node: &NodeInfo) -> Vec<String> {
    let snapshot = db.snapshot().unwrap();
    let rows = rows_of(table, (db, &snapshot), node);
    let line = |row: Vec<Cell>| {
        assert_eq!(row.len(), table.columns.len());
        let mut line = String::new();
        for (column, cell) in table.columns.iter().zip(row) {
            if let Some(bytes) = cell {
                let value = column.data_type.deserialize(&bytes).unwrap().to_literal();
                write!(line, "{} {value}; ", column.name).unwrap();
            }
        }
        line.trim_end_matches("; ").to_owned()
    };
    rows.into_iter().map(line).collect()
}

fn dump_of(keyspace: &str, table: &str) -> Vec<String> {
    dump(find(keyspace, table).unwrap(), &sample(), &node())
}

fn value(db: &Db, keyspace: &str, table: &str, column: &str) -> String {
    let lines = dump(find(keyspace, table).unwrap(), db, &node());
    let parts = lines[0].split("; ").find_map(|part| part.strip_prefix(&format!("{column} ")));
    parts.unwrap().to_owned()
}

#[test]
fn local_describes_the_node() {
    let lines = dump_of("system", "local");
    let version = lines[0].split("schema_version ").nth(1).unwrap().split(';').next().unwrap();
    assert_eq!(
        lines[0].replace(version, "VERSION").replace(env!("CARGO_PKG_VERSION"), "X"),
        "key 'local'; bootstrapped 'COMPLETED'; broadcast_address '127.0.0.1'; \
         broadcast_port 9042; cluster_name 'Carnet'; cql_version '3.4.7'; \
         data_center 'datacenter1'; gossip_generation 1700000000; \
         host_id 00000000-0000-0000-0000-000000000042; listen_address '127.0.0.1'; \
         listen_port 9042; native_protocol_version '5'; \
         partitioner 'org.apache.cassandra.dht.Murmur3Partitioner'; rack 'rack1'; \
         release_version '5.0.0-carnetX'; rpc_address '127.0.0.1'; rpc_port 9042; \
         schema_version VERSION; tokens {'-9223372036854775808'}"
    );
    assert_eq!(lines.len(), 1);
}

/// Returns the announcement of a server, as another process sends it.
fn announced(id: u128, address: &str) -> Bytes {
    let address: std::net::SocketAddr = address.parse().unwrap();
    let node = NodeInfo::local(Uuid::from_u128(id));
    NodeInfo { address: address.ip(), port: address.port(), ..node }.announcement(None, None)
}

fn peers() -> Vec<Peer> {
    let all = ["10.0.0.9:9042", "10.0.0.8:9043", "10.0.0.8:9042", "127.0.0.1:9042"];
    let all = (0x50..).zip(all).map(|(id, address)| announced(id, address));
    node().peers(&all.collect::<Vec<_>>())
}

#[test]
fn peers_are_the_other_servers_by_address() {
    let lines = dump_of("system", "peers_v2");
    let version = lines[0].split("schema_version ").nth(1).unwrap().split(';').next().unwrap();
    let tokens = format!(
        "{{{}}}",
        peers()[1].tokens().iter().map(|token| format!("'{token}'")).collect::<Vec<_>>().join(", ")
    );
    let line = lines[1].replace(version, "VERSION").replace(env!("CARGO_PKG_VERSION"), "X");
    assert_eq!(
        line.replace(&tokens, "TOKENS"),
        "peer '10.0.0.8'; peer_port 9043; data_center 'datacenter1'; \
         host_id 00000000-0000-0000-0000-000000000051; native_address '10.0.0.8'; \
         native_port 9043; rack 'rack1'; release_version '5.0.0-carnetX'; \
         schema_version VERSION; tokens TOKENS"
    );
    let addresses = |table| {
        let lines = dump_of("system", table);
        let line = |line: &String| line.split("; ").next().unwrap().to_owned();
        lines.iter().map(line).collect::<Vec<_>>()
    };
    assert_eq!(addresses("peers_v2"), ["peer '10.0.0.8'", "peer '10.0.0.8'", "peer '10.0.0.9'"]);
    // Without ports, the table lists only peers with this node's port, and none at its own address.
    assert_eq!(addresses("peers"), ["peer '10.0.0.8'", "peer '10.0.0.9'"]);
    assert_eq!(peers().len(), 3);
}

#[test]
fn node_among_others_has_its_own_tokens() {
    let alone = node();
    let among = node().among_others();
    assert_eq!(alone.tokens, [TOKEN]);
    let [local] = &dump(find("system", "local").unwrap(), &sample(), &among)[..] else {
        panic!("one row");
    };
    assert_eq!(among.tokens.len(), 16);
    assert!(among.tokens.iter().all(|token| local.contains(token.as_str())), "{local}");
    let others = peers().iter().flat_map(Peer::tokens).collect::<Vec<_>>();
    assert!(among.tokens.iter().all(|token| !others.contains(token)));
}

#[test]
fn schema_version_changes_only_with_the_schema() {
    let db = sample();
    let version = || value(&db, "system", "local", "schema_version");
    let before = version();
    assert_eq!(before.parse::<Uuid>().unwrap().get_version_num(), 8);
    let stock = db.raw("bank.stock").unwrap();
    db.transact(|tx| stock.put(tx, "apples", "3")).unwrap();
    assert_eq!(version(), before);
    db.transact(|tx| {
        block_on(catalog::create_keyspace(tx.as_async(), &KeyspaceSchema::local("new")))
    })
    .unwrap();
    assert_ne!(version(), before);
}

#[test]
fn user_and_stored_system_keyspaces_are_listed() {
    assert_eq!(
        dump_of("system_schema", "keyspaces"),
        [
            "keyspace_name 'Shop'; durable_writes True; \
             replication {'class': 'org.apache.cassandra.locator.SimpleStrategy', \
             'replication_factor': '1'}",
            "keyspace_name 'bank'; durable_writes False; \
             replication {'class': 'org.apache.cassandra.locator.NetworkTopologyStrategy', \
             'datacenter1': '3'}",
            "keyspace_name 'system'; durable_writes True; \
             replication {'class': 'org.apache.cassandra.locator.LocalStrategy'}",
            "keyspace_name 'system_auth'; durable_writes True; \
             replication {'class': 'org.apache.cassandra.locator.LocalStrategy'}",
            "keyspace_name 'system_distributed'; durable_writes True; \
             replication {'class': 'org.apache.cassandra.locator.LocalStrategy'}",
            "keyspace_name 'system_schema'; durable_writes True; \
             replication {'class': 'org.apache.cassandra.locator.LocalStrategy'}",
            "keyspace_name 'system_traces'; durable_writes True; \
             replication {'class': 'org.apache.cassandra.locator.LocalStrategy'}",
        ]
    );
}

#[test]
fn tables_have_their_options_or_the_defaults() {
    let lines = dump_of("system_schema", "tables");
    let users: Vec<_> = lines.iter().filter(|line| !line.contains("'system")).collect();
    assert_eq!(
        users,
        [
            "keyspace_name 'bank'; table_name 'Log'; additional_write_policy '99p'; \
             bloom_filter_fp_chance 0.1; caching {'keys': 'ALL', 'rows_per_partition': 'NONE'}; \
             comment 'who''s who'; \
             compaction {'class': 'org.apache.cassandra.db.compaction.LeveledCompactionStrategy', \
             'max_threshold': '32', 'min_threshold': '4'}; \
             compression {'chunk_length_in_kb': '16', \
             'class': 'org.apache.cassandra.io.compress.LZ4Compressor'}; crc_check_chance 1; \
             dclocal_read_repair_chance 0; default_time_to_live 0; extensions {}; \
             flags {'compound'}; gc_grace_seconds 60; id 00000000-0000-0000-0000-00000000000b; \
             max_index_interval 2048; memtable_flush_period_in_ms 0; min_index_interval 128; \
             read_repair 'BLOCKING'; read_repair_chance 0; speculative_retry '99p'",
            "keyspace_name 'bank'; table_name 'accounts'; additional_write_policy '99p'; \
             bloom_filter_fp_chance 0.01; caching {'keys': 'ALL', 'rows_per_partition': 'NONE'}; \
             comment ''; \
             compaction {'class': 'org.apache.cassandra.db.compaction.SizeTieredCompactionStrategy', \
             'max_threshold': '32', 'min_threshold': '4'}; \
             compression {'chunk_length_in_kb': '16', \
             'class': 'org.apache.cassandra.io.compress.LZ4Compressor'}; crc_check_chance 1; \
             dclocal_read_repair_chance 0; default_time_to_live 0; extensions {}; \
             flags {'compound'}; gc_grace_seconds 864000; \
             id 00000000-0000-0000-0000-00000000000a; \
             max_index_interval 2048; memtable_flush_period_in_ms 0; min_index_interval 128; \
             read_repair 'BLOCKING'; read_repair_chance 0; speculative_retry '99p'",
        ]
    );
    let names = |line: &String| line.split("; additional").next().unwrap().to_owned();
    let systems: Vec<_> = lines.iter().filter(|line| line.contains("'system")).map(names).collect();
    assert_eq!(systems.len(), 10 + 8 + 1 + 11 + 2);
    assert_eq!(systems[0], "keyspace_name 'system'; table_name 'IndexInfo'");
    assert_eq!(systems[29], "keyspace_name 'system_schema'; table_name 'views'");
}

#[test]
fn columns_have_their_kind_and_place() {
    let lines = dump_of("system_schema", "columns");
    let users: Vec<_> = lines
        .iter()
        .filter_map(|line| line.strip_prefix("keyspace_name 'bank'; table_name "))
        .collect();
    assert_eq!(
        users,
        [
            "'Log'; column_name 'What'; clustering_order 'none'; column_name_bytes 0x57686174; \
             kind 'regular'; position -1; type 'blob'",
            "'Log'; column_name 'at'; clustering_order 'desc'; column_name_bytes 0x6174; \
             kind 'clustering'; position 0; type 'timestamp'",
            "'Log'; column_name 'day'; clustering_order 'none'; column_name_bytes 0x646179; \
             kind 'partition_key'; position 0; type 'date'",
            "'Log'; column_name 'mood'; clustering_order 'none'; column_name_bytes 0x6d6f6f64; \
             kind 'static'; position -1; type 'ascii'",
            "'Log'; column_name 'order'; clustering_order 'asc'; column_name_bytes 0x6f72646572; \
             kind 'clustering'; position 1; type 'int'",
            "'Log'; column_name 'who'; clustering_order 'none'; column_name_bytes 0x77686f; \
             kind 'partition_key'; position 1; type 'text'",
            "'accounts'; column_name 'balance'; clustering_order 'none'; \
             column_name_bytes 0x62616c616e6365; kind 'regular'; position -1; type 'decimal'",
            "'accounts'; column_name 'id'; clustering_order 'none'; column_name_bytes 0x6964; \
             kind 'partition_key'; position 0; type 'bigint'",
            "'accounts'; column_name 'owner'; clustering_order 'none'; \
             column_name_bytes 0x6f776e6572; kind 'regular'; position -1; type 'text'",
        ]
    );
    for (column, type_name) in [
        ("'system'; table_name 'local'; column_name 'tokens'", "set<text>"),
        ("'system'; table_name 'local'; column_name 'truncated_at'", "map<uuid, blob>"),
        (
            "'system_schema'; table_name 'tables'; column_name 'extensions'",
            "frozen<map<text, blob>>",
        ),
        ("'system_schema'; table_name 'tables'; column_name 'flags'", "frozen<set<text>>"),
        ("'system_schema'; table_name 'types'; column_name 'field_names'", "frozen<list<text>>"),
    ] {
        let line = lines.iter().find(|line| line.contains(column)).unwrap();
        assert!(line.ends_with(&format!("type '{type_name}'")), "{line}");
    }
}

#[test]
fn virtual_tables_have_a_schema_of_their_own() {
    assert_eq!(
        dump_of("system_virtual_schema", "keyspaces"),
        ["keyspace_name 'system_views'", "keyspace_name 'system_virtual_schema'"]
    );
    assert_eq!(
        dump_of("system_virtual_schema", "tables"),
        [
            "keyspace_name 'system_views'; table_name 'bottleneck'; \
             comment 'what statements waited for in the last 10 s'",
            "keyspace_name 'system_views'; table_name 'clients'; \
             comment 'currently connected clients'",
            "keyspace_name 'system_views'; table_name 'conflicts'; \
             comment 'the last statements that lost a row to another transaction, newest first'",
            "keyspace_name 'system_views'; table_name 'disk_usage'; \
             comment 'space of each table in files'",
            "keyspace_name 'system_views'; table_name 'indexes'; \
             comment 'state of secondary indexes'",
            "keyspace_name 'system_views'; table_name 'local_read_latency'; \
             comment 'latencies of point reads of each table'",
            "keyspace_name 'system_views'; table_name 'local_scan_latency'; \
             comment 'latencies of pages of range reads'",
            "keyspace_name 'system_views'; table_name 'local_write_latency'; \
             comment 'latencies of commits to each table'",
            "keyspace_name 'system_views'; table_name 'lost_rows'; \
             comment 'rows that the last statements lost to other transactions, the most often lost first'",
            "keyspace_name 'system_views'; table_name 'materialized_views'; \
             comment 'state of materialized views'",
            "keyspace_name 'system_views'; table_name 'queries'; \
             comment 'statements that run or wait, oldest first'",
            "keyspace_name 'system_views'; table_name 'row_waits'; \
             comment 'statements that take turns at a row, the longest queue first'",
            "keyspace_name 'system_views'; table_name 'rows_per_read'; \
             comment 'rows that a read of a table returned'",
            "keyspace_name 'system_views'; table_name 'service_levels'; \
             comment 'statements of each service level that had any since the start, by class'",
            "keyspace_name 'system_views'; table_name 'settings'; comment 'current settings'",
            "keyspace_name 'system_views'; table_name 'statement_statistics'; \
             comment 'statements by fingerprint since the start, the largest total time first'",
            "keyspace_name 'system_views'; table_name 'table_statistics'; \
             comment 'reads, writes and space of each table'",
            "keyspace_name 'system_views'; table_name 'thread_pools'; \
             comment 'statements that run and wait, by their class'",
            "keyspace_name 'system_views'; table_name 'tombstones_per_read'; \
             comment 'tombstones that a read of a table met'",
            "keyspace_name 'system_views'; table_name 'transactions'; \
             comment 'open transactions, oldest snapshot first'",
            "keyspace_name 'system_virtual_schema'; table_name 'columns'; \
             comment 'virtual column definitions'",
            "keyspace_name 'system_virtual_schema'; table_name 'keyspaces'; \
             comment 'virtual keyspace definitions'",
            "keyspace_name 'system_virtual_schema'; table_name 'tables'; \
             comment 'virtual table definitions'",
        ]
    );
    let columns = dump_of("system_virtual_schema", "columns");
    let of_tables = 3 + 3 * 7 + 2 * 6 + 27;
    let of_statements = 9 + 19 + 9 + 15 + 10 + 6;
    let others = 10 + 13 + 11 + 9 + 2 + 7 + 10 + 8 + 1 + 3;
    assert_eq!(columns.len(), others + of_tables + of_statements);
    assert_eq!(
        columns[11],
        "keyspace_name 'system_views'; table_name 'clients'; column_name 'client_options'; \
         clustering_order 'none'; column_name_bytes 0x636c69656e745f6f7074696f6e73; \
         kind 'regular'; position -1; type 'frozen<map<text, text>>'"
    );
}

/// Returns a transaction that may write and has a label, and one without either.
fn open() -> Vec<OpenTransaction> {
    let at = |number| Timestamp::new(number).unwrap();
    let label = Some(Label::new("ada@127.0.0.1:80", "TRANSACTION"));
    let since = WallTime(1_000_000);
    let holders = vec![
        Holder { read: at(7), start: Some(at(9)), since, label },
        Holder { read: at(8), start: None, since, label: None },
    ];
    let now = WallTime(3_500_000);
    let running = holders.into_iter().map(|holder| OpenTransaction::of_holder(holder, now));
    let stays = OpenTransaction {
        id: Some(Uuid::from_u64_pair(1, 2)),
        client: Some("bob@127.0.0.1:81".into()),
        statement: Some("SELECT v FROM t".into()),
        isolation: Some("snapshot".into()),
        since,
        age: Duration::from_millis(2500),
        idle: Some(Duration::from_millis(1500)),
        read: at(6),
        start: Some(at(10)),
    };
    running.chain([stays]).collect()
}

#[test]
fn open_transactions_are_listed_by_snapshot_age() {
    assert_eq!(
        dump_of("system_views", "transactions"),
        [
            "number 1; age_seconds 2.5; client 'bob@127.0.0.1:81'; \
             id 00000000-0000-0001-0000-000000000002; idle_seconds 1.5; isolation 'snapshot'; \
             read_timestamp 6; since '1970-01-01 00:00:01.000000+0000'; start_timestamp 10; \
             statement 'SELECT v FROM t'",
            "number 2; age_seconds 2.5; client 'ada@127.0.0.1:80'; read_timestamp 7; \
             since '1970-01-01 00:00:01.000000+0000'; start_timestamp 9; statement 'TRANSACTION'",
            "number 3; age_seconds 2.5; read_timestamp 8; since '1970-01-01 00:00:01.000000+0000'",
        ]
    );
}

/// Returns a report with waits for the disk, one of them named, and waits for a turn at a row.
fn report() -> Option<Report> {
    let cause = |why, waited, share, waiter| {
        let (waited, level) = (Duration::from_millis(waited), "default".into());
        Cause { why, level, waited, waits: 7, share, waiter }
    };
    let named = Arc::new(Named::new("ks.t", "SELECT v FROM ks.t WHERE k = ?"));
    let waiter = Some(Waiter { named, user: Some("ann".into()) });
    let causes = vec![cause(Why::Disk, 30_000, 0.75, waiter), cause(Why::Lock, 10_000, 0.25, None)];
    let (waited, span) = (Duration::from_secs(40), Duration::from_secs(10));
    Some(Report { causes, waited, span })
}

#[test]
fn bottleneck_begins_with_the_verdict() {
    assert_eq!(
        dump_of("system_views", "bottleneck"),
        [
            "rank 0; explanation 'disk: 75 % of the 40.0 s that statements waited for in the last \
             10.0 s; most of level default, most by ks.t: SELECT v FROM ks.t WHERE k = ? \
             (user ann)'; level 'default'; share 0.75; waited_seconds 40; waits 14; why 'disk'",
            "rank 1; explanation 'reads that the device answers, or over a cluster its servers'; \
             level 'default'; share 0.75; statement 'SELECT v FROM ks.t WHERE k = ?'; \
             table_name 'ks.t'; user_name 'ann'; waited_seconds 30; waits 7; why 'disk'",
            "rank 2; explanation 'a turn at a row that other transactions change'; \
             level 'default'; share 0.25; waited_seconds 10; waits 7; why 'lock'",
        ]
    );
}

#[test]
fn little_waiting_is_no_bottleneck() {
    let table = find("system_views", "bottleneck").unwrap();
    let Report { causes, .. } = report().unwrap();
    let (waited, span) = (Duration::from_millis(40), Duration::from_secs(10));
    let rows = bottleneck::rows(table, &Report { causes, waited, span });
    let (place, column) = table.column("why").unwrap();
    assert_eq!(
        column.data_type.deserialize(rows[0][place].as_ref().unwrap()).unwrap().to_literal(),
        "'none'"
    );
    assert_eq!(rows.len(), 3, "what was waited for is listed nevertheless");
}

struct Two;

impl ClientList for Two {
    fn clients(&self) -> Vec<Client> {
        let late = Client {
            address: "[::1]:7".parse().unwrap(),
            username: Some("ada".into()),
            stage: ConnectionStage::Authenticating,
            protocol_version: 4,
            options: BTreeMap::new(),
            request_count: 0,
            tls: None,
        };
        let options = [("CQL_VERSION", "3.0.0"), ("DRIVER_NAME", "Py"), ("DRIVER_VERSION", "3")];
        let early = Client {
            address: "127.0.0.1:80".parse().unwrap(),
            username: None,
            stage: ConnectionStage::Ready,
            protocol_version: 5,
            options: options.map(|(key, value)| (key.into(), value.into())).into(),
            request_count: 12,
            tls: Some(ClientTls {
                version: "TLSv1.3",
                cipher_suite: "TLS_AES_256_GCM_SHA384".into(),
            }),
        };
        let earlier = Client { address: "127.0.0.1:9".parse().unwrap(), ..late.clone() };
        vec![early, earlier, late]
    }
}

#[test]
fn clients_are_listed_by_address_and_port() {
    let table = find("system_views", "clients").unwrap();
    assert!(dump(table, &sample(), &node()).is_empty());
    let node = NodeInfo { clients: Some(Arc::new(Two)), ..node() };
    let lines = dump(table, &sample(), &node);
    assert!(lines[0].starts_with("address '::1'; port 7; client_options {}; "), "{}", lines[0]);
    assert!(lines[1].starts_with("address '127.0.0.1'; port 9; "), "{}", lines[1]);
    assert!(lines[1].ends_with("ssl_enabled False; username 'ada'"), "{}", lines[1]);
    assert_eq!(
        lines[2],
        "address '127.0.0.1'; port 80; client_options {'CQL_VERSION': '3.0.0', \
         'DRIVER_NAME': 'Py', 'DRIVER_VERSION': '3'}; connection_stage 'ready'; \
         driver_name 'Py'; driver_version '3'; hostname '127.0.0.1'; protocol_version 5; \
         request_count 12; ssl_cipher_suite 'TLS_AES_256_GCM_SHA384'; ssl_enabled True; \
         ssl_protocol 'TLSv1.3'"
    );
}

#[test]
fn tables_of_missing_features_are_empty() {
    for table in tables().iter().filter(|table| table.content == table::Content::Nothing) {
        assert!(dump(table, &sample(), &node()).is_empty(), "{}", table.name);
    }
}

#[test]
fn tables_and_rows_are_in_order() {
    assert!(tables().is_sorted_by_key(|table| (table.keyspace, table.name)));
    for table in tables() {
        let rank = |column: &SystemColumn| match column.kind {
            ColumnKind::Partition => (0, ""),
            ColumnKind::Clustering(_) => (1, ""),
            ColumnKind::Static => (2, column.name),
            ColumnKind::Regular => (3, column.name),
        };
        assert!(table.columns.is_sorted_by_key(rank), "{}", table.name);
        assert!(is_system_keyspace(table.keyspace));
        let db = sample();
        let snapshot = db.snapshot().unwrap();
        let rows = rows_of(table, (&db, &snapshot), &node());
        let key_columns = table.columns.iter().filter(|c| rank(c).0 < 2).count();
        let keys: Vec<_> = rows.iter().map(|row| &row[..key_columns]).collect();
        assert!(keys.is_sorted_by(|a, b| a < b), "{}", table.name);
    }
}

#[test]
fn raw_tables_are_hidden() {
    let db = sample();
    let tx = db.snapshot().unwrap();
    let is_raw = |table: &TableSchema| table.kind == TableKind::Raw;
    let stored = block_on(async {
        let mut stored = Vec::new();
        for keyspace in catalog::keyspaces(tx.as_async()).await.unwrap() {
            stored.extend(catalog::tables(tx.as_async(), &keyspace.name).await.unwrap());
        }
        stored
    });
    assert!(stored.iter().any(is_raw), "the sample has a raw table");
    for table in ["tables", "columns"] {
        let lines = dump(find("system_schema", table).unwrap(), &db, &node());
        assert!(!lines.iter().any(|line| line.contains("'stock'")), "{lines:?}");
    }
}

/// Columns that drivers name when they connect; other drivers select all columns.
#[test]
fn columns_that_drivers_request_exist() {
    let asked = [
        ("system.local", "key cluster_name data_center host_id partitioner rack release_version"),
        ("system.local", "schema_version tokens rpc_address rpc_port broadcast_address"),
        ("system.local", "broadcast_port listen_address listen_port cql_version"),
        ("system.peers", "peer host_id data_center rack tokens rpc_address release_version"),
        ("system.peers", "schema_version preferred_ip"),
        ("system.peers_v2", "peer peer_port host_id data_center rack tokens native_address"),
        ("system.peers_v2", "native_port release_version schema_version"),
        ("system_schema.keyspaces", "keyspace_name durable_writes replication"),
        ("system_schema.tables", "keyspace_name table_name id flags comment caching compaction"),
        ("system_schema.tables", "compression extensions bloom_filter_fp_chance cdc"),
        ("system_schema.tables", "crc_check_chance dclocal_read_repair_chance"),
        ("system_schema.tables", "default_time_to_live gc_grace_seconds max_index_interval"),
        ("system_schema.tables", "memtable_flush_period_in_ms min_index_interval"),
        ("system_schema.tables", "read_repair_chance speculative_retry read_repair"),
        ("system_schema.columns", "keyspace_name table_name column_name clustering_order"),
        ("system_schema.columns", "column_name_bytes kind position type"),
        ("system_schema.types", "keyspace_name type_name field_names field_types"),
        ("system_schema.functions", "keyspace_name function_name argument_types argument_names"),
        ("system_schema.functions", "body called_on_null_input language return_type"),
        ("system_schema.aggregates", "keyspace_name aggregate_name argument_types state_func"),
        ("system_schema.aggregates", "state_type final_func initcond return_type"),
        ("system_schema.triggers", "keyspace_name table_name trigger_name options"),
        ("system_schema.indexes", "keyspace_name table_name index_name kind options"),
        ("system_schema.views", "keyspace_name view_name base_table_id base_table_name"),
        ("system_schema.views", "include_all_columns where_clause bloom_filter_fp_chance id"),
        ("system_virtual_schema.keyspaces", "keyspace_name"),
        ("system_virtual_schema.tables", "keyspace_name table_name comment"),
        ("system_virtual_schema.columns", "keyspace_name table_name column_name type kind"),
        ("system_virtual_schema.columns", "position clustering_order column_name_bytes"),
    ];
    for (table, columns) in asked {
        let (keyspace, name) = table.split_once('.').unwrap();
        let found = find(keyspace, name).unwrap();
        for column in columns.split(' ') {
            let (at, spec) = found.column(column).unwrap_or_else(|| panic!("{table}.{column}"));
            assert_eq!(found.specs()[at], found.spec(spec));
        }
    }
    assert!(find("system", "scylla_local").is_none());
    assert!(!is_system_keyspace("bank"));
}

#[test]
fn roles_are_shown_as_in_cassandra() {
    let tables: [(&str, &[&str]); 5] = [
        (
            "roles",
            &[
                "role 'ann'; can_login True; is_superuser False; member_of {'staff'}; \
                 salted_hash '$2a$10$hash'",
                "role 'staff'; can_login False; is_superuser False",
            ],
        ),
        ("role_members", &["role 'staff'; member 'ann'"]),
        (
            "role_permissions",
            &[
                "role 'ann'; resource 'data/bank/accounts'; permissions {'MODIFY', 'SELECT'}",
                "role 'staff'; resource 'data'; permissions {'SELECT'}",
            ],
        ),
        (
            "resource_role_permissons_index",
            &["resource 'data'; role 'staff'", "resource 'data/bank/accounts'; role 'ann'"],
        ),
        ("identity_to_role", &["identity 'spiffe://bank/ann'; role 'ann'"]),
    ];
    for (table, rows) in tables {
        assert_eq!(dump_of("system_auth", table), rows, "{table}");
    }
}
