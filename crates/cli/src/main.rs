//! The command `carnet`: a CQL server, a shell that needs no server, and tools.
//!
//! ```text
//!   carnet serve ──▶ commands::serve ──▶ carnet_server ─┐
//!   carnet shell ──▶ commands::shell ──▶ shell ─▶ database ─┴▶ carnet_cql ──▶ carnet
//!                                          │         └▶ a server, by the driver
//!                                          └▶ copy: files of CSV, in and out
//!   carnet stress ──▶ a database or a server, and the checker
//!   carnet bottleneck ──▶ SHOW BOTTLENECK of a server
//!   carnet top ──▶ top ──▶ database ──▶ a server's system_views
//!   carnet table-stats ──▶ system_views.table_statistics of a server or a directory
//!   carnet backup, compact, migrate ──▶ carnet, or carnet::control ──▶ the process that has the database
//!   carnet restore ──▶ carnet::backup
//!   carnet backup, restore --store ──▶ carnet::cluster::backup, around a copy that others make
//!   carnet import ──▶ import: a table of a cluster, into a database or through a server
//!   carnet inspect, verify ──▶ the storage engine, without a server
//!   carnet maelstrom ──▶ carnet_maelstrom ──▶ carnet_tree: no database at all
//!   carnet transactor ──▶ carnet_tree_local ──▶ carnet_tree: a tree in a directory
//! ```
//!
//! One file per command in [`commands`]. A command prints its result on standard output. Output for
//! people (errors, progress, notes) goes to standard error, progress and notes only if that is a
//! terminal.
//!
//! # Invariants
//!
//! * A failure is one clear sentence that begins with `error:`, and an exit code: 1 if the work
//!   failed, 2 if the command line is wrong. If the command that `carnet backup` runs fails, its
//!   exit code is used.
//! * Files are read and written in pieces: the memory of `COPY` does not depend on the file's
//!   length.
//! * The directory of a database belongs to one process. The shell opens it itself, so it fails
//!   while a server has it open; administrative commands send requests to the owner. A database on
//!   a cluster takes any number of processes.

mod allocator;
mod bar;
mod check;
mod commands;
mod copy;
mod database;
mod first_superuser;
mod http_token;
mod import;
mod interrupt;
mod lexer;
mod limits;
mod logging;
mod origin;
mod password;
mod place;
mod private;
mod script_text;
mod server_address;
mod settings;
mod shell;
mod system_memory;
mod top;
mod users;

use std::io::{self, IsTerminal};
use std::process::ExitCode;

use clap::Parser;

use crate::commands::cluster_backup::CommandFailed;
use crate::commands::serve::RequestsCutOff;
use crate::commands::{Cli, Command};

fn main() -> ExitCode {
    allocator::set_up();
    limits::raise_open_files();
    let result = match Cli::parse().command {
        Command::Serve(arguments) => arguments.run(),
        Command::Shell(arguments) => arguments.run(),
        Command::Check(arguments) => arguments.run(),
        Command::Config(arguments) => arguments.run(),
        Command::HashPassword(arguments) => arguments.run(),
        Command::Inspect(arguments) => arguments.run(),
        Command::Stress(arguments) => arguments.run(),
        Command::Verify(arguments) => arguments.run(),
        Command::Iotune(arguments) => arguments.run(),
        Command::Bottleneck(arguments) => arguments.run(),
        Command::Top(arguments) => arguments.run(),
        Command::TableStats(arguments) => arguments.run(),
        Command::Compact(arguments) => arguments.run(),
        Command::Backup(arguments) => arguments.run(),
        Command::Restore(arguments) => arguments.run(),
        Command::Import(arguments) => arguments.run(),
        Command::Migrate(arguments) => arguments.run(),
        Command::Maelstrom(arguments) => arguments.run(),
        Command::Transactor(arguments) => arguments.run(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        // The reader of the output has closed it: not an error.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            print_error(&error);
            exit_code(&error)
        }
    }
}

fn exit_code(error: &anyhow::Error) -> ExitCode {
    if interrupt::is_pressed() {
        return ExitCode::from(interrupt::EXIT_CODE);
    }
    if let Some(failed) = error.downcast_ref::<CommandFailed>() {
        return ExitCode::from(failed.code());
    }
    if error.is::<RequestsCutOff>() {
        return ExitCode::from(RequestsCutOff::CODE);
    }
    ExitCode::FAILURE
}

/// Prints an error to standard error.
fn print_error(error: &anyhow::Error) {
    let label = if io::stderr().is_terminal() { "\u{1b}[1;31merror:\u{1b}[0m" } else { "error:" };
    eprintln!("{label} {}", sentence(error));
}

/// Joins an error and its causes. The text of a Carnet error contains its causes already.
fn sentence(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain() {
        if !text.is_empty() {
            text.push_str(": ");
        }
        text.push_str(&cause.to_string());
        if cause.is::<carnet::Error>() {
            break;
        }
    }
    text
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let kind = |cause: &(dyn std::error::Error + 'static)| {
        cause.downcast_ref::<io::Error>().map(io::Error::kind)
    };
    error.chain().any(|cause| kind(cause) == Some(io::ErrorKind::BrokenPipe))
}

#[cfg(test)]
mod tests {
    use anyhow::Context;

    use super::*;

    #[test]
    fn every_cause_is_named_once() {
        let full = io::Error::other("no space left");
        let store = carnet::Error::unavailable("cannot write the log").with_source(full);
        let error = Err::<(), _>(store).context("line 3").unwrap_err();
        assert_eq!(sentence(&error), "line 3: cannot write the log: no space left");
    }
}
