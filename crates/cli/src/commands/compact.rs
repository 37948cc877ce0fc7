//! `carnet compact`: rewrites a database's files into as few as possible.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, bail};
use carnet::Db;
use carnet::control::{ControlRequest, Done};
use clap::Args;

use super::ask::carry_out;

/// Database to compact, in use or not.
#[derive(Args)]
pub(crate) struct Compact {
    /// The database's directory.
    dir: PathBuf,
}

impl Compact {
    /// Compacts the database. If no process has it open, there are no readers, and only the newest
    /// versions stay. Otherwise the versions within the owner's retention stay too.
    pub(crate) fn run(self) -> Result<()> {
        let builder = Db::builder().retention(Duration::ZERO);
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
