//! `carnet restore`: creates a database from a backup.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use carnet::backup::{self, Which};
use carnet::{AsOf, DataType, Timestamp, Value, WallTime};
use clap::Args;

use super::cluster_backup;
use crate::bar::{Bar, Extent};

/// Create a database from a backup, in an empty directory.
///
/// Every byte is checked first. The new database is independent: timestamps, snapshots and paging
/// states of the old one are not valid in it.
///
/// For a database on a cluster, put the copy of the tables back first, all of it and nothing else,
/// and start no process of the database before it is restored. An interrupted restore can be run
/// again.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Restore {
    /// The directory of backups.
    #[arg(required_unless_present = "store", conflicts_with = "store")]
    dest: Option<PathBuf>,
    /// The new database's directory; created if missing.
    #[arg(required_unless_present = "store", conflicts_with = "store")]
    dir: Option<PathBuf>,
    /// A keyspace into which a copy was put back: cassandra://host1,host2/keyspace.
    #[arg(long, value_name = "URL", requires = "label")]
    store: Option<String>,
    /// The label that was written when the copy was made.
    #[arg(long, value_name = "FILE", requires = "store")]
    label: Option<PathBuf>,
    /// The backup to restore, by name or commit; the newest by default.
    #[arg(long, value_name = "BACKUP", value_parser = timestamp, conflicts_with = "store")]
    backup: Option<Timestamp>,
    /// Leave out transactions that committed after this timestamp or wall-clock time.
    #[arg(long, value_name = "TIMESTAMP|TIME", value_parser = as_of, conflicts_with = "store")]
    as_of: Option<AsOf>,
    /// Copy all files. By default they are hard links on one file system, and share their owner and
    /// permissions with the backup and the database that it was taken of.
    #[arg(long, conflicts_with = "store")]
    copy: bool,
}

const EXAMPLES: &str = "\
Examples:
  carnet restore /backups/bank ./restored
  carnet restore /backups/bank ./restored --backup 00000000000000067890
  carnet restore /backups/bank ./restored --as-of 65000
  carnet restore /backups/bank ./restored --as-of 2026-11-21T18:00:00Z
  carnet restore --store cassandra://10.0.0.1/bank --label /backups/bank.label";

fn timestamp(text: &str) -> Result<Timestamp, String> {
    let number = text.parse().ok().and_then(Timestamp::new);
    number.ok_or_else(|| "expected a timestamp such as 65000".to_owned())
}

fn as_of(text: &str) -> Result<AsOf, String> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        return timestamp(text).map(AsOf::Timestamp);
    }
    match DataType::Timestamp.parse_text(text) {
        // A negative number is a mistyped timestamp, and no database is older than 1970.
        Ok(Value::Timestamp(millis @ 0..)) => millis.checked_mul(1_000),
        _ => None,
    }
    .map(|micros| AsOf::Wall(WallTime(micros)))
    .ok_or_else(|| "expected a timestamp such as 65000, or a time: 2026-11-21T18:00:00Z".to_owned())
}

impl Restore {
    pub(crate) fn run(self) -> Result<()> {
        match (&self.store, &self.label, &self.dest, &self.dir) {
            (Some(store), Some(label), ..) => cluster_backup::restore(store, label),
            (_, _, Some(dest), Some(dir)) => self.run_on(dest, dir),
            _ => bail!("give DEST and DIR, or --store and --label"),
        }
    }

    fn run_on(&self, dest: &Path, dir: &Path) -> Result<()> {
        let which = Which { backup: self.backup, as_of: self.as_of, copies: self.copy };
        let bar = Bar::new(Extent::Told);
        let tell = |progress: &backup::Progress| bar.tell(progress);
        let restored = backup::restore_with(dest, dir, &which, tell);
        drop(bar);
        let restored = restored?;
        println!("{}: every commit up to {}", dir.display(), restored.commit);
        if restored.cut_tables > 0 {
            println!("{} files were written anew without what is later", restored.cut_tables);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backup_name_is_a_timestamp() {
        assert_eq!(timestamp("00000000000000067890"), timestamp("67890"));
        assert!(timestamp("-1").is_err() && timestamp("yesterday").is_err());
        assert_eq!(as_of("65000"), Ok(AsOf::Timestamp(timestamp("65000").unwrap())));
        let second = WallTime(1_000_000);
        assert_eq!(as_of("1970-01-01T00:00:01Z"), Ok(AsOf::Wall(second)));
        assert_eq!(as_of("1970-01-01 01:00:01+0100"), Ok(AsOf::Wall(second)));
        assert!(as_of("yesterday").is_err() && as_of("").is_err() && as_of("-1").is_err());
    }
}
