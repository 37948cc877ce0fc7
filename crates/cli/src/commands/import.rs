//! `carnet import`: copies a table of a cluster.

use std::path::PathBuf;

use anyhow::{Context, Result};
use carnet::cluster::TableUrl;
use clap::{ArgGroup, Args};

use super::server_tls::ServerTls;
use crate::database::Server;
use crate::import::{self, Destination, TableName};
use crate::password;
use crate::place::{Place, refuse_secret};

/// Copy a table of a Cassandra or ScyllaDB cluster that other programs use into a database.
///
/// The table is read by token range, at QUORUM, and never written. The table in Carnet is created
/// if missing. The progress is stored in the database, in carnet_import.ranges, in the same
/// transactions as the rows: the same command resumes an earlier one, however that ended.
///
/// Times to live are copied, and write times where the target takes them. Writes to the source
/// during the import may be missing, and rows deleted there may stay: stop its writers, or run the
/// import again with --restart, which overwrites rows and deletes none. Write to the copy only
/// after the import has ended.
#[derive(Args)]
#[command(after_help = EXAMPLES, group = ArgGroup::new("place").required(true))]
pub(crate) struct Import {
    /// The table: cassandra://[user@]host[:port][,host]/keyspace.table[?option=value&…],
    /// with the options of --store that say how to reach a cluster.
    #[arg(long, value_name = "URL")]
    from: String,
    /// Copy into the database in this directory, which no other process has open; created if
    /// missing.
    #[arg(long, value_name = "DIR", group = "place")]
    dir: Option<PathBuf>,
    /// Copy into the database on a cluster at this URL, as for carnet serve; it may be the source's
    /// cluster.
    #[arg(long, value_name = "URL", group = "place")]
    store: Option<String>,
    /// Copy into the database that this server serves.
    #[arg(long, value_name = "HOST:PORT", group = "place")]
    server: Option<String>,
    /// User name for the server, if it requires a login.
    #[arg(long, value_name = "NAME", requires = "server", requires = "password_file")]
    user: Option<String>,
    /// File with the user's password.
    #[arg(long, value_name = "FILE", requires = "user")]
    password_file: Option<PathBuf>,
    #[command(flatten)]
    tls: ServerTls,
    /// The table's name in Carnet; the source's name by default.
    #[arg(long, value_name = "KEYSPACE.TABLE")]
    into: Option<String>,
    /// Maximum number of rows per second. By default the speed follows the source: slow answers and
    /// failures make pauses.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    rows_per_second: Option<u32>,
    /// Number of ranges that are read at once.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=64))]
    readers: u16,
    /// Copy the whole table again, including rows that were copied before.
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
        refuse_secret(&self.from)?;
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
            let (address, tls) = (address.clone(), self.tls.config()?);
            return Ok(Destination::Server(Server { address, credentials, tls }));
        }
        let place = Place::from_options(self.dir.clone(), self.store.as_deref())?;
        let place = place.context("give --dir DIR, --store URL or --server HOST:PORT")?;
        Ok(Destination::Place(place))
    }

    fn credentials(&self) -> Result<Option<(String, String)>> {
        let (Some(user), Some(path)) = (&self.user, &self.password_file) else { return Ok(None) };
        Ok(Some((user.clone(), password::read(path)?)))
    }
}
