//! The system tables, which drivers and cqlsh read first: the node's identity, and the existing
//! keyspaces, tables and columns.
//!
//! They have the names and types of Cassandra 5.0's, and none of them is stored:
//!
//! ```text
//! keyspace                listed in               made from
//! system                  system_schema           NodeInfo, what other servers announce, the
//!                                                 version of the catalog, and samples of tables
//! system_auth             system_schema           the roles of the catalog
//! system_distributed      system_schema           the views of the catalog
//! system_schema           system_schema           the catalog, and these tables themselves
//! system_virtual_schema   system_virtual_schema   these tables themselves
//! system_traces           system_schema           the traces that this server keeps
//! system_views            system_virtual_schema   the server's list of connections, open
//!                                                 transactions, settings, statements that run, and
//!                                                 the diagnosis
//! ```
//!
//! [`find`] returns a table's definition, `find_schema` the schema by which statements on it are
//! compiled, `rows` its rows at a transaction's snapshot. A `SELECT` reads them as those of any table
//! (`docs/design/0031-system-tables.md`).
//!
//! Invariants, each with a test that fails without it:
//!
//! * Every row has a value for every column, in the serialization of the column's type, and rows
//!   are in the order of the table's key.
//! * Every column that drivers request when they connect exists; columns that they require are not
//!   null.
//! * [`schema_version`] changes with every change of the schema, and only then.
//! * Raw tables are hidden: CQL cannot read them.
//!
//! Deliberately absent: most tables of `system_distributed`, whose data Carnet does not have.

mod activity;
mod auth;
mod bottleneck;
mod builds;
mod change;
mod column_view;
mod compact;
mod encode;
mod estimates;
mod foreign_options;
mod node;
mod open;
mod option_values;
mod options;
mod peers;
mod queries;
mod replication;
mod row_waits;
mod rows;
mod schemas;
mod setting;
mod settings;
mod statement_statistics;
mod table;
mod table_figure;
mod table_statistics;
mod tables;
mod traces;
mod view;

#[cfg(test)]
pub(crate) mod tests;

pub(crate) use activity::LevelFigures;
pub(crate) use auth::RolesView;
pub(crate) use bottleneck::{bottleneck_columns, show_bottleneck};
pub use change::SchemaDigest;
pub(crate) use compact::Compact;
pub use node::{
    CQL_VERSION, Client, ClientList, ClientTls, ConnectionStage, DATA_CENTER,
    NATIVE_PROTOCOL_VERSION, NodeInfo, PARTITIONER, RELEASE_VERSION, TOKEN,
};
pub use open::OpenTransaction;
pub(crate) use open::{open_transactions, rows_of_open_transactions};
pub use options::{OptionError, check_option};
pub use peers::Peer;
pub(crate) use queries::RunningRow;
pub(crate) use row_waits::{HotRow, RowWait};
pub use rows::schema_version;
pub(crate) use rows::{Sources, rows};
pub(crate) use schemas::{find_by_id, find_schema};
pub(crate) use table::{BOTTLENECK, QUERIES, TRANSACTIONS};
pub use table::{SystemColumn, SystemTable, is_virtual_keyspace};
pub(crate) use tables::is_readable;
pub use tables::{KEYSPACES, find, is_replicated_keyspace, is_system_keyspace, tables};

pub(crate) use encode::{Cell, boolean, collection, int, text, text_map, texts};
pub(crate) use estimates::estimate_table;
pub(crate) use foreign_options::{Foreign, of_table, warnings as foreign_warnings};
pub(crate) use option_values::TTL_MAX;
pub(crate) use options::{
    ID, TableOptions, check_keyspace_options, check_table_options, default_time_to_live,
    durable_writes,
};
pub(crate) use replication::{Replication, repaired, resolve};
pub(crate) use setting::map_of;
pub(crate) use settings::StatementSettings;
pub(crate) use statement_statistics::{ConflictRow, StatisticsRow};
pub(crate) use view::{
    IndexView, KeyspaceView, TableView, TypeView, ViewDefinition, all, keyspace, short_class,
};
