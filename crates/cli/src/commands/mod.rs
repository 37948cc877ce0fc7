//! The command line: one file per command.

mod ask;
mod backup;
mod bottleneck;
pub(crate) mod cluster_backup;
mod compact;
mod config;
mod hash_password;
mod import;
mod inspect;
mod iotune;
mod maelstrom;
mod migrate;
mod restore;
mod serve;
mod shell;
mod stress;
mod verify;

use clap::{Parser, Subcommand};

/// A transactional wide-column database that speaks CQL.
///
/// Every statement is a strictly serializable transaction, and
/// BEGIN TRANSACTION … COMMIT TRANSACTION makes one of many. A database is a directory, held by one
/// process at a time: by `carnet serve`, to which cqlsh and the Cassandra drivers of every language
/// connect, or by `carnet shell`, which needs no server.
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
  carnet serve                              serve ./carnet-data on 127.0.0.1:9042
  cqlsh 127.0.0.1 9042                      … and connect to it
  carnet backup ./data /backups/bank        copy a database that may be in use
  carnet verify ./data                      check every byte of a database that is not in use
  carnet bottleneck                         say what statements of a server wait for
  carnet stress --dir ./tried               drive a database, and check what its clients saw

'carnet <command> --help' tells more about a command.";

/// What to do.
#[derive(Subcommand)]
pub(crate) enum Command {
    Serve(serve::Serve),
    Shell(shell::Shell),
    Config(config::Config),
    HashPassword(hash_password::HashPassword),
    /// Shows what one file of a database holds.
    Inspect(inspect::Inspect),
    Stress(stress::Stress),
    /// Reads every byte of a database and checks it.
    Verify(verify::Verify),
    /// Rewrites a database's files into as few as there can be.
    Compact(compact::Compact),
    Iotune(iotune::Iotune),
    Bottleneck(bottleneck::Bottleneck),
    Backup(backup::Backup),
    Restore(restore::Restore),
    Import(import::Import),
    Migrate(migrate::Migrate),
    Maelstrom(maelstrom::Maelstrom),
}
