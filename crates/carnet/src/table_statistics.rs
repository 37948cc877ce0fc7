//! Statistics of each table of the catalog: reads, writes, and the space in files.

use carnet_base::{Result, TableId};
pub use carnet_storage::TableSpace;
pub use carnet_storage::usage::{Distribution, TableUse};

use crate::catalog::{self, TableKind};
use crate::{Db, Tx};

/// Statistics of a table, a materialized view or an index.
#[derive(Clone, Debug, PartialEq)]
pub struct TableStatistics {
    /// Keyspace of the table.
    pub keyspace: String,
    /// Name of the table or view; for an index `table.index`.
    pub name: String,
    /// Id of its cells.
    pub id: TableId,
    /// Whether it is an index.
    pub is_index: bool,
    /// Reads and writes since the database was opened.
    pub usage: TableUse,
    /// Space in files.
    pub space: TableSpace,
}

impl TableStatistics {
    /// Returns the number of reads and writes.
    #[must_use]
    pub const fn operations(&self) -> u64 {
        self.usage.gets + self.usage.pages + self.usage.commits
    }
}

/// Returns the statistics of all tables that CQL can name, and of their indexes, by keyspace and
/// name. None for a database that has no storage engine of its own: its cluster knows them.
///
/// # Errors
///
/// Like [`Tx::get_cell`]; `Corrupted` or `Unavailable` if the position of a table in a file cannot
/// be read.
pub async fn table_statistics(db: &Db, tx: &Tx) -> Result<Vec<TableStatistics>> {
    let Some(mut uses) = db.table_use() else { return Ok(Vec::new()) };
    let mut all = Vec::new();
    for keyspace in catalog::keyspaces(tx).await? {
        for table in catalog::tables(tx, &keyspace.name).await? {
            if table.kind != TableKind::Rows {
                continue;
            }
            let indexes = table.indexes.iter();
            let indexes = indexes.map(|index| (format!("{}.{}", table.name, index.name), index.id));
            let own = (table.name.clone(), table.id);
            for (at, (name, id)) in std::iter::once(own).chain(indexes).enumerate() {
                let place = uses.iter().position(|usage| usage.table == Some(id));
                let usage = place.map(|place| uses.swap_remove(place)).unwrap_or_default();
                all.push(TableStatistics {
                    keyspace: keyspace.name.clone(),
                    name,
                    id,
                    is_index: at > 0,
                    usage,
                    space: db.table_space(id).await?,
                });
            }
        }
    }
    all.sort_by(|a, b| (&a.keyspace, &a.name).cmp(&(&b.keyspace, &b.name)));
    Ok(all)
}
