//! `carnet import`: a table of a cluster is copied.

use std::path::PathBuf;

use anyhow::{Context, Result};
use carnet::cluster::TableUrl;
use clap::{ArgGroup, Args};

use crate::import::{self, Destination, Server, TableName};
use crate::place::Place;

/// Copy a table of a Cassandra or ScyllaDB cluster, that other programs own, into a database.
///
/// The table is read range by range of its tokens, at a quorum, and never written. It is made in
/// Carnet where it is absent. How far the copy is lies in the database, in carnet_import.ranges,
/// with the rows: the same command goes on where an earlier one ended, however it ended.
///
/// Not kept: write times, and times to live (what would expire stays). What is written to the
/// source meanwhile may be missing, and what is deleted there may stay: stop its writers, or run
/// the import again with --restart, which overwrites rows and deletes none. Write to the copy once
/// the import has ended.
#[derive(Args)]
#[command(after_help = EXAMPLES, group = ArgGroup::new("place").required(true))]
pub(crate) struct Import {
    /// The table: cassandra://[user:password@]host[:port][,host]/keyspace.table[?option=value&…],
    /// with the options of --store that say how to reach a cluster.
    #[arg(long, value_name = "URL")]
    from: String,
    /// Copy into the database in this directory, which no other process has open; it is made when
    /// it is not there.
    #[arg(long, value_name = "DIR", group = "place")]
    dir: Option<PathBuf>,
    /// Copy into the database on a cluster at this URL, as for carnet serve; it may be the same
    /// cluster.
    #[arg(long, value_name = "URL", group = "place")]
    store: Option<String>,
    /// Copy into the database that a server has.
    #[arg(long, value_name = "HOST:PORT", group = "place")]
    server: Option<String>,
    /// Who asks the server, where it wants to know.
    #[arg(long, value_name = "NAME", requires = "server", requires = "password_file")]
    user: Option<String>,
    /// A file with the password.
    #[arg(long, value_name = "FILE", requires = "user")]
    password_file: Option<PathBuf>,
    /// The table's name in Carnet; the same unless it is given.
    #[arg(long, value_name = "KEYSPACE.TABLE")]
    into: Option<String>,
    /// At most so many rows a second. Without it as many as the source answers in good time: slow
    /// answers and failures make pauses.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    rows_per_second: Option<u32>,
    /// So many ranges are read at once.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=64))]
    readers: u16,
    /// Copy all of it, whatever was copied before.
    #[arg(long)]
    restart: bool,
}

const EXAMPLES: &str = "\
Examples:
  carnet import --from cassandra://10.0.0.1,10.0.0.2/shop.orders --dir ./data
  carnet import --from 'cassandra://ann@10.0.0.1/shop.orders?password_file=pw&ca=ca.pem' \\
    --server 127.0.0.1:9042 --rows-per-second 2000
  carnet import --from cassandra://10.0.0.1/shop.orders --store cassandra://10.0.0.1/carnet \\
    --into shop.orders2";

impl Import {
    pub(crate) fn run(self) -> Result<()> {
        let import = import::Import {
            from: TableUrl::parse(&self.from)?,
            into: self.into.as_deref().map(TableName::parse).transpose()?,
            rows_per_second: self.rows_per_second,
            readers: self.readers,
            restarts: self.restart,
        };
        println!("{}", import.run(&self.destination()?)?);
        Ok(())
    }

    fn destination(&self) -> Result<Destination> {
        if let Some(address) = &self.server {
            let credentials = self.credentials()?;
            return Ok(Destination::Server(Server { address: address.clone(), credentials }));
        }
        let place = Place::of(self.dir.clone(), self.store.as_deref())?;
        let place = place.context("give --dir DIR, --store URL or --server HOST:PORT")?;
        Ok(Destination::Place(place))
    }

    fn credentials(&self) -> Result<Option<(String, String)>> {
        let (Some(user), Some(path)) = (&self.user, &self.password_file) else { return Ok(None) };
        let password = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read the password in {}", path.display()))?;
        Ok(Some((user.clone(), password.trim().to_owned())))
    }
}
