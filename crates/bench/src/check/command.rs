//! Commands that measure figures.
//!
//! A command is a text whose first word is its program, after settings of the environment:
//!
//! * `carnet-bench`: this program;
//! * `carnet` and `carnet-maelstrom-test`: the programs beside this one. `DATA` stands for a new
//!   directory, and `127.0.0.1:9042` for a server that is started for the command;
//! * `bench/peers`: the comparison with other engines, built by cargo;
//! * `commit_rows`: the example of `carnet-store-cql`, built by cargo;
//! * another path: a script of this repository.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use carnet_base::{Error, Result};

use crate::program::{Process, ServeOptions};

/// Address of the server in commands.
const SERVER: &str = "127.0.0.1:9042";
/// Word for the directory of the database.
const DATA: &str = "DATA";

/// Runs a command, and returns its output.
pub(super) fn run(command: &str) -> Result<String> {
    let of_command = |error| Error::unavailable(format!("cannot run {command}")).with_source(error);
    let directory = tempfile::tempdir().map_err(of_command)?;
    let server = command.contains(SERVER).then(|| Process::start(&options())).transpose();
    let server = server.map_err(of_command)?;
    let address = server.as_ref().map_or_else(|| SERVER.to_owned(), |it| it.address.to_string());
    let mut process = prepare(command)?;
    for word in arguments(command) {
        match word {
            DATA => process.arg(directory.path().join("data")),
            _ => process.arg(word.replace(SERVER, &address)),
        };
    }
    let output = process.stderr(Stdio::piped()).output().map_err(of_command)?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(Error::invalid(format!("{command} has failed: {said}")));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

const fn options() -> ServeOptions<'static> {
    ServeOptions { program: None, settings: "", durability: "interval:100", users: "" }
}

/// Returns the settings of the environment at the begin of a command.
fn environment(command: &str) -> impl Iterator<Item = (&str, &str)> {
    command.split(' ').map_while(|word| word.split_once('='))
}

/// Returns the program of a command.
pub(super) fn program(command: &str) -> &str {
    command.split(' ').find(|word| !word.contains('=')).unwrap_or_default()
}

/// Returns the words behind the program.
pub(super) fn arguments(command: &str) -> impl Iterator<Item = &str> {
    command.split(' ').skip_while(|word| word.contains('=')).skip(1)
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the process of a command without its arguments.
fn prepare(command: &str) -> Result<Command> {
    let program = program(command);
    let cargo = |options: &str| {
        let mut cargo = Command::new("cargo");
        cargo.args(options.split(' ')).arg("--");
        cargo
    };
    let mut process = match program {
        "carnet-bench" => Command::new(this_program()?),
        "carnet" | "carnet-maelstrom-test" => Command::new(beside(program)?),
        "bench/peers" => {
            // Cargo reads the options of the compiler there.
            let mut cargo = cargo("run --release --locked --quiet");
            cargo.current_dir(root().join(program));
            cargo
        }
        "commit_rows" => {
            let mut cargo =
                cargo("run --release --locked --quiet -p carnet-store-cql --example commit_rows");
            cargo.current_dir(root());
            cargo
        }
        script => Command::new(root().join(script)),
    };
    process.envs(environment(command));
    Ok(process)
}

fn this_program() -> Result<PathBuf> {
    std::env::current_exe()
        .map_err(|error| Error::unavailable("this program has no path").with_source(error))
}

fn beside(program: &str) -> Result<PathBuf> {
    let path = this_program()?.with_file_name(program);
    if path.exists() {
        return Ok(path);
    }
    let package = if program == "carnet" { "carnet-cli" } else { program };
    Err(Error::unavailable(format!(
        "there is no {}: run `cargo build --release -p {package}`",
        path.display()
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_come_before_the_program() {
        let command = "HEAP=4g bench/run --clients 1 --peer a=b";
        assert_eq!(environment(command).collect::<Vec<_>>(), [("HEAP", "4g")]);
        assert_eq!(program(command), "bench/run");
        assert_eq!(arguments(command).collect::<Vec<_>>(), ["--clients", "1", "--peer", "a=b"]);
    }
}
