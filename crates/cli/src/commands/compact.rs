//! `carnet compact`: rewrites a database's files into as few as there can be.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, bail};
use carnet::Db;
use carnet::control::{Done, Request};
use clap::Args;

use super::ask::carry_out;

/// The database to compact, in use or not.
#[derive(Args)]
pub(crate) struct Compact {
    /// Its directory.
    dir: PathBuf,
}

impl Compact {
    /// Compacts it. If nobody has it open nobody reads it, so that every version but the newest
    /// goes; otherwise those stay that its owner keeps.
    pub(crate) fn run(self) -> Result<()> {
        let builder = Db::builder().retention(Duration::ZERO);
        let done = carry_out(builder, &self.dir, &Request::Compact {})?;
        let Done::Compact { tables_before, bytes_before, tables_after, bytes_after } = done else {
            bail!("the process that has the database did something else: {done:?}");
        };
        println!(
            "{tables_before} tables of {bytes_before} bytes became {tables_after} of \
             {bytes_after} bytes"
        );
        Ok(())
    }
}
