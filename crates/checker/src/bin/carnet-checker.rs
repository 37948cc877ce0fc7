//! `carnet-checker FILE`: judges a history. Exits with 0 if the model is not violated, 1 if it is,
//! and 2 if the history could not be read.

use std::io::{self, Read, Write};
use std::process::ExitCode;
use std::{env, fs};

use carnet_checker::format::Format;
use carnet_checker::{Model, Options, check};

const USAGE: &str = "\
Checks a history of transactions for isolation anomalies.

usage: carnet-checker [options] FILE        FILE is EDN or JSON in Elle's format; - is stdin

options:
  --model MODEL         model that decides the exit code [default: strict-serializable]
  --linearizable-keys   assume that each single register is linearizable
  --format edn|json     format of FILE [default: guessed from its content]
  --help                this text

models: read-committed, snapshot-isolation, strong-session-snapshot-isolation,
        strong-snapshot-isolation, serializable, strong-session-serializable, strict-serializable

exit code: 0 not violated, 1 violated, 2 not readable
";

struct Arguments {
    file: String,
    model: Model,
    format: Option<Format>,
    options: Options,
}

fn parse(mut words: impl Iterator<Item = String>) -> Result<Option<Arguments>, String> {
    let mut file = None;
    let (mut model, mut format) = (Model::StrictSerializable, None);
    let mut options = Options::default();
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("{word} needs a value"));
        match word.as_str() {
            "--help" | "-h" => return Ok(None),
            "--linearizable-keys" => options.linearizable_keys = true,
            "--model" => {
                let name = value()?;
                model = Model::from_name(&name).ok_or(format!("unknown model {name}"))?;
            }
            "--format" => {
                format = Some(match value()?.as_str() {
                    "edn" => Format::Edn,
                    "json" => Format::Json,
                    other => return Err(format!("unknown format {other}")),
                });
            }
            option if option.starts_with("--") => return Err(format!("unknown option {option}")),
            _ if file.is_some() => return Err("only one file is allowed".to_owned()),
            _ => file = Some(word),
        }
    }
    let file = file.ok_or("which file?")?;
    Ok(Some(Arguments { file, model, format, options }))
}

fn read(file: &str) -> Result<String, String> {
    let mut bytes = Vec::new();
    let read = match file {
        "-" => io::stdin().lock().read_to_end(&mut bytes).map(|_| bytes),
        path => fs::read(path),
    };
    let bytes = read.map_err(|error| format!("{file}: {error}"))?;
    String::from_utf8(bytes).map_err(|error| format!("{file} is not UTF-8 text: {error}"))
}

/// Returns the verdict in words, and whether the model holds.
fn judge(arguments: &Arguments) -> Result<(String, bool), String> {
    let Arguments { file, model, format, options } = arguments;
    let text = read(file)?;
    let format = format.unwrap_or_else(|| Format::guess(&text));
    let history = format.read(&text).map_err(|bad| format!("{file}: {bad}"))?;
    drop(text);
    let report = check(&history, options).map_err(|bad| format!("{file}: {bad}"))?;
    Ok((report.explain(&history), report.allows(*model)))
}

fn main() -> ExitCode {
    let arguments = match parse(env::args().skip(1)) {
        Ok(Some(arguments)) => arguments,
        Ok(None) => {
            // A closed pipe is not an error.
            let _ = io::stdout().write_all(USAGE.as_bytes());
            return ExitCode::SUCCESS;
        }
        Err(message) => {
            eprintln!("carnet-checker: {message}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match judge(&arguments) {
        Ok((verdict, holds)) => {
            let _ = io::stdout().write_all(verdict.as_bytes());
            ExitCode::from(u8::from(!holds))
        }
        Err(message) => {
            eprintln!("carnet-checker: {message}");
            ExitCode::from(2)
        }
    }
}
