//! `carnet verify`: reads every byte of a database or a backup and checks it.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Result, bail};
use carnet::backup::Progress;
use carnet_storage::disk::{Disk, RealDisk};
use carnet_storage::{backup, inspect};
use clap::Args;

use crate::bar::{Bar, Extent};

/// Database or backup to check. A database must not be in use.
#[derive(Args)]
pub(crate) struct Verify {
    /// The directory of the database or backup.
    dir: PathBuf,
}

impl Verify {
    /// Checks the files; fails at the first damage and names its file and offset.
    pub(crate) fn run(self) -> Result<()> {
        if !self.dir.is_dir() {
            bail!("{} is not a directory", self.dir.display());
        }
        let disk: Arc<dyn Disk> = Arc::new(RealDisk::open(&self.dir)?);
        let bar = Bar::new(Extent::Told);
        let checked = check(&disk, &bar);
        drop(bar);
        let (label, checked) = checked?;
        let inspect::Progress { table_bytes, tables, versions, log_records, log_torn, .. } =
            checked;
        if let Some(label) = label {
            println!("a backup with every commit up to {}", label.commit);
        }
        println!(
            "{tables} tables, {versions} versions, {table_bytes} bytes; {log_records} records in \
             the log; everything is whole"
        );
        if log_torn {
            println!("the log has a torn end, which the next opening cuts off");
        }
        Ok(())
    }
}

/// Compares a backup with its label, then checks the files of a backup or database.
fn check(disk: &Arc<dyn Disk>, bar: &Bar) -> Result<(Option<backup::Label>, inspect::Progress)> {
    let label = match backup::Label::load(&**disk)? {
        Some(_) => Some(backup::verify(disk, |progress| bar.tell(progress))?),
        None => None,
    };
    let checked = inspect::verify(disk, |progress| {
        let inspect::Progress { table_bytes: bytes, table_bytes_total: bytes_total, .. } =
            *progress;
        bar.tell(&Progress { bytes, bytes_total });
    })?;
    Ok((label, checked))
}
