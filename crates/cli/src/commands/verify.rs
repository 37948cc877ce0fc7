//! `carnet verify`: reads every byte of a database and checks it.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Result, bail};
use carnet::storage::disk::{Disk, RealDisk};
use carnet::storage::inspect;
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};

/// The database to check. It must not be in use.
#[derive(Args)]
pub(crate) struct Verify {
    /// Its directory.
    dir: PathBuf,
}

impl Verify {
    /// Checks it; fails at the first damage, naming file and place.
    pub(crate) fn run(self) -> Result<()> {
        if !self.dir.is_dir() {
            bail!("{} is not a directory", self.dir.display());
        }
        let disk: Arc<dyn Disk> = Arc::new(RealDisk::open(&self.dir)?);
        // It draws on a terminal only.
        let bar = ProgressBar::new(0).with_style(ProgressStyle::with_template(
            "{bar:40} {bytes} of {total_bytes}, {eta} left",
        )?);
        let result = inspect::verify(&disk, |progress| {
            bar.set_length(progress.table_bytes_total);
            bar.set_position(progress.table_bytes);
        });
        bar.finish_and_clear();
        let inspect::Progress { table_bytes, tables, versions, log_records, log_torn, .. } =
            result?;
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
