//! `carnet check`: statements of scripts that Carnet would refuse.

use std::path::PathBuf;

use anyhow::{Result, bail};
use carnet_cql::Timestamps;
use carnet_cql::system::DATA_CENTER;
use clap::Args;

use crate::check::Check;
use crate::shell::read_script;
use crate::{interrupt, settings};

/// List the statements of scripts that would be refused, with their remedies.
///
/// No statement runs on any database. Statements that define tables are tried on a new one in a
/// temporary directory, so that later statements of all the files are checked against them. A table or
/// keyspace that no file creates is named once: its statements are checked for their syntax only, and would
/// fail unless it exists.
///
/// Exit code 0 means that every statement would be accepted; with --allow-missing, that every
/// statement would be if these tables and keyspaces exist.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CheckCommand {
    /// Scripts, in the order in which they would run.
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Accept statements on tables and keyspaces that no file creates: the database has them.
    #[arg(long)]
    allow_missing: bool,
    /// What USING TIMESTAMP does, as the server's setting: refuse, ignore or record.
    #[arg(long, value_name = "HOW", value_parser = settings::timestamps, default_value = "refuse")]
    timestamps: Timestamps,
    /// Name of the data centre, as the server's setting.
    #[arg(long, value_name = "NAME", value_parser = settings::data_center, default_value = DATA_CENTER)]
    data_center: String,
}

const EXAMPLES: &str = "\
Examples:
  carnet check schema.cql
  carnet check schema.cql data.cql queries.cql
  carnet check queries.cql --allow-missing --timestamps record";

impl CheckCommand {
    pub(crate) fn run(self) -> Result<()> {
        // Ctrl-C must not leave the scratch database behind.
        interrupt::watch()?;
        let mut check = Check::new(self.timestamps, &self.data_center)?;
        for file in &self.files {
            check.script(&read_script(file)?, file)?;
        }
        let Check { statements, refused, missing, .. } = check;
        match (refused, missing) {
            (0, 0) => println!("{statements} statements, none refused"),
            (0, _) if self.allow_missing => println!(
                "{statements} statements, none refused; {missing} are on tables and keyspaces that \
                 these files do not create"
            ),
            (0, _) => bail!(
                "{missing} of {statements} statements would fail unless their tables and keyspaces \
                 exist; --allow-missing accepts them"
            ),
            (_, 0) => bail!("{refused} of {statements} statements would be refused"),
            _ => bail!(
                "{refused} of {statements} statements would be refused, and {missing} would fail \
                 unless their tables and keyspaces exist"
            ),
        }
        Ok(())
    }
}
