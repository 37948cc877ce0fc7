//! The shell's own commands, distinguished from CQL by their first word.

use super::lexer::{Mistake, Token, TokenKind, tokens};
use crate::copy::{self, Copy};

/// Command of the shell.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Command {
    /// Lists the commands.
    Help,
    /// Ends the shell.
    Exit,
    /// Runs a script.
    Source(String),
    /// Moves rows between a table and CSV.
    Copy(Box<Copy>),
}

/// Commands of cqlsh that this shell does not support.
const OF_CQLSH: [&str; 11] = [
    "CAPTURE",
    "CLEAR",
    "CLS",
    "CONSISTENCY",
    "ELAPSED",
    "EXPAND",
    "LOGIN",
    "PAGING",
    "SERIAL",
    "SHOW",
    "TRACING",
];

impl Command {
    /// Parses a command; `None` if the text is CQL.
    ///
    /// # Errors
    ///
    /// A syntax error in a text that begins like a command.
    pub(crate) fn parse(text: &str) -> Option<Result<Self, Mistake>> {
        let first = first_word(text).to_ascii_uppercase();
        match first.as_str() {
            "HELP" => Some(alone(text).map(|()| Self::Help)),
            "EXIT" | "QUIT" => Some(alone(text).map(|()| Self::Exit)),
            "SOURCE" => Some(source(text).map(Self::Source)),
            "COPY" => Some(copy::parse(text).map(|copy| Self::Copy(Box::new(copy)))),
            "SHOW" if second_word(text).eq_ignore_ascii_case("BOTTLENECK") => None,
            word if OF_CQLSH.contains(&word) => {
                let message = format!("not supported yet: {word}, a command of cqlsh");
                Some(Err(Mistake::new(0, message)))
            }
            _ => None,
        }
    }
}

/// Returns the first word of a text.
pub(crate) fn first_word(text: &str) -> &str {
    let text = text.trim_start();
    &text[..text.find(|c: char| !c.is_alphanumeric()).unwrap_or(text.len())]
}

fn second_word(text: &str) -> &str {
    let text = text.trim_start();
    first_word(&text[first_word(text).len()..])
}

fn alone(text: &str) -> Result<(), Mistake> {
    match tokens(text)?.get(1) {
        None => Ok(()),
        Some(Token { kind, at }) => {
            Err(Mistake::new(*at, format!("expected the end of the command, found {kind}")))
        }
    }
}

fn source(text: &str) -> Result<String, Mistake> {
    match tokens(text)?.as_slice() {
        [_, Token { kind: TokenKind::Text(path), .. }] => Ok(path.clone()),
        [_] => Err(Mistake::new(text.len(), "expected a path in quotes: SOURCE 'script.cql'")),
        [_, other, ..] => {
            Err(Mistake::new(other.at, "expected one path in quotes: SOURCE 'script.cql'"))
        }
        [] => Err(Mistake::new(0, "expected SOURCE 'script.cql'")),
    }
}

pub(crate) const HELP: &str = "\
CQL statements end with a semicolon; BEGIN TRANSACTION … COMMIT TRANSACTION; is one statement.
∅ in a table stands for null.

The shell's own commands:
  COPY table [(columns)] FROM 'file.csv' | STDIN [WITH option = value AND …]
  COPY table [(columns)] TO   'file.csv' | STDOUT [WITH …]
       HEADER = false        the first line names the columns
       DELIMITER = ','       one character
       QUOTE = '\"'           one character
       ESCAPE = '\\'          before a quote in quotes and before itself, as in cqlsh;
                             '\"' doubles quotes instead, as in RFC 4180
       NULL = ''             how null is written; an empty text stands in quotes
       DATETIMEFORMAT = …    form of timestamps, as '%Y-%m-%d %H:%M:%S'
       PAGESIZE = 1000       TO: rows read at a time
       CHUNKSIZE = 500       FROM: rows in a transaction
       MAXERRORS = 0         FROM: refused rows that are passed over; -1: all.
                             MAXPARSEERRORS and MAXINSERTERRORS count separately
       ERRFILE = …           FROM: file for these rows, by default import_<table>.err
       CQLSHEXPORT = …       FROM: whether texts are as cqlsh exports them; by default
                             if lines end with CR LF, as cqlsh's do
  DESCRIBE KEYSPACES | TABLES | SCHEMA | KEYSPACE name | TABLE name
  SHOW BOTTLENECK            what statements wait for; of a server only
  SOURCE 'script.cql'        run a script
  HELP                       this text
  EXIT, QUIT                 leave; so does Ctrl-D
";

#[cfg(test)]
mod tests {
    use super::*;

    fn mistake(text: &str) -> Mistake {
        Command::parse(text).unwrap().unwrap_err()
    }

    #[test]
    fn commands_are_distinguished_from_cql() {
        assert_eq!(Command::parse("help"), Some(Ok(Command::Help)));
        assert_eq!(Command::parse(" Quit "), Some(Ok(Command::Exit)));
        let source = Command::Source("it's.cql".into());
        assert_eq!(Command::parse("source 'it''s.cql'"), Some(Ok(source)));
        for cql in ["SELECT 1", "", "helper", "describe tables", "'help'", "show  Bottleneck"] {
            assert_eq!(Command::parse(cql), None, "{cql}");
        }
    }

    #[test]
    fn mistake_has_a_position() {
        assert_eq!(mistake("exit now").at, 5);
        assert_eq!(mistake("source").at, 6);
        assert_eq!(mistake("source file").at, 7);
        assert_eq!(mistake("source 'a' 'b'").at, 7);
        assert!(mistake("tracing on").message.starts_with("not supported yet: TRACING"));
        assert!(mistake("show version").message.starts_with("not supported yet: SHOW"));
    }
}
