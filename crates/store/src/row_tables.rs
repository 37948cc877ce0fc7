//! Tables of rows, whose versions may be deltas.
//!
//! Values of raw tables are arbitrary bytes, which may look like deltas. So a store has to know the raw tables before
//! it merges or drops versions: until then it takes no deltas, and garbage collection drops nothing.

use std::collections::HashSet;
use std::future::Future;
use std::pin::Pin;
use std::sync::{OnceLock, RwLock};

use carnet_base::sync::{read, write};
use carnet_base::{Result, TableId, Version};
use carnet_data::RowDelta;

/// A list of tables that is being read.
pub type Loading<'a> = Pin<Box<dyn Future<Output = Result<Vec<TableId>>> + Send + 'a>>;

/// Reads the list of all raw tables that were ever created, from the catalog.
pub trait LoadRawTables: Send + Sync {
    /// Reads the list as of a snapshot that is drawn now.
    fn load(&self) -> Loading<'_>;
}

/// Set of the tables of rows: all tables except system tables and raw tables.
#[derive(Default)]
pub struct RowTables {
    known: RwLock<Known>,
    loader: OnceLock<Box<dyn LoadRawTables>>,
}

#[derive(Debug, Default)]
struct Known {
    raw: HashSet<TableId>,
    others: Others,
}

/// Kind of the tables that are not in the set of raw tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Others {
    #[default]
    Unknown,
    Raw,
    Rows,
}

impl RowTables {
    /// Sets the loader with which [`refresh`](Self::refresh) reads the raw tables. The first one stays.
    pub fn load_with(&self, loader: Box<dyn LoadRawTables>) {
        let _ = self.loader.set(loader);
    }

    /// Adds the raw tables that exist; all other tables have rows.
    pub fn set_raw(&self, tables: impl IntoIterator<Item = TableId>) {
        let mut known = write(&self.known);
        known.raw.extend(tables);
        known.others = Others::Rows;
    }

    /// Sets all tables to raw tables, for stores without a catalog.
    pub fn set_all_raw(&self) {
        write(&self.known).others = Others::Raw;
    }

    /// Adds a raw table, before anything of it is read or written.
    pub fn add_raw(&self, table: TableId) {
        write(&self.known).raw.insert(table);
    }

    /// Returns `true` if the raw tables are known.
    #[must_use]
    pub fn are_known(&self) -> bool {
        read(&self.known).others != Others::Unknown
    }

    /// Returns `true` if versions of a table's cells may be deltas.
    #[must_use]
    pub fn has_deltas(&self, table: TableId) -> bool {
        let known = read(&self.known);
        known.others == Others::Rows && !table.is_system() && !known.raw.contains(&table)
    }

    /// Returns `true` if a version of a table's cell is a delta.
    #[must_use]
    pub fn is_delta(&self, table: TableId, version: &Version) -> bool {
        // The table is looked up last: few payloads begin like a delta.
        looks_like_delta(version) && self.has_deltas(table)
    }

    /// Reads the raw tables again, which other processes may have created. Has no effect without a loader.
    ///
    /// # Errors
    ///
    /// Those of the loader; the known tables stay.
    pub async fn refresh(&self) -> Result<()> {
        let Some(loader) = self.loader.get() else { return Ok(()) };
        self.set_raw(loader.load().await?);
        Ok(())
    }
}

impl std::fmt::Debug for RowTables {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.known.fmt(f)
    }
}

/// Returns `true` if a version is a delta, provided that its table has deltas.
#[must_use]
pub fn looks_like_delta(version: &Version) -> bool {
    version.payload.as_ref().is_some_and(|payload| payload.first() == Some(&RowDelta::MARK))
}
