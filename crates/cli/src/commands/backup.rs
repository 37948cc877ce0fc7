//! `carnet backup`: copies a database that is in use, or not.

use std::ffi::OsString;
use std::num::NonZero;
use std::path::{Path, PathBuf, absolute};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use carnet::Db;
use carnet::control::{Done, Request};
use clap::Args;

use super::ask::carry_out;
use super::cluster_backup;

/// Take a backup of a database, in use or not, to a directory of backups.
///
/// Everything that was acknowledged before is in it, and transactions go on. What an earlier backup
/// in that directory has is shared with it.
///
/// Of a database on a cluster the tables are copied by COMMAND, while transactions go on; what a
/// restore needs to know of them is in the label.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Backup {
    /// The database's directory.
    #[arg(required_unless_present = "store", conflicts_with = "store")]
    dir: Option<PathBuf>,
    /// The directory of its backups; it is made when it is not there.
    #[arg(required_unless_present = "store", conflicts_with = "store")]
    dest: Option<PathBuf>,
    /// Remove all but so many of the newest backups afterwards.
    #[arg(long, value_name = "N", conflicts_with = "store")]
    keep: Option<NonZero<usize>>,
    /// A database on a cluster: cassandra://host1,host2/keyspace.
    #[arg(long, value_name = "URL", requires = "label")]
    store: Option<String>,
    /// The file to write once COMMAND has succeeded; it must not be there.
    #[arg(long, value_name = "FILE", requires = "store")]
    label: Option<PathBuf>,
    /// What copies the keyspace on every node. It finds the names of the backup and of the keyspace in
    /// CARNET_BACKUP and CARNET_KEYSPACE. Where it fails there is no backup, and its exit code is
    /// that of `carnet backup`.
    #[arg(last = true, requires = "store")]
    command: Vec<OsString>,
}

const EXAMPLES: &str = "\
Examples:
  carnet backup ./data /backups/bank
  carnet backup ./data /backups/bank --keep 7
  carnet restore /backups/bank ./restored
  carnet backup --store cassandra://10.0.0.1/bank --label /backups/bank.label -- ./copy-all-nodes";

impl Backup {
    pub(crate) fn run(self) -> Result<()> {
        match (&self.store, &self.label, &self.dir, &self.dest) {
            (Some(store), Some(label), ..) => cluster_backup::take(store, label, &self.command),
            (_, _, Some(dir), Some(dest)) => self.run_on(dir, dest),
            _ => bail!("give DIR and DEST, or --store and --label"),
        }
    }

    fn run_on(&self, dir: &Path, dest: &Path) -> Result<()> {
        let dest = absolute(dest).with_context(|| dest.display().to_string())?;
        let request = Request::Backup { dest: dest.clone(), keep: self.keep.map(NonZero::get) };
        // How far back the database reaches is its owner's to say, and not known here.
        let builder = Db::builder().retention(Duration::MAX);
        let done = carry_out(builder, dir, &request)?;
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
