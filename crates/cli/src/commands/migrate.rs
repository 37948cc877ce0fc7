//! `carnet migrate`: another encoding of the commit table, while transactions run.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, bail};
use carnet::control::{Done, Request};
use carnet::{Db, Encoding};
use clap::Args;

use super::ask::carry_out;

/// Let another encoding of a database's commit table begin, in use or not.
///
/// Nothing is copied and nobody waits: starts from now on are written down in it, those before
/// stay where they are.
#[derive(Args)]
pub(crate) struct Migrate {
    /// The database's directory.
    dir: PathBuf,
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
        let request = Request::Migrate { to: self.to.version() };
        // How far back the database reaches is its owner's to say, and not known here.
        let builder = Db::builder().retention(Duration::MAX);
        match carry_out(builder, &self.dir, &request)? {
            Done::Migrate { first: Some(first) } => {
                println!("starts from {first} on are written as {}", self.to);
            }
            Done::Migrate { first: None } => println!("{} is in force already", self.to),
            other => bail!("the process that has the database did something else: {other:?}"),
        }
        Ok(())
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
