//! The system tables: their names, columns and types, which are Cassandra 5.0's.
//!
//! Regular columns are in alphabetical order, which is that of `SELECT *`.

use std::sync::LazyLock;

use carnet::catalog::ColumnKind;
use carnet::{DataType, Uuid};

use super::table::{
    AUTH, Content, DISTRIBUTED, SCHEMA, SYSTEM, SystemColumn, SystemTable, TRACES, VIEWS,
    VIRTUAL_SCHEMA, clustering, partition, regular,
};
use super::{activity, auth, builds, queries, row_waits, statement_statistics, table_statistics};

/// Sorted names of the system keyspaces.
pub const KEYSPACES: [&str; 7] = [SYSTEM, AUTH, DISTRIBUTED, SCHEMA, TRACES, VIEWS, VIRTUAL_SCHEMA];

/// Returns `true` for a system keyspace: users may not create, change or drop it or its tables.
#[must_use]
pub fn is_system_keyspace(name: &str) -> bool {
    KEYSPACES.contains(&name)
}

/// Returns `true` for a system keyspace whose replication Cassandra lets operators change.
#[must_use]
pub fn is_replicated_keyspace(name: &str) -> bool {
    matches!(name, AUTH | DISTRIBUTED | TRACES)
}

/// Returns a system table.
#[must_use]
pub fn find(keyspace: &str, table: &str) -> Option<&'static SystemTable> {
    tables().iter().find(|found| found.keyspace == keyspace && found.name == table)
}

/// Returns `true` if a role without permission on a system table may read it: all of its rows, or
/// those of its own.
pub(crate) fn is_readable(keyspace: &str, table: &str) -> bool {
    let found = find(keyspace, table);
    found.is_some_and(|table| table.is_readable() || table.has_owned_rows())
}

/// Returns the system tables by keyspace and name.
#[must_use]
pub fn tables() -> &'static [SystemTable] {
    &TABLES
}

static TABLES: LazyLock<Vec<SystemTable>> = LazyLock::new(|| {
    let before = [
        builds::index_info(),
        builds::built_views_table(),
        activity::compaction_history(),
        local(),
        peers(),
        peers_v2(),
        size_estimates(),
        activity::sstable_activity(),
        table_estimates(),
        builds::view_builds_in_progress(),
    ];
    let after = [
        builds::view_build_status(),
        aggregates(),
        column_masks(),
        columns(),
        dropped_columns(),
        functions(),
        indexes(),
        keyspaces(),
        schema_tables(),
        triggers(),
        types(),
        views(),
        trace_events(),
        trace_sessions(),
        bottleneck(),
        clients(),
        statement_statistics::conflicts_table(),
        index_states(),
        row_waits::lost_rows_table(),
        view_states(),
        queries::queries_table(),
        row_waits::waits_table(),
        activity::service_levels_table(),
        settings(),
        statement_statistics::statistics_table(),
        activity::thread_pools_table(),
        transactions(),
        virtual_columns(),
        virtual_keyspaces(),
        virtual_tables(),
    ];
    let mut all: Vec<_> = before.into_iter().chain(auth::tables()).chain(after).collect();
    all.extend(table_statistics::tables());
    let place = |keyspace| KEYSPACES.iter().position(|name| *name == keyspace);
    all.sort_by_key(|table| (place(table.keyspace), table.name));
    all
});

fn local() -> SystemTable {
    SystemTable {
        keyspace: SYSTEM,
        name: "local",
        comment: "information about the local node",
        uuid: Uuid::from_u128(0x7ad54392_bcdd_35a6_8417_4e047860b377),
        content: Content::Local,
        columns: vec![
            partition("key", DataType::Text),
            regular("bootstrapped", DataType::Text),
            regular("broadcast_address", DataType::Inet),
            regular("broadcast_port", DataType::Int),
            regular("cluster_name", DataType::Text),
            regular("cql_version", DataType::Text),
            regular("data_center", DataType::Text),
            regular("gossip_generation", DataType::Int),
            regular("host_id", DataType::Uuid),
            regular("listen_address", DataType::Inet),
            regular("listen_port", DataType::Int),
            regular("native_protocol_version", DataType::Text),
            regular("partitioner", DataType::Text),
            regular("rack", DataType::Text),
            regular("release_version", DataType::Text),
            regular("rpc_address", DataType::Inet),
            regular("rpc_port", DataType::Int),
            regular("schema_version", DataType::Uuid),
            regular("tokens", DataType::set(DataType::Text)),
            regular("truncated_at", DataType::map(DataType::Uuid, DataType::Blob)),
        ],
    }
}

fn peers() -> SystemTable {
    SystemTable {
        keyspace: SYSTEM,
        name: "peers",
        comment: "information about known peers in the cluster",
        uuid: Uuid::from_u128(0x37f71aca_7dc2_383b_a706_72528af04d4f),
        content: Content::Peers,
        columns: vec![
            partition("peer", DataType::Inet),
            regular("data_center", DataType::Text),
            regular("host_id", DataType::Uuid),
            regular("preferred_ip", DataType::Inet),
            regular("rack", DataType::Text),
            regular("release_version", DataType::Text),
            regular("rpc_address", DataType::Inet),
            regular("schema_version", DataType::Uuid),
            regular("tokens", DataType::set(DataType::Text)),
        ],
    }
}

fn peers_v2() -> SystemTable {
    SystemTable {
        keyspace: SYSTEM,
        name: "peers_v2",
        comment: "information about known peers in the cluster",
        uuid: Uuid::from_u128(0xc4325fbb_8e5e_3baf_bd07_0f9250ed818e),
        content: Content::PeersV2,
        columns: vec![
            partition("peer", DataType::Inet),
            clustering("peer_port", DataType::Int),
            regular("data_center", DataType::Text),
            regular("host_id", DataType::Uuid),
            regular("native_address", DataType::Inet),
            regular("native_port", DataType::Int),
            regular("preferred_ip", DataType::Inet),
            regular("preferred_port", DataType::Int),
            regular("rack", DataType::Text),
            regular("release_version", DataType::Text),
            regular("schema_version", DataType::Uuid),
            regular("tokens", DataType::set(DataType::Text)),
        ],
    }
}

fn size_estimates() -> SystemTable {
    SystemTable {
        keyspace: SYSTEM,
        name: "size_estimates",
        comment: "per-table primary range size estimates",
        uuid: Uuid::from_u128(0x618f817b_005f_3678_b8a4_53f3930b8e86),
        content: Content::Estimates,
        columns: vec![
            partition("keyspace_name", DataType::Text),
            clustering("table_name", DataType::Text),
            clustering("range_start", DataType::Text),
            clustering("range_end", DataType::Text),
            regular("mean_partition_size", DataType::Bigint),
            regular("partitions_count", DataType::Bigint),
        ],
    }
}

fn table_estimates() -> SystemTable {
    SystemTable {
        keyspace: SYSTEM,
        name: "table_estimates",
        comment: "per-table range size estimates",
        uuid: Uuid::from_u128(0x176c39cd_b93d_33a5_a218_8eb06a56f66e),
        content: Content::Estimates,
        columns: vec![
            partition("keyspace_name", DataType::Text),
            clustering("table_name", DataType::Text),
            clustering("range_type", DataType::Text),
            clustering("range_start", DataType::Text),
            clustering("range_end", DataType::Text),
            regular("mean_partition_size", DataType::Bigint),
            regular("partitions_count", DataType::Bigint),
        ],
    }
}

fn aggregates() -> SystemTable {
    SystemTable {
        keyspace: SCHEMA,
        name: "aggregates",
        comment: "user defined aggregate definitions",
        uuid: Uuid::from_u128(0x924c5587_2e3a_345b_b10c_12f37c1ba895),
        content: Content::Nothing,
        columns: vec![
            partition("keyspace_name", DataType::Text),
            clustering("aggregate_name", DataType::Text),
            clustering("argument_types", DataType::list(DataType::Text)).frozen(),
            regular("final_func", DataType::Text),
            regular("initcond", DataType::Text),
            regular("return_type", DataType::Text),
            regular("state_func", DataType::Text),
            regular("state_type", DataType::Text),
        ],
    }
}

fn column_masks() -> SystemTable {
    SystemTable {
        keyspace: SCHEMA,
        name: "column_masks",
        comment: "column dynamic data masks",
        uuid: Uuid::from_u128(0x738cc5ed_0168_3268_b9d1_853d4bc278af),
        content: Content::Nothing,
        columns: vec![
            partition("keyspace_name", DataType::Text),
            clustering("table_name", DataType::Text),
            clustering("column_name", DataType::Text),
            regular("function_argument_nulls", DataType::list(DataType::Boolean)).frozen(),
            regular("function_argument_types", DataType::list(DataType::Text)).frozen(),
            regular("function_argument_values", DataType::list(DataType::Text)).frozen(),
            regular("function_keyspace", DataType::Text),
            regular("function_name", DataType::Text),
        ],
    }
}

fn columns() -> SystemTable {
    SystemTable {
        keyspace: SCHEMA,
        name: "columns",
        comment: "column definitions",
        uuid: Uuid::from_u128(0x24101c25_a2ae_3af7_87c1_b40ee1aca33f),
        content: Content::Columns,
        columns: columns_of_columns(),
    }
}

fn dropped_columns() -> SystemTable {
    SystemTable {
        keyspace: SCHEMA,
        name: "dropped_columns",
        comment: "dropped column registry",
        uuid: Uuid::from_u128(0x5e7583b5_f3f4_3af1_9a39_b7e1d6f5f11f),
        content: Content::DroppedColumns,
        columns: vec![
            partition("keyspace_name", DataType::Text),
            clustering("table_name", DataType::Text),
            clustering("column_name", DataType::Text),
            regular("dropped_time", DataType::Timestamp),
            regular("kind", DataType::Text),
            regular("type", DataType::Text),
        ],
    }
}

fn functions() -> SystemTable {
    SystemTable {
        keyspace: SCHEMA,
        name: "functions",
        comment: "user defined function definitions",
        uuid: Uuid::from_u128(0x96489b79_80be_3e14_a701_66a0b9159450),
        content: Content::Nothing,
        columns: vec![
            partition("keyspace_name", DataType::Text),
            clustering("function_name", DataType::Text),
            clustering("argument_types", DataType::list(DataType::Text)).frozen(),
            regular("argument_names", DataType::list(DataType::Text)).frozen(),
            regular("body", DataType::Text),
            regular("called_on_null_input", DataType::Boolean),
            regular("language", DataType::Text),
            regular("return_type", DataType::Text),
        ],
    }
}

fn indexes() -> SystemTable {
    SystemTable {
        keyspace: SCHEMA,
        name: "indexes",
        comment: "secondary index definitions",
        uuid: Uuid::from_u128(0x0feb57ac_311f_382f_ba6d_9024d305702f),
        content: Content::Indexes,
        columns: vec![
            partition("keyspace_name", DataType::Text),
            clustering("table_name", DataType::Text),
            clustering("index_name", DataType::Text),
            regular("kind", DataType::Text),
            regular("options", DataType::map(DataType::Text, DataType::Text)).frozen(),
        ],
    }
}

fn index_states() -> SystemTable {
    SystemTable {
        keyspace: VIEWS,
        name: "indexes",
        comment: "state of secondary indexes",
        uuid: Uuid::from_u128(0x4f6d0c1e_94a7_3b52_8d4e_2c1f7ab09e63),
        content: Content::IndexStates,
        columns: vec![
            partition("keyspace_name", DataType::Text),
            clustering("index_name", DataType::Text),
            regular("failure", DataType::Text),
            regular("is_building", DataType::Boolean),
            regular("is_queryable", DataType::Boolean),
            regular("part_read", DataType::Double),
            regular("partitions", DataType::Int),
            regular("rows_read", DataType::Bigint),
            regular("state", DataType::Text),
            regular("table_name", DataType::Text),
            regular("target", DataType::Text),
        ],
    }
}

fn keyspaces() -> SystemTable {
    SystemTable {
        keyspace: SCHEMA,
        name: "keyspaces",
        comment: "keyspace definitions",
        uuid: Uuid::from_u128(0xabac5682_dea6_31c5_b535_b3d6cffd0fb6),
        content: Content::Keyspaces,
        columns: vec![
            partition("keyspace_name", DataType::Text),
            regular("durable_writes", DataType::Boolean),
            regular("replication", DataType::map(DataType::Text, DataType::Text)).frozen(),
        ],
    }
}

fn schema_tables() -> SystemTable {
    let mut columns = vec![
        partition("keyspace_name", DataType::Text),
        clustering("table_name", DataType::Text),
        regular("flags", DataType::set(DataType::Text)).frozen(),
    ];
    columns.extend(option_columns());
    SystemTable {
        keyspace: SCHEMA,
        name: "tables",
        comment: "table definitions",
        uuid: Uuid::from_u128(0xafddfb9d_bc1e_3068_8056_eed6c302ba09),
        content: Content::Tables,
        columns: by_name(columns),
    }
}

fn triggers() -> SystemTable {
    SystemTable {
        keyspace: SCHEMA,
        name: "triggers",
        comment: "trigger definitions",
        uuid: Uuid::from_u128(0x4df70b66_6b05_3251_95a1_32b54005fd48),
        content: Content::Nothing,
        columns: vec![
            partition("keyspace_name", DataType::Text),
            clustering("table_name", DataType::Text),
            clustering("trigger_name", DataType::Text),
            regular("options", DataType::map(DataType::Text, DataType::Text)).frozen(),
        ],
    }
}

fn types() -> SystemTable {
    SystemTable {
        keyspace: SCHEMA,
        name: "types",
        comment: "user defined type definitions",
        uuid: Uuid::from_u128(0x5a8b1ca8_6602_3f77_a045_9273d308917a),
        content: Content::Types,
        columns: vec![
            partition("keyspace_name", DataType::Text),
            clustering("type_name", DataType::Text),
            regular("field_names", DataType::list(DataType::Text)).frozen(),
            regular("field_types", DataType::list(DataType::Text)).frozen(),
        ],
    }
}

fn views() -> SystemTable {
    let mut columns = vec![
        partition("keyspace_name", DataType::Text),
        clustering("view_name", DataType::Text),
        regular("base_table_id", DataType::Uuid),
        regular("base_table_name", DataType::Text),
        regular("include_all_columns", DataType::Boolean),
        regular("where_clause", DataType::Text),
    ];
    columns.extend(option_columns());
    SystemTable {
        keyspace: SCHEMA,
        name: "views",
        comment: "view definitions",
        uuid: Uuid::from_u128(0x9786ac1c_dd58_3201_a7cd_ad556410c985),
        content: Content::Views,
        columns: by_name(columns),
    }
}

fn view_states() -> SystemTable {
    SystemTable {
        keyspace: VIEWS,
        name: "materialized_views",
        comment: "state of materialized views",
        uuid: Uuid::from_u128(0x7b1d9a52_3c0f_3e64_9a27_5d8e41c6f0b9),
        content: Content::ViewStates,
        columns: vec![
            partition("keyspace_name", DataType::Text),
            clustering("view_name", DataType::Text),
            regular("base_table_name", DataType::Text),
            regular("failure", DataType::Text),
            regular("is_building", DataType::Boolean),
            regular("is_queryable", DataType::Boolean),
            regular("part_read", DataType::Double),
            regular("rows_read", DataType::Bigint),
            regular("state", DataType::Text),
        ],
    }
}

fn trace_events() -> SystemTable {
    SystemTable {
        keyspace: TRACES,
        name: "events",
        comment: "tracing events",
        uuid: Uuid::from_u128(0x8826e8e9_e16a_3728_8753_3bc1fc713c25),
        content: Content::TraceEvents,
        columns: vec![
            partition("session_id", DataType::Uuid),
            clustering("event_id", DataType::Timeuuid),
            regular("activity", DataType::Text),
            regular("source", DataType::Inet),
            regular("source_elapsed", DataType::Int),
            regular("source_port", DataType::Int),
            regular("thread", DataType::Text),
        ],
    }
}

fn trace_sessions() -> SystemTable {
    SystemTable {
        keyspace: TRACES,
        name: "sessions",
        comment: "tracing sessions",
        uuid: Uuid::from_u128(0xc5e99f16_8677_3914_b17e_960613512345),
        content: Content::TraceSessions,
        columns: vec![
            partition("session_id", DataType::Uuid),
            regular("client", DataType::Inet),
            regular("command", DataType::Text),
            regular("coordinator", DataType::Inet),
            regular("coordinator_port", DataType::Int),
            regular("duration", DataType::Int),
            regular("parameters", DataType::map(DataType::Text, DataType::Text)),
            regular("request", DataType::Text),
            regular("started_at", DataType::Timestamp),
        ],
    }
}

fn clients() -> SystemTable {
    SystemTable {
        keyspace: VIEWS,
        name: "clients",
        comment: "currently connected clients",
        uuid: Uuid::nil(),
        content: Content::Clients,
        columns: vec![
            partition("address", DataType::Inet),
            clustering("port", DataType::Int),
            regular("client_options", DataType::map(DataType::Text, DataType::Text)).frozen(),
            regular("connection_stage", DataType::Text),
            regular("driver_name", DataType::Text),
            regular("driver_version", DataType::Text),
            regular("hostname", DataType::Text),
            regular("protocol_version", DataType::Int),
            regular("request_count", DataType::Bigint),
            regular("ssl_cipher_suite", DataType::Text),
            regular("ssl_enabled", DataType::Boolean),
            regular("ssl_protocol", DataType::Text),
            regular("username", DataType::Text),
        ],
    }
}

fn settings() -> SystemTable {
    SystemTable {
        keyspace: VIEWS,
        name: "settings",
        comment: "current settings",
        uuid: Uuid::nil(),
        content: Content::Settings,
        columns: vec![partition("name", DataType::Text), regular("value", DataType::Text)],
    }
}

fn bottleneck() -> SystemTable {
    SystemTable {
        keyspace: VIEWS,
        name: "bottleneck",
        comment: "what statements waited for in the last 10 s",
        uuid: Uuid::nil(),
        content: Content::Bottleneck,
        columns: vec![
            partition("rank", DataType::Int),
            regular("explanation", DataType::Text),
            regular("level", DataType::Text),
            regular("share", DataType::Double),
            regular("statement", DataType::Text),
            regular("table_name", DataType::Text),
            regular("user_name", DataType::Text),
            regular("waited_seconds", DataType::Double),
            regular("waits", DataType::Bigint),
            regular("why", DataType::Text),
        ],
    }
}

fn transactions() -> SystemTable {
    SystemTable {
        keyspace: VIEWS,
        name: "transactions",
        comment: "open transactions, oldest snapshot first",
        uuid: Uuid::nil(),
        content: Content::Transactions,
        columns: vec![
            partition("number", DataType::Int),
            regular("age_seconds", DataType::Double),
            regular("client", DataType::Text),
            regular("id", DataType::Uuid),
            regular("idle_seconds", DataType::Double),
            regular("isolation", DataType::Text),
            regular("read_timestamp", DataType::Bigint),
            regular("since", DataType::Timestamp),
            regular("start_timestamp", DataType::Bigint),
            regular("statement", DataType::Text),
        ],
    }
}

fn virtual_columns() -> SystemTable {
    SystemTable {
        keyspace: VIRTUAL_SCHEMA,
        name: "columns",
        comment: "virtual column definitions",
        uuid: Uuid::nil(),
        content: Content::VirtualColumns,
        columns: columns_of_columns(),
    }
}

fn virtual_keyspaces() -> SystemTable {
    SystemTable {
        keyspace: VIRTUAL_SCHEMA,
        name: "keyspaces",
        comment: "virtual keyspace definitions",
        uuid: Uuid::nil(),
        content: Content::VirtualKeyspaces,
        columns: vec![partition("keyspace_name", DataType::Text)],
    }
}

fn virtual_tables() -> SystemTable {
    SystemTable {
        keyspace: VIRTUAL_SCHEMA,
        name: "tables",
        comment: "virtual table definitions",
        uuid: Uuid::nil(),
        content: Content::VirtualTables,
        columns: vec![
            partition("keyspace_name", DataType::Text),
            clustering("table_name", DataType::Text),
            regular("comment", DataType::Text),
        ],
    }
}

/// Returns the columns of both tables that list columns.
fn columns_of_columns() -> Vec<SystemColumn> {
    vec![
        partition("keyspace_name", DataType::Text),
        clustering("table_name", DataType::Text),
        clustering("column_name", DataType::Text),
        regular("clustering_order", DataType::Text),
        regular("column_name_bytes", DataType::Blob),
        regular("kind", DataType::Text),
        regular("position", DataType::Int),
        regular("type", DataType::Text),
    ]
}

/// Returns the columns that tables and views have in common.
fn option_columns() -> Vec<SystemColumn> {
    vec![
        regular("additional_write_policy", DataType::Text),
        regular("allow_auto_snapshot", DataType::Boolean),
        regular("bloom_filter_fp_chance", DataType::Double),
        regular("caching", DataType::map(DataType::Text, DataType::Text)).frozen(),
        regular("cdc", DataType::Boolean),
        regular("comment", DataType::Text),
        regular("compaction", DataType::map(DataType::Text, DataType::Text)).frozen(),
        regular("compression", DataType::map(DataType::Text, DataType::Text)).frozen(),
        regular("crc_check_chance", DataType::Double),
        regular("dclocal_read_repair_chance", DataType::Double),
        regular("default_time_to_live", DataType::Int),
        regular("extensions", DataType::map(DataType::Text, DataType::Blob)).frozen(),
        regular("gc_grace_seconds", DataType::Int),
        regular("id", DataType::Uuid),
        regular("incremental_backups", DataType::Boolean),
        regular("max_index_interval", DataType::Int),
        regular("memtable", DataType::Text),
        regular("memtable_flush_period_in_ms", DataType::Int),
        regular("min_index_interval", DataType::Int),
        regular("read_repair", DataType::Text),
        regular("read_repair_chance", DataType::Double),
        regular("speculative_retry", DataType::Text),
    ]
}

/// Sorts the regular columns after the key.
fn by_name(mut columns: Vec<SystemColumn>) -> Vec<SystemColumn> {
    let is_regular = |column: &SystemColumn| column.kind == ColumnKind::Regular;
    columns.sort_by_key(|column| (is_regular(column), is_regular(column).then_some(column.name)));
    columns
}
