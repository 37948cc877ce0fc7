//! `carnet compact`: rewrites a database's files into as few as possible.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, bail};
use carnet::Db;
use carnet::control::{ControlRequest, Done};
use clap::Args;

use super::ask::carry_out;
use crate::settings::retention;

/// Database to compact, in use or not.
#[derive(Args)]
pub(crate) struct Compact {
    /// The database's directory.
    dir: PathBuf,
    /// For a database that no process has open: keep what AS OF can read within this time. Give the
    /// server's `retention` if it is longer. The process that has the database open knows its own.
    #[arg(long, value_name = "TIME", value_parser = retention, default_value = "10m")]
    retention: Duration,
}

impl Compact {
    /// Compacts the database; versions within the retention stay, in use or not.
    pub(crate) fn run(self) -> Result<()> {
        let builder = Db::builder().retention(self.retention);
        let done = carry_out(builder, &self.dir, &ControlRequest::Compact {})?;
        let Done::Compact { tables_before, bytes_before, tables_after, bytes_after } = done else {
            bail!("the process that has the database answered another request: {done:?}");
        };
        println!(
            "{tables_before} tables of {bytes_before} bytes became {tables_after} of \
             {bytes_after} bytes"
        );
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use carnet::DEFAULT_RETENTION;

    use super::*;

    #[test]
    fn compaction_of_a_stopped_database_keeps_the_retention() {
        let dir = tempfile::tempdir().unwrap();
        let directory = dir.path().join("data");
        let db = Db::open(&directory).unwrap();
        let stock = db.raw("stock").unwrap();
        db.transact(|tx| stock.put(tx, "apples", "1")).unwrap();
        let before = db.published();
        db.transact(|tx| stock.put(tx, "apples", "2")).unwrap();
        db.close().unwrap();
        drop((stock, db));
        let compact = |retention| {
            Compact { dir: directory.clone(), retention }.run().unwrap();
            let db = Db::open(&directory).unwrap();
            let snapshot = db.snapshot_as_of(before)?;
            db.raw("stock")?.get(&snapshot, "apples")
        };
        assert_eq!(compact(DEFAULT_RETENTION).unwrap().as_deref(), Some(&b"1"[..]));
        assert!(compact(Duration::ZERO).is_err(), "nothing is promised");
    }
}
