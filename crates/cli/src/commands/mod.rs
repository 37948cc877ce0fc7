//! The command line: one file per command.

mod ask;
mod backup;
mod bottleneck;
mod check;
pub(crate) mod cluster_backup;
mod compact;
mod config;
mod hash_password;
mod import;
mod inspect;
mod inspect_commits;
mod iotune;
mod login;
mod maelstrom;
mod migrate;
mod new_database;
mod reloads;
mod restore;
pub(crate) mod serve;
mod server_tls;
mod shell;
mod stress;
mod table_stats;
mod tls_init;
mod tls_options;
mod top;
mod transactor;
mod verify;

use clap::{Parser, Subcommand};

/// A transactional wide-column database that speaks CQL.
///
/// Every statement is a strictly serializable transaction, and BEGIN TRANSACTION … COMMIT
/// TRANSACTION groups several into one. A database is a directory that one process at a time has
/// open: `carnet serve`, to which cqlsh and the Cassandra drivers of every language connect, or
/// `carnet shell`, which needs no server, but connects to one as well.
#[derive(Parser)]
#[command(name = "carnet", version, after_help = EXAMPLES)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXAMPLES: &str = "\
Examples:
  carnet shell                              try CQL on a database that goes away at the end
  carnet shell ./data                       work on the database in ./data
  carnet shell ./data -e 'SELECT * FROM bank.accounts' --json
  carnet shell -f examples/bank.cql         run a script
  carnet shell --server 127.0.0.1           … on a database behind a server
  carnet check dump.cql                     list the statements that would be refused
  carnet serve                              serve ./carnet-data on 127.0.0.1:9042
  cqlsh 127.0.0.1 9042                      … and connect to it
  carnet backup ./data /backups/bank        copy a database that may be in use
  carnet verify ./data                      check every byte of a database that is not in use
  carnet bottleneck                         say what statements of a server wait for
  carnet top                                watch what a server does
  carnet table-stats                        show reads, writes and space of its tables
  carnet stress --dir ./tried               drive a database, and check what its clients saw

'carnet <command> --help' tells more about a command.";

/// Command to run.
#[derive(Subcommand)]
pub(crate) enum Command {
    Serve(serve::Serve),
    Shell(Box<shell::Shell>),
    Check(check::CheckCommand),
    Config(config::Config),
    HashPassword(hash_password::HashPassword),
    /// Show the contents of one file of a database, or its commit table.
    Inspect(inspect::Inspect),
    Stress(stress::Stress),
    /// Read every byte of a database and check it.
    Verify(verify::Verify),
    /// Rewrite a database's files into as few as possible.
    Compact(compact::Compact),
    Iotune(iotune::Iotune),
    Bottleneck(bottleneck::Bottleneck),
    Top(top::Top),
    TableStats(table_stats::TableStats),
    Backup(backup::Backup),
    Restore(restore::Restore),
    Import(import::Import),
    Migrate(migrate::Migrate),
    Maelstrom(maelstrom::Maelstrom),
    Transactor(transactor::Transactor),
}
