//! `carnet table-stats`: reads, writes and space of each table.

use std::path::PathBuf;

use anyhow::{Result, bail};
use carnet::Db;
use carnet_cql::Executor;
use carnet_cql::system::NodeInfo;
use clap::Args;

use super::login::At;
use crate::database::{Database, Local, Remote};
use crate::origin::Origin;
use crate::place::Place;
use crate::shell::{Format, Printer, Session};

/// Show reads, writes, latencies and space of each table.
///
/// A server counts since its start: reads and writes, their latencies (a sample), cells and tombstones
/// that reads met, the part of reads that found everything in memory, and the bytes in files. Each
/// server of a database counts its own. Of a directory, which no server may have open, only the
/// space in files is known; it is not changed. The lines of indexes follow their table.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct TableStats {
    /// Only the tables of a keyspace, or one table.
    #[arg(value_name = "KEYSPACE[.TABLE]")]
    only: Option<String>,
    #[command(flatten)]
    server: At,
    /// The directory of a database that is not in use.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["at", "user"])]
    dir: Option<PathBuf>,
    /// Print a JSON object for each table, with all numbers.
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  carnet table-stats
  carnet table-stats bank --at db1:9042 --user ann --password-file pw
  carnet table-stats bank.accounts --json | jq .read_p99_ms
  carnet table-stats --dir ./data";

/// Columns of a server's tables.
const OF_SERVER: &str = "keyspace_name, table_name, reads, read_p50_ms, read_p99_ms, scans, scan_p99_ms, \
     writes, write_p99_ms, cells_read, tombstones_read, cache_hit_rate, disk_bytes";
/// Columns of a directory's tables.
const OF_DIRECTORY: &str =
    "keyspace_name, table_name, disk_bytes, disk_files, disk_versions, disk_tombstones";

impl TableStats {
    pub(crate) fn run(self) -> Result<()> {
        let columns = if self.dir.is_some() { OF_DIRECTORY } else { OF_SERVER };
        let statement = statement(if self.json { "*" } else { columns }, self.only.as_deref())?;
        let format = if self.json { Format::Json } else { Format::Table };
        let mut session = Session::new(self.database()?, Printer::stdout(format));
        session.run_script(&statement, &Origin::Argument)?;
        session.finish()
    }

    fn database(&self) -> Result<Database> {
        let Some(directory) = &self.dir else {
            return Ok(Database::Remote(Box::new(Remote::connect(self.server.server()?)?)));
        };
        if self.server.has_tls() {
            bail!("the files of TLS are for a server: leave --dir away");
        }
        let place = Place::Directory(directory.clone());
        let db = place.open(Db::builder().read_only(true))?;
        let node = NodeInfo::local(place.host_id(""));
        Ok(Database::Local(Local::new(Executor::new(db, node))))
    }
}

/// Returns the statement that reads columns of all tables, of a keyspace's, or of one.
fn statement(columns: &str, only: Option<&str>) -> Result<String> {
    let mut statement = format!("SELECT {columns} FROM system_views.table_statistics");
    let Some(only) = only else { return Ok(statement) };
    let (keyspace, table) = match only.split_once('.') {
        Some((keyspace, table)) => (keyspace, Some(table)),
        None => (only, None),
    };
    if keyspace.is_empty() || table.is_some_and(str::is_empty) {
        bail!("{only}: expected a keyspace such as bank, or a table such as bank.accounts");
    }
    let text = |name: &str| format!("'{}'", name.replace('\'', "''"));
    statement += &format!(" WHERE keyspace_name = {}", text(keyspace));
    if let Some(table) = table {
        statement += &format!(" AND table_name = {}", text(table));
    }
    Ok(statement)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_chosen_by_keyspace_and_name() {
        let from = "SELECT * FROM system_views.table_statistics";
        assert_eq!(statement("*", None).unwrap(), from);
        let of_keyspace = format!("{from} WHERE keyspace_name = 'ba''nk'");
        assert_eq!(statement("*", Some("ba'nk")).unwrap(), of_keyspace);
        let of_index = format!("{from} WHERE keyspace_name = 'k' AND table_name = 't.i'");
        assert_eq!(statement("*", Some("k.t.i")).unwrap(), of_index);
        for wrong in ["", ".", "k.", ".t"] {
            assert!(statement("*", Some(wrong)).is_err(), "{wrong}");
        }
    }
}
