//! `carnet backup`: copies a database, also while it is in use.

use std::ffi::OsString;
use std::num::NonZero;
use std::path::{Path, PathBuf, absolute};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use carnet::Db;
use carnet::control::{ControlRequest, Done};
use clap::Args;

use super::ask::carry_out;
use super::cluster_backup;

/// Take a backup of a database into a directory of backups, also while the database is in use.
///
/// The backup has every transaction that was acknowledged before it began. Transactions go on
/// meanwhile. Files that an earlier backup in that directory has are shared with it.
///
/// For a database on a cluster, COMMAND copies the tables while transactions go on. The label holds
/// the data that a restore needs besides the tables.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Backup {
    /// The database's directory.
    #[arg(required_unless_present = "store", conflicts_with = "store")]
    dir: Option<PathBuf>,
    /// The directory of its backups; created if missing.
    #[arg(required_unless_present = "store", conflicts_with = "store")]
    dest: Option<PathBuf>,
    /// Keep only the N newest backups; remove older ones afterwards.
    #[arg(long, value_name = "N", conflicts_with = "store")]
    keep: Option<NonZero<usize>>,
    /// Trust files shared with an earlier backup that were read within DAYS days. By default, and
    /// with --keep, all are read again.
    #[arg(long, value_name = "DAYS", conflicts_with_all = ["store", "keep"])]
    reread_after: Option<u32>,
    /// A database on a cluster: cassandra://host1,host2/keyspace.
    #[arg(long, value_name = "URL", requires = "label")]
    store: Option<String>,
    /// The file to write once COMMAND has succeeded; it must not exist yet.
    #[arg(long, value_name = "FILE", requires = "store")]
    label: Option<PathBuf>,
    /// Command that copies the keyspace on every node. CARNET_BACKUP and CARNET_KEYSPACE give it
    /// the names of the backup and of the keyspace. If it fails, no backup is made, and `carnet
    /// backup` ends with its exit code.
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
        let request = ControlRequest::Backup {
            dest: dest.clone(),
            keep: self.keep.map(NonZero::get),
            reread_after_days: self.reread_after,
        };
        // The database's owner knows its retention; this process does not.
        let builder = Db::builder().retention(Duration::MAX);
        let done = carry_out(builder, dir, &request)?;
        let Done::Backup { name, commit, files, bytes, shared_files, shared_bytes, removed } = done
        else {
            bail!("the process that has the database answered another request: {done:?}");
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
