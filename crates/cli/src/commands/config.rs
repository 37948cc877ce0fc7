//! `carnet config`: writes and checks settings files.

use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};

use super::serve::Serve;
use super::tls_init::TlsInit;
use crate::private::write_private;
use crate::settings::{Settings, template};

/// Write a settings file for `carnet serve --config`, check one, or make certificates for TLS.
#[derive(Args)]
pub(crate) struct Config {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Writes a file with every setting, its default and its meaning; prints it without FILE.
    Init {
        file: Option<PathBuf>,
    },
    /// Reads a file as `carnet serve` would and shows the result.
    Check {
        file: PathBuf,
    },
    TlsInit(TlsInit),
}

impl Config {
    pub(crate) fn run(self) -> Result<()> {
        match self.what {
            What::Init { file: None } => Ok(io::stdout().write_all(template().as_bytes())?),
            What::Init { file: Some(path) } => match write_private(&path, template().as_bytes()) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    bail!("{} exists already; give another name", path.display())
                }
                written => written.with_context(|| format!("cannot write {}", path.display())),
            },
            What::TlsInit(arguments) => arguments.run(),
            What::Check { file } => {
                let (place, listen) = Serve::described(&Settings::read(&file)?)?;
                println!("{}: serves {place} on {listen}", file.display());
                Ok(())
            }
        }
    }
}
