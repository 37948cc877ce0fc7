//! Tables of built indexes and views, as Cassandra has them.

use carnet::catalog::{self, TableSchema, ViewSchema};
use carnet::derived::{BuildProgress, Derived};
use carnet::{DataType, Result, Tx, Uuid};

use super::encode::{self, Cell};
use super::table::{Content, DISTRIBUTED, SYSTEM, SystemTable, clustering, partition, regular};

pub(super) fn index_info() -> SystemTable {
    SystemTable {
        keyspace: SYSTEM,
        name: "IndexInfo",
        comment: "built column indexes",
        uuid: Uuid::from_u128(0x9f5c6374_d485_3229_9a0a_5094af9ad1e3),
        content: Content::BuiltIndexes,
        // In Cassandra, too, the column `table_name` has the keyspace.
        columns: vec![
            partition("table_name", DataType::Text),
            clustering("index_name", DataType::Text),
            regular("value", DataType::Blob),
        ],
    }
}

pub(super) fn built_views_table() -> SystemTable {
    SystemTable {
        keyspace: SYSTEM,
        name: "built_views",
        comment: "built views",
        uuid: Uuid::from_u128(0x4b3c50a9_ea87_3d76_9101_6dbc9c38494a),
        content: Content::BuiltViews,
        columns: vec![
            partition("keyspace_name", DataType::Text),
            clustering("view_name", DataType::Text),
            regular("status_replicated", DataType::Boolean),
        ],
    }
}

pub(super) fn view_builds_in_progress() -> SystemTable {
    SystemTable {
        keyspace: SYSTEM,
        name: "view_builds_in_progress",
        comment: "views builds current progress",
        uuid: Uuid::from_u128(0x6c22df66_c3bd_3df6_b74d_21179c6a9fe9),
        content: Content::ViewBuilds,
        columns: vec![
            partition("keyspace_name", DataType::Text),
            clustering("view_name", DataType::Text),
            clustering("start_token", DataType::Text),
            clustering("end_token", DataType::Text),
            regular("keys_built", DataType::Bigint),
            regular("last_token", DataType::Text),
        ],
    }
}

pub(super) fn view_build_status() -> SystemTable {
    SystemTable {
        keyspace: DISTRIBUTED,
        name: "view_build_status",
        comment: "Materialized View build status",
        uuid: Uuid::from_u128(0x5582b59f_8e4e_35e1_b913_3acada51eb04),
        content: Content::ViewBuildStatus,
        columns: vec![
            partition("keyspace_name", DataType::Text),
            partition("view_name", DataType::Text),
            clustering("host_id", DataType::Uuid),
            regular("status", DataType::Text),
        ],
    }
}

/// Returns the indexes that can be queried.
pub(super) async fn built_indexes(table: &SystemTable, tx: &Tx) -> Result<Vec<Vec<Cell>>> {
    let mut rows = Vec::new();
    for schema in all_tables(tx).await? {
        for index in schema.indexes.iter().filter(|index| index.is_built) {
            rows.push(table.row([
                ("table_name", encode::text(&schema.keyspace)),
                ("index_name", encode::text(&index.name)),
            ]));
        }
    }
    Ok(rows)
}

/// Returns the views that can be queried.
pub(super) async fn built_views(table: &SystemTable, tx: &Tx) -> Result<Vec<Vec<Cell>>> {
    let mut rows = Vec::new();
    for schema in all_tables(tx).await? {
        for view in schema.views.iter().filter(|view| view.is_built) {
            rows.push(table.row([
                ("keyspace_name", encode::text(&schema.keyspace)),
                ("view_name", encode::text(&view.name)),
                ("status_replicated", encode::boolean(true)),
            ]));
        }
    }
    Ok(rows)
}

/// Returns the views that are being built: one range of all tokens each.
pub(super) async fn views_in_progress(table: &SystemTable, tx: &Tx) -> Result<Vec<Vec<Cell>>> {
    let mut rows = Vec::new();
    for schema in all_tables(tx).await? {
        for view in schema.views.iter().filter(|view| view.is_building()) {
            let progress = BuildProgress::read(tx, &Derived::view(&schema, view)?).await?;
            let end = || encode::text(&i64::MIN.to_string());
            rows.push(table.row([
                ("keyspace_name", encode::text(&schema.keyspace)),
                ("view_name", encode::text(&view.name)),
                ("start_token", end()),
                ("end_token", end()),
                ("keys_built", encode::count(progress.rows)),
            ]));
        }
    }
    Ok(rows)
}

/// Returns the state of the build of each view, in Cassandra's words. A build is one for all servers; it
/// is shown as that of the server that is asked.
pub(super) async fn status(table: &SystemTable, tx: &Tx, host: Uuid) -> Result<Vec<Vec<Cell>>> {
    let word = |view: &ViewSchema| if view.is_built { "SUCCESS" } else { "STARTED" };
    let mut rows = Vec::new();
    for schema in all_tables(tx).await? {
        for view in &schema.views {
            rows.push(table.row([
                ("keyspace_name", encode::text(&schema.keyspace)),
                ("view_name", encode::text(&view.name)),
                ("host_id", encode::uuid(host)),
                ("status", encode::text(word(view))),
            ]));
        }
    }
    Ok(rows)
}

async fn all_tables(tx: &Tx) -> Result<Vec<TableSchema>> {
    let mut all = Vec::new();
    for keyspace in catalog::keyspaces(tx).await? {
        all.extend(catalog::tables(tx, &keyspace.name).await?);
    }
    Ok(all)
}
