//! `carnet backup`: copies a database that is in use, or not.

use std::num::NonZero;
use std::path::{PathBuf, absolute};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use carnet::Db;
use carnet::control::{Done, Request};
use clap::Args;

use super::ask::carry_out;

/// Take a backup of a database, in use or not, to a directory of backups.
///
/// Everything that was acknowledged before is in it, and transactions go on. What an earlier backup
/// in that directory has is shared with it.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Backup {
    /// The database's directory.
    dir: PathBuf,
    /// The directory of its backups; it is made when it is not there.
    dest: PathBuf,
    /// Remove all but so many of the newest backups afterwards.
    #[arg(long, value_name = "N")]
    keep: Option<NonZero<usize>>,
}

const EXAMPLES: &str = "\
Examples:
  carnet backup ./data /backups/bank
  carnet backup ./data /backups/bank --keep 7
  carnet restore /backups/bank ./restored";

impl Backup {
    pub(crate) fn run(self) -> Result<()> {
        let dest = absolute(&self.dest).with_context(|| self.dest.display().to_string())?;
        let request = Request::Backup { dest: dest.clone(), keep: self.keep.map(NonZero::get) };
        // How far back the database reaches is its owner's to say, and not known here.
        let builder = Db::builder().retention(Duration::MAX);
        let done = carry_out(builder, &self.dir, &request)?;
        let Done::Backup { name, commit, files, bytes, shared_files, shared_bytes, removed } = done
        else {
            bail!("the process that has the database did something else: {done:?}");
        };
        println!("{}", dest.join(name).display());
        println!(
            "every commit up to {commit}: {files} files of {bytes} bytes, {shared_files} of them \
             of {shared_bytes} bytes shared with an earlier backup"
        );
        if removed > 0 {
            println!("{removed} older backups were removed");
        }
        Ok(())
    }
}
