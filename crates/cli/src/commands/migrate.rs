//! `carnet migrate`: changes the encoding of the commit table while transactions run.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use carnet::control::{ControlRequest, Done};
use carnet::{Builder, Db, Encoding, Timestamp, block_on};
use clap::Args;

use super::ask::carry_out;
use crate::place::Place;

/// Switch a database's commit table to another encoding, also while it is in use.
///
/// Nothing is copied and no transaction waits: later starts are written in the new encoding,
/// earlier ones stay as they are. On a cluster the new encoding begins a few million starts later,
/// after the range of starts whose encoding processes know already.
#[derive(Args)]
pub(crate) struct Migrate {
    /// The database's directory.
    #[arg(required_unless_present = "store", conflicts_with = "store")]
    dir: Option<PathBuf>,
    /// A database on a cluster: cassandra://host1,host2/keyspace.
    #[arg(long, value_name = "URL")]
    store: Option<String>,
    /// The encoding: v1 a row for each transaction, v2 tickets, v3 tickets with tagged values.
    #[arg(long, value_name = "ENCODING", value_parser = encoding)]
    to: Encoding,
}

fn encoding(text: &str) -> Result<Encoding, String> {
    let number = text.strip_prefix('v').and_then(|number| number.parse().ok());
    number.and_then(Encoding::of_version).ok_or_else(|| "expected v1, v2 or v3".to_owned())
}

impl Migrate {
    pub(crate) fn run(self) -> Result<()> {
        // The database's owner knows its retention; this process does not.
        let builder = Db::builder().retention(Duration::MAX);
        let place = Place::from_options(self.dir, self.store.as_deref())?;
        let first = match place.context("give DIR or --store URL")? {
            Place::Directory(directory) => migrate_directory(builder, &directory, self.to)?,
            place @ Place::Cluster(_) => {
                let db = place.open(builder)?;
                let first = db.migrate(self.to);
                // Gives the lease up also after a refusal, so that other processes need not wait
                // for it.
                block_on(db.leave());
                first?.map(Timestamp::get)
            }
        };
        match first {
            Some(first) => println!("starts from {first} on are written as {}", self.to),
            None => println!("{} is in force already", self.to),
        }
        Ok(())
    }
}

fn migrate_directory(builder: Builder, directory: &Path, to: Encoding) -> Result<Option<u64>> {
    match carry_out(builder, directory, &ControlRequest::Migrate { to: to.version() })? {
        Done::Migrate { first } => Ok(first),
        other => bail!("the process that has the database answered another request: {other:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodings_are_named_by_their_versions() {
        assert_eq!(encoding("v1"), Ok(Encoding::V1));
        assert_eq!(encoding("v3"), Ok(Encoding::V3));
        for wrong in ["", "v", "v4", "3", "v-1", "V3"] {
            assert!(encoding(wrong).is_err(), "{wrong}");
        }
    }
}
