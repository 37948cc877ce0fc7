//! Rows of the system tables.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use carnet::catalog::{
    self, BuildFailure, ColumnKind, DroppedColumn, IndexSchema, TableSchema, ViewSchema,
};
use carnet::derived::{BuildProgress, Derived};
use carnet::table_statistics::table_statistics;
use carnet::{Db, Result, Timestamp, Tx, Uuid};
use carnet_admission::diagnosis::Report;
use carnet_admission::{Class, Figures};
use carnet_data::Order;

use super::activity::{self, LevelFigures};
use super::auth::{self, RolesView};
use super::bottleneck;
use super::builds;
use super::column_view::ColumnView;
use super::compact::Compact;
use super::encode::{self, Cell};
use super::estimates;
use super::node::{
    CQL_VERSION, Client, NATIVE_PROTOCOL_VERSION, NodeInfo, PARTITIONER, RELEASE_VERSION,
};
use super::open::{self, OpenTransaction};
use super::peers::Peer;
use super::queries::{self, RunningRow};
use super::row_waits::{self, HotRow, RowWait};
use super::settings::{self, StatementSettings};
use super::statement_statistics::{self, ConflictRow, StatisticsRow};
use super::table::{Content, SystemTable};
use super::table_statistics;
use super::traces;
use super::view::{self, IndexView, KeyspaceView, TableView, TypeView};
use crate::trace::Trace;

type Row = Vec<Cell>;

/// What the rows of system tables are made from, beside the catalog.
pub(crate) struct Sources<'a> {
    pub(crate) node: &'a NodeInfo,
    pub(crate) db: &'a Db,
    /// Other servers of the database.
    pub(crate) peers: &'a [Peer],
    /// Lists the open transactions of this server.
    pub(crate) open: &'a (dyn Fn() -> Vec<OpenTransaction> + Sync),
    /// Lists the running statements of this server.
    pub(crate) running: &'a (dyn Fn() -> Vec<RunningRow> + Sync),
    /// Lists the figures of statements by fingerprint.
    pub(crate) statistics: &'a (dyn Fn() -> Vec<StatisticsRow> + Sync),
    /// Lists the statements that lost a row.
    pub(crate) conflicts: &'a (dyn Fn() -> Vec<ConflictRow> + Sync),
    /// Lists the places in the queues of rows.
    pub(crate) row_waits: &'a (dyn Fn() -> Vec<RowWait> + Sync),
    /// Lists the rows that statements lost lately.
    pub(crate) hot_rows: &'a (dyn Fn() -> Vec<HotRow> + Sync),
    /// Rows of the open transactions of other servers.
    pub(crate) open_elsewhere: &'a [Row],
    /// Returns the waits of statements, if they are measured.
    pub(crate) report: &'a (dyn Fn() -> Option<Report> + Sync),
    /// Returns the numbers of statements of a class, if this process admits statements.
    pub(crate) figures: &'a (dyn Fn(Class) -> Option<Figures> + Sync),
    /// Returns the figures of the levels in a class, with their names and shares.
    pub(crate) levels: &'a (dyn Fn(Class) -> Vec<LevelFigures> + Sync),
    /// Returns `true` for a keyspace whose rows are wanted, in the tables that list keyspaces, tables and
    /// columns. Rows of other keyspaces may be missing.
    pub(crate) wants_keyspace: &'a (dyn Fn(&str) -> bool + Sync),
    /// Returns `true` for a table whose rows are wanted, by its keyspace and name, in the tables whose key
    /// begins with these. Rows of other tables may be missing.
    pub(crate) wants: &'a (dyn Fn(&str, &str) -> bool + Sync),
    /// Number of rows after which further ones may be missing, if rows are wanted in the order of the key.
    pub(crate) rows_max: Option<usize>,
    pub(crate) settings: StatementSettings,
    /// Settings of the server, with their values.
    pub(crate) own_settings: &'a [(String, String)],
    /// Returns the roles; they are needed for the tables that show them.
    pub(crate) roles: RolesView<'a>,
    /// Lists the kept traces.
    pub(crate) traces: &'a (dyn Fn() -> Vec<Arc<Trace>> + Sync),
}

/// Returns all rows of a table, in the order of its key: partitions are sorted by their names or
/// addresses, too, and not by their tokens.
///
/// Each row has a value for each column of the table, in that order and in Cassandra's
/// serialization; `None` is null.
///
/// # Errors
///
/// See [`Tx::get_cell`].
pub(crate) async fn rows(table: &SystemTable, tx: &Tx, sources: &Sources<'_>) -> Result<Vec<Row>> {
    let Sources { node, peers, .. } = *sources;
    Ok(match table.content {
        Content::Nothing => Vec::new(),
        Content::Local => vec![local(table, node, schema_version(tx).await?)],
        Content::Peers => {
            let version = schema_version(tx).await?;
            // The table has no ports: clients assume this node's port for all peers.
            let is_like = |peer: &&Peer| {
                peer.address.port() == node.port && peer.address.ip() != node.address
            };
            peers.iter().filter(is_like).map(|found| peer(table, found, version)).collect()
        }
        Content::PeersV2 => {
            let version = schema_version(tx).await?;
            peers.iter().map(|found| peer_v2(table, found, version)).collect()
        }
        Content::Clients => clients(table, node),
        Content::Transactions => open::rows(table, &(sources.open)(), sources.open_elsewhere),
        Content::Bottleneck => {
            (sources.report)().map_or_else(Vec::new, |report| bottleneck::rows(table, &report))
        }
        Content::BuiltIndexes => builds::built_indexes(table, tx).await?,
        Content::BuiltViews => builds::built_views(table, tx).await?,
        Content::ViewBuilds => builds::views_in_progress(table, tx).await?,
        Content::ViewBuildStatus => builds::status(table, tx, node.host_id).await?,
        Content::Statistics => statement_statistics::statistics(table, &(sources.statistics)()),
        Content::Conflicts => statement_statistics::conflicts(table, &(sources.conflicts)()),
        Content::RowWaits => row_waits::waits(table, &(sources.row_waits)()),
        Content::LostRows => row_waits::lost_rows(table, &(sources.hot_rows)()),
        Content::Queries => queries::rows(table, &(sources.running)()),
        Content::ServiceLevels => activity::service_levels(table, sources.levels),
        Content::TableStatistics(shown) => {
            let all = table_statistics(sources.db, tx).await?;
            let counted_for = sources.db.counted_for().unwrap_or_default();
            table_statistics::rows(table, shown, &all, counted_for)
        }
        Content::ThreadPools => activity::thread_pools(table, sources.figures),
        Content::Roles
        | Content::RoleMembers
        | Content::RolePermissions
        | Content::RolesOfResources
        | Content::Identities => auth::rows(table, &sources.roles),
        Content::Estimates => estimates::rows(table, tx, node, peers, sources.wants).await?,
        Content::Settings => settings::rows(table, node, sources.settings, sources.own_settings),
        Content::TraceSessions => traces::sessions(table, node, &(sources.traces)()),
        Content::TraceEvents => traces::events(table, node, &(sources.traces)()),
        Content::Keyspaces => {
            let views = views(tx, sources, false).await?;
            views.iter().map(|view| keyspace(table, view)).collect()
        }
        Content::Tables => {
            let views = views(tx, sources, false).await?;
            let tables = tables_of(&views).filter(|view| view.definition.is_none());
            tables.map(|view| schema_table(table, view)).collect()
        }
        Content::DroppedColumns => {
            let views = views(tx, sources, false).await?;
            let of_table = |view| dropped_columns(table, view);
            tables_of(&views).flat_map(of_table).collect()
        }
        Content::Columns => columns(table, tx, sources, &views(tx, sources, false).await?).await,
        Content::Indexes => {
            let views = views(tx, sources, false).await?;
            let of_table = |view| indexes(table, view);
            tables_of(&views).flat_map(of_table).collect()
        }
        Content::IndexStates => index_states(table, tx).await?,
        Content::Views => {
            let views = views(tx, sources, false).await?;
            tables_of(&views).filter_map(|view| schema_view(table, view)).collect()
        }
        Content::ViewStates => view_states(table, tx).await?,
        Content::Types => {
            let views = views(tx, sources, false).await?;
            views.iter().flat_map(|view| &view.types).map(|view| user_type(table, view)).collect()
        }
        Content::VirtualKeyspaces => {
            let views = views(tx, sources, true).await?;
            let row =
                |view: &KeyspaceView| table.row([("keyspace_name", encode::text(&view.name))]);
            views.iter().map(row).collect()
        }
        Content::VirtualTables => {
            let views = views(tx, sources, true).await?;
            tables_of(&views).map(|view| virtual_table(table, view)).collect()
        }
        Content::VirtualColumns => {
            columns(table, tx, sources, &views(tx, sources, true).await?).await
        }
    })
}

/// Returns a UUID that changes whenever the schema does; drivers check by it whether all nodes
/// agree on the schema.
///
/// # Errors
///
/// See [`Tx::get_cell`].
pub async fn schema_version(tx: &Tx) -> Result<Uuid> {
    catalog::version(tx).await.map(version_uuid)
}

/// The last 8 bytes hold the timestamp; their first bit is 0 in a timestamp and 1 in a UUID.
/// Version 8 is for application-defined layouts. Source: RFC 9562, section 5.8.
fn version_uuid(version: Timestamp) -> Uuid {
    const PREFIX: u128 = 0x6361_726e_6574_8000 << 64;
    const VARIANT: u128 = 1 << 63;
    Uuid::from_u128(PREFIX | VARIANT | u128::from(version.get()))
}

async fn views(tx: &Tx, sources: &Sources<'_>, is_virtual: bool) -> Result<Vec<KeyspaceView>> {
    let Sources { node, wants_keyspace, wants, .. } = sources;
    let mut views = view::wanted(tx, &node.data_center, wants_keyspace, wants).await?;
    views.retain(|view| view.is_virtual == is_virtual);
    Ok(views)
}

fn tables_of(views: &[KeyspaceView]) -> impl Iterator<Item = &TableView> {
    views.iter().flat_map(|view| &view.tables)
}

fn local(table: &SystemTable, node: &NodeInfo, version: Uuid) -> Row {
    let address = || encode::inet(node.address);
    let port = || encode::int(node.port.into());
    table.row([
        ("key", encode::text("local")),
        ("bootstrapped", encode::text("COMPLETED")),
        ("broadcast_address", address()),
        ("broadcast_port", port()),
        ("cluster_name", encode::text(&node.cluster_name)),
        ("cql_version", encode::text(CQL_VERSION)),
        ("data_center", encode::text(&node.data_center)),
        ("gossip_generation", encode::int(node.started_secs)),
        ("host_id", encode::uuid(node.host_id)),
        ("listen_address", address()),
        ("listen_port", port()),
        ("native_protocol_version", encode::text(NATIVE_PROTOCOL_VERSION)),
        ("partitioner", encode::text(PARTITIONER)),
        ("rack", encode::text(&node.rack)),
        ("release_version", encode::text(RELEASE_VERSION)),
        ("rpc_address", address()),
        ("rpc_port", port()),
        ("schema_version", encode::uuid(version)),
        ("tokens", tokens(&node.tokens)),
    ])
}

fn tokens(tokens: &[String]) -> Cell {
    encode::texts(tokens.iter().map(String::as_str))
}

fn peer(table: &SystemTable, peer: &Peer, version: Uuid) -> Row {
    table.row([
        ("peer", encode::inet(peer.address.ip())),
        ("data_center", encode::text(&peer.data_center)),
        ("host_id", encode::uuid(peer.host_id)),
        ("rack", encode::text(&peer.rack)),
        ("release_version", encode::text(RELEASE_VERSION)),
        ("rpc_address", encode::inet(peer.address.ip())),
        ("schema_version", encode::uuid(version)),
        ("tokens", tokens(&peer.tokens())),
    ])
}

fn peer_v2(table: &SystemTable, peer: &Peer, version: Uuid) -> Row {
    let address = || encode::inet(peer.address.ip());
    let port = || encode::int(peer.address.port().into());
    table.row([
        ("peer", address()),
        ("peer_port", port()),
        ("data_center", encode::text(&peer.data_center)),
        ("host_id", encode::uuid(peer.host_id)),
        ("native_address", address()),
        ("native_port", port()),
        ("rack", encode::text(&peer.rack)),
        ("release_version", encode::text(RELEASE_VERSION)),
        ("schema_version", encode::uuid(version)),
        ("tokens", tokens(&peer.tokens())),
    ])
}

fn keyspace(table: &SystemTable, view: &KeyspaceView) -> Row {
    let replication = view.replication.iter().map(|(key, value)| (key.as_str(), value.as_str()));
    table.row([
        ("keyspace_name", encode::text(&view.name)),
        ("durable_writes", encode::boolean(view.durable_writes)),
        ("replication", encode::text_map(replication)),
    ])
}

fn schema_table(table: &SystemTable, view: &TableView) -> Row {
    let has_counters = view.columns.iter().any(|column| column.type_name == "counter");
    let mut flags = Compact::flags(view.compact, view.clustering_key().count());
    flags.extend(has_counters.then_some("counter"));
    let own = [
        ("keyspace_name", encode::text(&view.keyspace)),
        ("table_name", encode::text(&view.name)),
        // Drivers treat a table without this flag as a Thrift table.
        ("flags", encode::texts(flags.into_iter())),
    ];
    table.row_of(own.into_iter().chain(option_cells(view)))
}

fn schema_view(table: &SystemTable, view: &TableView) -> Option<Row> {
    let definition = view.definition.as_ref()?;
    let own = [
        ("keyspace_name", encode::text(&view.keyspace)),
        ("view_name", encode::text(&view.name)),
        ("base_table_id", encode::uuid(definition.base_uuid)),
        ("base_table_name", encode::text(&definition.base)),
        ("include_all_columns", encode::boolean(definition.has_all)),
        ("where_clause", encode::text(&definition.filter)),
    ];
    Some(table.row_of(own.into_iter().chain(option_cells(view))))
}

/// Returns the values of the columns that tables and views have in common.
fn option_cells(view: &TableView) -> impl Iterator<Item = (&'static str, Cell)> {
    let option = |name: &'static str| (name, view.options.cell(name));
    [
        ("id", encode::uuid(view.uuid)),
        // These are no longer options, but still columns.
        ("dclocal_read_repair_chance", encode::double(0.0)),
        ("read_repair_chance", encode::double(0.0)),
        option("additional_write_policy"),
        option("allow_auto_snapshot"),
        option("bloom_filter_fp_chance"),
        option("caching"),
        option("cdc"),
        option("comment"),
        option("compaction"),
        option("compression"),
        option("crc_check_chance"),
        option("default_time_to_live"),
        option("extensions"),
        option("gc_grace_seconds"),
        option("incremental_backups"),
        option("max_index_interval"),
        option("memtable"),
        option("memtable_flush_period_in_ms"),
        option("min_index_interval"),
        option("read_repair"),
        option("speculative_retry"),
    ]
    .into_iter()
}

fn virtual_table(table: &SystemTable, view: &TableView) -> Row {
    table.row([
        ("keyspace_name", encode::text(&view.keyspace)),
        ("table_name", encode::text(&view.name)),
        ("comment", encode::text(&view.comment)),
    ])
}

async fn columns(
    table: &SystemTable,
    tx: &Tx,
    sources: &Sources<'_>,
    views: &[KeyspaceView],
) -> Vec<Row> {
    let mut slice = tx.time_slice();
    let mut rows = Vec::new();
    for view in tables_of(views) {
        if sources.rows_max.is_some_and(|max| rows.len() >= max) {
            break;
        }
        let hidden = view.compact.map(|kind| kind.all_columns(&view.columns));
        let mut columns: Vec<_> = hidden.as_ref().unwrap_or(&view.columns).iter().collect();
        columns.sort_by(|a, b| a.name.cmp(&b.name));
        rows.extend(columns.into_iter().map(|found| column(table, view, found)));
        if let Some(slice) = &mut slice {
            slice.check().await;
        }
    }
    rows
}

fn column(table: &SystemTable, view: &TableView, column: &ColumnView) -> Row {
    let (kind, order) = match column.kind {
        ColumnKind::Partition => ("partition_key", "none"),
        ColumnKind::Clustering(Order::Asc) => ("clustering", "asc"),
        ColumnKind::Clustering(Order::Desc) => ("clustering", "desc"),
        ColumnKind::Static => ("static", "none"),
        ColumnKind::Regular => ("regular", "none"),
    };
    table.row([
        ("keyspace_name", encode::text(&view.keyspace)),
        ("table_name", encode::text(&view.name)),
        ("column_name", encode::text(&column.name)),
        ("clustering_order", encode::text(order)),
        ("column_name_bytes", encode::text(&column.name)),
        ("kind", encode::text(kind)),
        ("position", encode::int(view.position(column))),
        ("type", encode::text(&column.type_name)),
    ])
}

fn dropped_columns(table: &SystemTable, view: &TableView) -> Vec<Row> {
    let mut dropped: Vec<&DroppedColumn> = view.dropped.iter().collect();
    dropped.sort_by(|a, b| a.name.cmp(&b.name));
    let row = |column: &DroppedColumn| {
        table.row([
            ("keyspace_name", encode::text(&view.keyspace)),
            ("table_name", encode::text(&view.name)),
            ("column_name", encode::text(&column.name)),
            ("dropped_time", encode::timestamp(column.dropped_micros.div_euclid(1_000))),
            ("kind", encode::text(if column.is_static { "static" } else { "regular" })),
            ("type", encode::text(&column.type_name)),
        ])
    };
    dropped.into_iter().map(row).collect()
}

fn indexes(table: &SystemTable, view: &TableView) -> Vec<Row> {
    let row = |index: &IndexView| {
        let class = index.class.iter().map(|class| ("class_name", class.as_str()));
        let target = [("target", index.target.as_str())];
        let given = index.options.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        let options: BTreeMap<&str, &str> = class.chain(target).chain(given).collect();
        let kind = if index.class.is_some() { "CUSTOM" } else { "COMPOSITES" };
        table.row([
            ("keyspace_name", encode::text(&view.keyspace)),
            ("table_name", encode::text(&view.name)),
            ("index_name", encode::text(&index.name)),
            ("kind", encode::text(kind)),
            ("options", encode::text_map(options.into_iter())),
        ])
    };
    view.indexes.iter().map(row).collect()
}

async fn index_states(table: &SystemTable, tx: &Tx) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for keyspace in catalog::keyspaces(tx).await? {
        let tables = catalog::tables(tx, &keyspace.name).await?;
        let mut indexes: Vec<(&TableSchema, &IndexSchema)> = Vec::new();
        for schema in &tables {
            indexes.extend(schema.indexes.iter().map(|index| (schema, index)));
        }
        indexes.sort_by_key(|(_, index)| &index.name);
        for (schema, index) in indexes {
            let progress = match index.is_building() {
                true => Some(BuildProgress::read(tx, &Derived::index(schema, index)?).await?),
                false => None,
            };
            let part = progress.as_ref().map(BuildProgress::part);
            let read = progress.map(|progress| progress.rows);
            rows.push(table.row([
                ("keyspace_name", encode::text(&schema.keyspace)),
                ("index_name", encode::text(&index.name)),
                ("failure", failure_text(index.failure.as_ref())),
                ("is_building", encode::boolean(index.is_building())),
                ("is_queryable", encode::boolean(index.is_built)),
                ("part_read", part.and_then(encode::double)),
                ("partitions", encode::int(1 << index.bits)),
                ("rows_read", read.and_then(encode::count)),
                ("state", build_state(index.is_built, index.failure.as_ref())),
                ("table_name", encode::text(&schema.name)),
                ("target", encode::text(&IndexView::new(schema, index).target)),
            ]));
        }
    }
    Ok(rows)
}

async fn view_states(table: &SystemTable, tx: &Tx) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for keyspace in catalog::keyspaces(tx).await? {
        let tables = catalog::tables(tx, &keyspace.name).await?;
        let mut views: Vec<(&TableSchema, &ViewSchema)> = Vec::new();
        for schema in &tables {
            views.extend(schema.views.iter().map(|view| (schema, view)));
        }
        views.sort_by_key(|(_, view)| &view.name);
        for (schema, view) in views {
            let progress = match view.is_building() {
                true => Some(BuildProgress::read(tx, &Derived::view(schema, view)?).await?),
                false => None,
            };
            let part = progress.as_ref().map(BuildProgress::part);
            let read = progress.map(|progress| progress.rows);
            rows.push(table.row([
                ("keyspace_name", encode::text(&schema.keyspace)),
                ("view_name", encode::text(&view.name)),
                ("base_table_name", encode::text(&schema.name)),
                ("failure", failure_text(view.failure.as_ref())),
                ("is_building", encode::boolean(view.is_building())),
                ("is_queryable", encode::boolean(view.is_built)),
                ("part_read", part.and_then(encode::double)),
                ("rows_read", read.and_then(encode::count)),
                ("state", build_state(view.is_built, view.failure.as_ref())),
            ]));
        }
    }
    Ok(rows)
}

/// Returns the state of an index or view.
fn build_state(is_built: bool, failure: Option<&BuildFailure>) -> Cell {
    encode::text(match (is_built, failure) {
        (true, _) => "built",
        (false, None) => "building",
        (false, Some(_)) => "failed",
    })
}

fn failure_text(failure: Option<&BuildFailure>) -> Cell {
    failure.and_then(|failure| encode::text(&failure.text()))
}

fn user_type(table: &SystemTable, view: &TypeView) -> Row {
    let names = view.fields.iter().map(|(name, _)| name.as_str());
    let types = view.fields.iter().map(|(_, text)| text.as_str());
    table.row([
        ("keyspace_name", encode::text(&view.keyspace)),
        ("type_name", encode::text(&view.name)),
        ("field_names", encode::texts(names)),
        ("field_types", encode::texts(types)),
    ])
}

fn clients(table: &SystemTable, node: &NodeInfo) -> Vec<Row> {
    let mut clients = node.clients.as_ref().map_or_else(Vec::new, |list| list.clients());
    clients.sort_by_key(|client| key_order(client.address));
    clients.iter().map(|found| client(table, found)).collect()
}

/// `inet` compares bytes; a shorter address precedes a longer one with the same beginning.
fn key_order(address: SocketAddr) -> (Vec<u8>, u16) {
    let bytes = match address.ip().to_canonical() {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    };
    (bytes, address.port())
}

fn client(table: &SystemTable, client: &Client) -> Row {
    let options = client.options.iter().map(|(key, value)| (key.as_str(), value.as_str()));
    let option = |name: &str| client.options.get(name).and_then(|value| encode::text(value));
    table.row([
        ("address", encode::inet(client.address.ip())),
        ("port", encode::int(client.address.port().into())),
        ("client_options", encode::text_map(options)),
        ("connection_stage", encode::text(client.stage.name())),
        ("driver_name", option("DRIVER_NAME")),
        ("driver_version", option("DRIVER_VERSION")),
        ("hostname", encode::text(&client.address.ip().to_string())),
        ("protocol_version", encode::int(client.protocol_version.into())),
        ("request_count", encode::count(client.request_count)),
        ("ssl_cipher_suite", client.tls.as_ref().and_then(|tls| encode::text(&tls.cipher_suite))),
        ("ssl_enabled", encode::boolean(client.tls.is_some())),
        ("ssl_protocol", client.tls.as_ref().and_then(|tls| encode::text(tls.version))),
        ("username", client.username.as_deref().and_then(encode::text)),
    ])
}
