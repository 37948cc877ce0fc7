//! The shell's own commands, distinguished from CQL by their first word.

use crate::copy::{self, Copy};
use crate::lexer::{Mistake, Token, TokenKind, tokens};

/// Command of the shell.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Command {
    /// Lists the commands, or describes one.
    Help(Option<String>),
    /// Ends the shell.
    Exit,
    /// Clears the terminal.
    Clear,
    /// Runs the script at a path.
    Source(String),
    /// Moves rows between a table and CSV.
    Copy(Box<Copy>),
    /// Shows or sets the consistency level.
    Consistency(Option<String>),
    /// Shows or sets the serial consistency level.
    SerialConsistency(Option<String>),
    /// Shows or sets whether statements are traced.
    Tracing(Option<bool>),
    /// Shows or sets whether a row is printed as one column and line per value.
    Expand(Option<bool>),
    /// Shows or sets the size of pages.
    Paging(Option<Paging>),
    /// Shows or sets the file that output goes to.
    Capture(Option<Capture>),
    /// Shows a fact about the shell or the server.
    Show(Show),
    /// Connects as another user.
    Login(String),
}

/// Pages of results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Paging {
    /// All pages are printed without a question.
    Off,
    /// Pages of the default size.
    On,
    /// Pages of this number of rows.
    Rows(usize),
}

/// Destination of the output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Capture {
    /// Standard output, as at first.
    Off,
    /// A file, which is appended to.
    File(String),
}

/// Operand of `SHOW`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Show {
    Version,
    Host,
    /// A trace, by its id.
    Session(String),
}

impl Command {
    /// Parses a command; `None` if the text is CQL.
    ///
    /// # Errors
    ///
    /// A syntax error in a text that begins like a command.
    pub(crate) fn parse(text: &str) -> Option<Result<Self, Mistake>> {
        let first = first_word(text).to_ascii_uppercase();
        Some(match first.as_str() {
            "HELP" => Ok(Self::Help(topic(text))),
            "EXIT" | "QUIT" => alone(text).map(|()| Self::Exit),
            "CLEAR" | "CLS" => alone(text).map(|()| Self::Clear),
            "SOURCE" => source(text).map(Self::Source),
            "COPY" => copy::parse(text).map(|copy| Self::Copy(Box::new(copy))),
            "CONSISTENCY" => operand(text, 1).map(Self::Consistency),
            "SERIAL" => serial(text),
            "TRACING" => switch(text).map(Self::Tracing),
            "EXPAND" => switch(text).map(Self::Expand),
            "PAGING" => paging(text).map(Self::Paging),
            "CAPTURE" => capture(text).map(Self::Capture),
            "LOGIN" => login(text).map(Self::Login),
            "SHOW" => return show(text),
            "DEBUG" | "ELAPSED" | "HISTORY" => {
                Err(Mistake::new(0, format!("{first} of cqlsh is not supported")))
            }
            _ => return None,
        })
    }
}

/// Returns the first word of a text.
pub(crate) fn first_word(text: &str) -> &str {
    let text = text.trim_start();
    &text[..text.find(|c: char| !c.is_alphanumeric()).unwrap_or(text.len())]
}

/// Returns the word behind `HELP`. Other text is no mistake: the person needs help.
fn topic(text: &str) -> Option<String> {
    let rest = text.trim_start().get("HELP".len()..).unwrap_or_default();
    let word = first_word(rest);
    (!word.is_empty()).then(|| word.to_ascii_uppercase())
}

fn alone(text: &str) -> Result<(), Mistake> {
    end(&tokens(text)?, 1)
}

/// Checks that a command has no token from this one on.
fn end(tokens: &[Token], from: usize) -> Result<(), Mistake> {
    match tokens.get(from) {
        None => Ok(()),
        Some(Token { kind, at }) => {
            Err(Mistake::new(*at, format!("expected the end of the command, found {kind}")))
        }
    }
}

/// Returns the only operand of a command, in upper case unless it is quoted.
fn operand(text: &str, place: usize) -> Result<Option<String>, Mistake> {
    let tokens = tokens(text)?;
    end(&tokens, place + 1)?;
    match tokens.get(place) {
        None => Ok(None),
        Some(Token { kind: TokenKind::Word(word), .. }) => Ok(Some(word.to_ascii_uppercase())),
        Some(Token { kind, at }) => {
            Err(Mistake::new(*at, format!("expected a word, found {kind}")))
        }
    }
}

fn switch(text: &str) -> Result<Option<bool>, Mistake> {
    match operand(text, 1)?.as_deref() {
        None => Ok(None),
        Some("ON") => Ok(Some(true)),
        Some("OFF") => Ok(Some(false)),
        Some(word) => Err(Mistake::new(text.len(), format!("expected ON or OFF, found {word}"))),
    }
}

fn serial(text: &str) -> Result<Command, Mistake> {
    let tokens = tokens(text)?;
    match tokens.get(1).map(|token| &token.kind) {
        Some(TokenKind::Word(word)) if word.eq_ignore_ascii_case("CONSISTENCY") => {}
        _ => return Err(Mistake::new(text.len(), "expected SERIAL CONSISTENCY [level]")),
    }
    operand(text, 2).map(Command::SerialConsistency)
}

fn paging(text: &str) -> Result<Option<Paging>, Mistake> {
    Ok(match operand(text, 1)?.as_deref() {
        None => None,
        Some("ON") => Some(Paging::On),
        Some("OFF") => Some(Paging::Off),
        Some(word) => match word.parse() {
            Ok(rows) if (1..=100_000).contains(&rows) => Some(Paging::Rows(rows)),
            _ => {
                let message = "expected ON, OFF or a number of rows from 1 to 100000";
                return Err(Mistake::new(text.len(), message));
            }
        },
    })
}

fn capture(text: &str) -> Result<Option<Capture>, Mistake> {
    match tokens(text)?.as_slice() {
        [_] => Ok(None),
        [_, Token { kind: TokenKind::Word(word), .. }] if word.eq_ignore_ascii_case("OFF") => {
            Ok(Some(Capture::Off))
        }
        [_, Token { kind: TokenKind::Text(path), .. }] => Ok(Some(Capture::File(path.clone()))),
        _ => Err(Mistake::new(text.len(), "expected CAPTURE 'file', CAPTURE OFF or CAPTURE")),
    }
}

fn login(text: &str) -> Result<String, Mistake> {
    match tokens(text)?.as_slice() {
        [_, Token { kind: TokenKind::Word(user) | TokenKind::Text(user), .. }] => Ok(user.clone()),
        [_, _, more, ..] => Err(Mistake::new(
            more.at,
            "a password in a command would stay in the history: give the user's name only, and \
             the shell asks for the password",
        )),
        _ => Err(Mistake::new(text.len(), "expected LOGIN user")),
    }
}

/// Parses `SHOW`; `None` for a statement of CQL.
fn show(text: &str) -> Option<Result<Command, Mistake>> {
    let tokens = match tokens(text) {
        Ok(tokens) => tokens,
        Err(mistake) => return Some(Err(mistake)),
    };
    let word = match tokens.get(1).map(|token| &token.kind) {
        Some(TokenKind::Word(word)) => word.to_ascii_uppercase(),
        _ => String::new(),
    };
    Some(match word.as_str() {
        "BOTTLENECK" | "STATEMENTS" | "STATISTICS" | "TRANSACTIONS" | "CONFLICTS" | "WAITS" => {
            return None;
        }
        "VERSION" => end(&tokens, 2).map(|()| Command::Show(Show::Version)),
        "HOST" => end(&tokens, 2).map(|()| Command::Show(Show::Host)),
        "SESSION" => {
            let id = text[tokens[1].at + word.len()..].trim().to_owned();
            Ok(Command::Show(Show::Session(id)))
        }
        _ => {
            let at = tokens.get(1).map_or(text.len(), |token| token.at);
            let expected = "expected SHOW VERSION, HOST, SESSION id, BOTTLENECK, STATEMENTS, STATISTICS, TRANSACTIONS, CONFLICTS or WAITS";
            Err(Mistake::new(at, expected))
        }
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    fn mistake(text: &str) -> Mistake {
        Command::parse(text).unwrap().unwrap_err()
    }

    #[test]
    fn commands_are_distinguished_from_cql() {
        assert_eq!(Command::parse("help"), Some(Ok(Command::Help(None))));
        assert_eq!(Command::parse("HELP;"), Some(Ok(Command::Help(None))));
        assert_eq!(Command::parse(" help copy"), Some(Ok(Command::Help(Some("COPY".into())))));
        assert_eq!(Command::parse(" Quit "), Some(Ok(Command::Exit)));
        let source = Command::Source("it's.cql".into());
        assert_eq!(Command::parse("source 'it''s.cql'"), Some(Ok(source)));
        for cql in [
            "SELECT 1",
            "",
            "helper",
            "describe tables",
            "'help'",
            "show  Bottleneck",
            "SHOW STATEMENTS",
        ] {
            assert_eq!(Command::parse(cql), None, "{cql}");
        }
    }

    #[test]
    fn settings_are_shown_and_set() {
        let command = |text: &str| Command::parse(text).unwrap().unwrap();
        assert_eq!(command("consistency"), Command::Consistency(None));
        assert_eq!(command("CONSISTENCY quorum"), Command::Consistency(Some("QUORUM".into())));
        let serial = Command::SerialConsistency(Some("LOCAL_SERIAL".into()));
        assert_eq!(command("serial consistency local_serial"), serial);
        assert_eq!(command("TRACING ON"), Command::Tracing(Some(true)));
        assert_eq!(command("expand"), Command::Expand(None));
        assert_eq!(command("paging off"), Command::Paging(Some(Paging::Off)));
        assert_eq!(command("PAGING 50"), Command::Paging(Some(Paging::Rows(50))));
        let file = Command::Capture(Some(Capture::File("a.txt".into())));
        assert_eq!(command("CAPTURE 'a.txt'"), file);
        assert_eq!(command("capture off"), Command::Capture(Some(Capture::Off)));
        assert_eq!(command("show version"), Command::Show(Show::Version));
        let id = "f81d4fae-7dec-11d0-a765-00a0c91e6bf6";
        let session = Command::Show(Show::Session(id.into()));
        assert_eq!(command(&format!("SHOW SESSION {id}")), session);
        assert_eq!(command("login ann"), Command::Login("ann".into()));
    }

    #[test]
    fn mistake_has_a_position() {
        assert_eq!(mistake("exit now").at, 5);
        assert_eq!(mistake("source").at, 6);
        assert_eq!(mistake("source file").at, 7);
        assert_eq!(mistake("source 'a' 'b'").at, 7);
        assert_eq!(mistake("tracing maybe").message, "expected ON or OFF, found MAYBE");
        assert_eq!(mistake("paging 0").at, 8);
        assert_eq!(mistake("show tables").at, 5);
        assert!(mistake("login ann secret").message.contains("history"));
        assert!(mistake("debug").message.contains("not supported"));
    }
}
