//! Golden scripts of the program: command lines and their output.
//!
//! Rewrite the expected output with `UPDATE_GOLDENFILES=1 cargo test -p carnet-cli --test all scripts::`, and read the diff.
//! Each command runs `carnet` with its arguments in a directory of the script, which is printed as `DIR`. Lines of
//! standard error begin with `!`, and an exit code other than 0 is printed.

use std::error::Error;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use goldenscript::Argument;
use tempfile::TempDir;

struct Script {
    directory: TempDir,
}

impl Script {
    fn carnet(&self, arguments: &[String]) -> Result<String, Box<dyn Error>> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_carnet"));
        let output = command.args(arguments).current_dir(self.directory.path()).output()?;
        let mut said = String::from_utf8(output.stdout)?;
        if !said.is_empty() && !said.ends_with('\n') {
            said.push('\n');
        }
        for line in String::from_utf8(output.stderr)?.lines() {
            let _ = writeln!(said, "! {line}");
        }
        if !output.status.success() {
            let _ = writeln!(said, "{}", output.status);
        }
        let directory = self.directory.path().canonicalize()?;
        Ok(said.replace(directory.to_str().ok_or("a path of text")?, "DIR"))
    }
}

impl goldenscript::Runner for Script {
    type Command = goldenscript::Command;

    fn run(
        &mut self,
        command: &goldenscript::Command,
        _: &goldenscript::Context,
    ) -> Result<String, Box<dyn Error>> {
        let word = |argument: &Argument| match argument {
            Argument::Positional(value) => value.clone(),
            argument => argument.to_string(),
        };
        let mut words: Vec<String> = command.args.iter().map(word).collect();
        match command.name.as_str() {
            "carnet" => self.carnet(&words),
            "file" => {
                let text = words.pop().ok_or("no text")?;
                std::fs::write(self.directory.path().join(words.pop().ok_or("no name")?), text)?;
                Ok(String::new())
            }
            other => Err(format!("unknown command {other}").into()),
        }
    }
}

fn run(name: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("testscripts").join(name);
    let mut script = Script { directory: tempfile::tempdir().unwrap() };
    goldenscript::run(&mut script, &path)
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}

#[test]
fn script_of_the_shell() {
    run("shell");
}

#[test]
fn script_of_hints() {
    run("hints");
}

#[test]
fn script_of_settings() {
    run("settings");
}

#[test]
fn script_of_backups() {
    run("backups");
}
