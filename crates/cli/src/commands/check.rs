//! `carnet check`: statements of scripts that Carnet would refuse.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;

use crate::check::Check;
use crate::interrupt;
use crate::shell::read_script;

/// List the statements of scripts that would be refused, with their remedies.
///
/// No statement runs on any database. Statements that define tables are tried on a new one in a
/// temporary directory, so that later statements of all the files are checked against them. A table
/// that no file creates is named once, and its statements are checked for their syntax only.
///
/// Exit code 0 means that every statement would be accepted.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CheckCommand {
    /// Scripts, in the order in which they would run.
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  carnet check schema.cql
  carnet check schema.cql data.cql queries.cql";

impl CheckCommand {
    pub(crate) fn run(self) -> Result<()> {
        // Ctrl-C must not leave the scratch database behind.
        interrupt::watch()?;
        let mut check = Check::new()?;
        for file in &self.files {
            check.script(&read_script(file)?, file)?;
        }
        let (statements, refused) = (check.statements, check.refused);
        match refused {
            0 => println!("{statements} statements, none refused"),
            _ => bail!("{refused} of {statements} statements would be refused"),
        }
        Ok(())
    }
}
