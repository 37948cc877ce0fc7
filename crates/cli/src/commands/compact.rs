//! `carnet compact`: rewrites a database's files into as few as there can be.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, bail};
use carnet::Db;
use clap::Args;

/// The database to compact. It must not be in use.
#[derive(Args)]
pub(crate) struct Compact {
    /// Its directory.
    dir: PathBuf,
}

impl Compact {
    /// Compacts it: nobody reads it now, so that every version but the newest goes.
    pub(crate) fn run(self) -> Result<()> {
        if !self.dir.join("MANIFEST").is_file() {
            bail!("{} is not the directory of a database", self.dir.display());
        }
        let db = Db::builder().retention(Duration::ZERO).open(&self.dir)?;
        db.flush()?;
        let bytes = || db.metrics().map_or((0, 0), |metrics| (metrics.tables, metrics.table_bytes));
        let (tables, before) = bytes();
        db.compact()?;
        let (tables_after, after) = bytes();
        println!("{tables} tables of {before} bytes became {tables_after} of {after} bytes");
        Ok(())
    }
}
