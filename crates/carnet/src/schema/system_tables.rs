//! Ids of the tables that hold the catalog.

use carnet_base::TableId;

// Ids 1, 6 and 7 are the commit tables of the embedded store; id 5 is its wall-clock map.
pub(crate) const KEYSPACES: TableId = TableId(2);
pub(crate) const TABLES: TableId = TableId(3);
pub(crate) const VERSIONS: TableId = TableId(4);
pub(crate) const LEVELS: TableId = TableId(8);
pub(crate) const ROLES: TableId = TableId(9);

/// System tables that every database has.
pub(crate) const TABLES_OF_THE_SYSTEM: [TableId; 5] = [KEYSPACES, TABLES, VERSIONS, LEVELS, ROLES];
