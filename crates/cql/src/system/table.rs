//! Definition of a system table: its name, columns and types.

use carnet::catalog::ColumnKind;
use carnet::{DataType, Uuid};
use carnet_data::Order;

use super::encode::Cell;
use super::table_figure::TableFigure;
use crate::result::ColumnSpec;

/// A table that is not stored: its rows are generated on each read.
#[derive(Debug)]
pub struct SystemTable {
    /// Keyspace of the table.
    pub keyspace: &'static str,
    /// Name of the table.
    pub name: &'static str,
    /// Purpose of the table.
    pub comment: &'static str,
    /// Id of the table for drivers: Cassandra's, if Cassandra stores the table.
    pub uuid: Uuid,
    /// Columns: partition key, clustering key, then the others by name.
    pub columns: Vec<SystemColumn>,
    pub(super) content: Content,
}

/// Source of a table's rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content {
    Local,
    Peers,
    PeersV2,
    Keyspaces,
    Tables,
    Columns,
    Types,
    Indexes,
    IndexStates,
    Views,
    ViewStates,
    VirtualKeyspaces,
    VirtualTables,
    VirtualColumns,
    Clients,
    Transactions,
    Bottleneck,
    TraceSessions,
    TraceEvents,
    Estimates,
    Settings,
    DroppedColumns,
    BuiltIndexes,
    BuiltViews,
    ViewBuilds,
    ViewBuildStatus,
    ThreadPools,
    ServiceLevels,
    Queries,
    Statistics,
    Conflicts,
    RowWaits,
    LostRows,
    TableStatistics(TableFigure),
    Roles,
    RoleMembers,
    RolePermissions,
    RolesOfResources,
    Identities,
    /// No rows, because Carnet lacks the feature.
    Nothing,
}

/// Column of a system table.
#[derive(Debug)]
pub struct SystemColumn {
    /// Name of the column.
    pub name: &'static str,
    /// Type of the column.
    pub data_type: DataType,
    /// Whether its type is written as `frozen<…>`.
    pub is_frozen: bool,
    /// Kind of the column.
    pub kind: ColumnKind,
}

impl SystemTable {
    /// Returns `true` if the table lists the open transactions.
    pub(crate) fn lists_open_transactions(&self) -> bool {
        self.content == Content::Transactions
    }

    /// Returns `true` if the table shows roles and permissions.
    pub(crate) fn shows_roles(&self) -> bool {
        self.keyspace == AUTH
    }

    /// Returns `true` if a role without permission sees the rows of its own connections and
    /// statements.
    pub(crate) const fn has_owned_rows(&self) -> bool {
        matches!(
            self.content,
            Content::Clients
                | Content::Transactions
                | Content::Queries
                | Content::TraceSessions
                | Content::TraceEvents
        )
    }

    /// Returns `true` if a row is of a role's connections; traces are chosen before.
    pub(crate) fn is_of(&self, row: &[Cell], role: &str) -> bool {
        let value = |name: &str| {
            let (place, _) = self.column(name)?;
            row.get(place)?.as_ref()
        };
        match self.content {
            Content::Queries => value("user_name").is_some_and(|user| **user == *role.as_bytes()),
            Content::Clients => value("username").is_some_and(|user| **user == *role.as_bytes()),
            // The name of a client is that of its user, and the address.
            Content::Transactions => value("client").is_some_and(|client| {
                let at = client.iter().rposition(|byte| *byte == b'@');
                at.is_some_and(|at| client[..at] == *role.as_bytes())
            }),
            _ => true,
        }
    }

    /// Returns `true` if every role may read all rows of the table, as drivers and tools do.
    pub(crate) fn is_readable(&self) -> bool {
        match self.keyspace {
            SYSTEM | SCHEMA | VIRTUAL_SCHEMA | DISTRIBUTED => true,
            _ => matches!(self.content, Content::IndexStates | Content::ViewStates),
        }
    }

    /// Returns a column and its position in the rows.
    #[must_use]
    pub fn column(&self, name: &str) -> Option<(usize, &SystemColumn)> {
        self.columns.iter().enumerate().find(|(_, column)| column.name == name)
    }

    /// Returns a column's description for clients.
    #[must_use]
    pub fn spec(&self, column: &SystemColumn) -> ColumnSpec {
        ColumnSpec {
            keyspace: self.keyspace.to_owned(),
            table: self.name.to_owned(),
            name: column.name.to_owned(),
            data_type: column.data_type.clone(),
        }
    }

    /// Returns all columns' descriptions for clients.
    #[must_use]
    pub fn specs(&self) -> Vec<ColumnSpec> {
        self.columns.iter().map(|column| self.spec(column)).collect()
    }

    /// Returns `true` if the table is one of Cassandra's virtual tables, which have a schema of
    /// their own.
    #[must_use]
    pub fn is_virtual(&self) -> bool {
        is_virtual_keyspace(self.keyspace)
    }

    /// Puts values given by name into the order of the columns; missing ones are null.
    pub(super) fn row<const N: usize>(&self, values: [(&'static str, Cell); N]) -> Vec<Cell> {
        self.row_of(values.into_iter())
    }

    /// Like [`SystemTable::row`], for any number of values.
    pub(super) fn row_of(&self, values: impl Iterator<Item = (&'static str, Cell)>) -> Vec<Cell> {
        let mut values: Vec<_> = values.collect();
        debug_assert!(values.iter().all(|(name, _)| self.column(name).is_some()));
        let mut take = |column: &SystemColumn| {
            values.iter_mut().find(|(name, _)| *name == column.name)?.1.take()
        };
        self.columns.iter().map(&mut take).collect()
    }
}

impl SystemColumn {
    /// Returns the type's name in CQL.
    #[must_use]
    pub fn type_name(&self) -> String {
        let name = &self.data_type;
        if self.is_frozen { format!("frozen<{name}>") } else { name.to_string() }
    }
}

pub(super) const SYSTEM: &str = "system";
pub(super) const AUTH: &str = "system_auth";
pub(super) const DISTRIBUTED: &str = "system_distributed";
pub(super) const SCHEMA: &str = "system_schema";
pub(super) const VIRTUAL_SCHEMA: &str = "system_virtual_schema";
pub(super) const TRACES: &str = "system_traces";
pub(super) const VIEWS: &str = "system_views";

/// Returns `true` for one of Cassandra's virtual keyspaces, which are listed in
/// `system_virtual_schema`; the others are listed in `system_schema`.
#[must_use]
pub fn is_virtual_keyspace(name: &str) -> bool {
    matches!(name, VIEWS | VIRTUAL_SCHEMA)
}

/// The table of open transactions. Who may modify it may end those of others.
pub(crate) const TRANSACTIONS: (&str, &str) = (VIEWS, "transactions");
/// The table of running statements. Roles that may modify it may kill statements of other users.
pub(crate) const QUERIES: (&str, &str) = (VIEWS, "queries");
/// The table of the diagnosis.
pub(crate) const BOTTLENECK: (&str, &str) = (VIEWS, "bottleneck");

pub(super) fn partition(name: &'static str, data_type: DataType) -> SystemColumn {
    column(name, data_type, ColumnKind::Partition)
}

pub(super) fn clustering(name: &'static str, data_type: DataType) -> SystemColumn {
    column(name, data_type, ColumnKind::Clustering(Order::Asc))
}

pub(super) fn regular(name: &'static str, data_type: DataType) -> SystemColumn {
    column(name, data_type, ColumnKind::Regular)
}

fn column(name: &'static str, data_type: DataType, kind: ColumnKind) -> SystemColumn {
    SystemColumn { name, data_type, is_frozen: false, kind }
}

impl SystemColumn {
    pub(super) fn frozen(self) -> Self {
        Self { is_frozen: true, ..self }
    }
}
