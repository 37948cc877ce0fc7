//! The interactive shell: line editing, history, completion.

use std::env;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use carnet_cql::{PieceEnd, split};
use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::DefaultHistory;
use rustyline::validate::Validator;
use rustyline::{Context, Editor, Helper};

use super::command::first_word;
use super::session::{Flow, Session};
use crate::origin::Origin;
use crate::print_error;

/// Prompts for statements and runs them, until Ctrl-D or EXIT.
pub(crate) fn interactive(session: &mut Session) -> Result<()> {
    let mut editor =
        Editor::<Keywords, DefaultHistory>::new().context("cannot use the terminal")?;
    editor.set_helper(Some(Keywords));
    let history = history_file();
    if let Some(path) = &history {
        // The file is missing the first time.
        let _ = editor.load_history(path);
    }
    eprintln!("Carnet {}. HELP; for help, Ctrl-D to leave.", env!("CARGO_PKG_VERSION"));
    let mut text = String::new();
    loop {
        match editor.readline(&prompt(session, text.is_empty())) {
            Ok(line) => {
                text.push_str(&line);
                text.push('\n');
            }
            Err(ReadlineError::Interrupted) => text.clear(),
            Err(ReadlineError::Eof) => break,
            Err(error) => return Err(error).context("cannot read the terminal"),
        }
        if text.trim().is_empty() {
            text.clear();
        }
        if !is_complete(&text) {
            continue;
        }
        // A failure to store the history is no reason to stop.
        let _ = editor.add_history_entry(text.trim_end());
        match session.run_script(&text, &Origin::Terminal) {
            Ok(Flow::Continue) => {}
            Ok(Flow::Exit) => break,
            Err(error) => print_error(&error),
        }
        text.clear();
    }
    if let Some(path) = &history {
        let _ = editor.save_history(path);
    }
    Ok(())
}

fn prompt(session: &Session, is_first: bool) -> String {
    let name = session.keyspace().map_or("carnet".into(), |keyspace| format!("carnet:{keyspace}"));
    // Like psql, a star says that statements are part of an open transaction.
    let name = if session.is_in_transaction() { format!("{name}*") } else { name };
    if is_first { format!("{name}> ") } else { format!("{:>1$} ", "...>", name.len() + 1) }
}

/// Returns `true` if the typed text can be run: it ends with a semicolon, or is a command that
/// needs none.
fn is_complete(text: &str) -> bool {
    const ALONE: [&str; 3] = ["HELP", "EXIT", "QUIT"];
    let word = first_word(text);
    if ALONE.iter().any(|alone| word.eq_ignore_ascii_case(alone)) && text.trim() == word {
        return true;
    }
    split(text).last().is_some_and(|piece| piece.end == PieceEnd::Semicolon)
}

/// Returns the history file in the user's state directory, which is created; `None` without one.
fn history_file() -> Option<PathBuf> {
    let set = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let state = set("XDG_STATE_HOME").or_else(|| Some(set("HOME")?.join(".local/state")))?;
    let directory = state.join("carnet");
    DirBuilder::new().recursive(true).mode(0o700).create(&directory).ok()?;
    Some(directory.join("history"))
}

/// Completion of CQL keywords.
struct Keywords;

const WORDS: [&str; 85] = [
    "ALL",
    "ALTER",
    "AND",
    "APPLY",
    "ASC",
    "ATTACH",
    "ATTACHED",
    "BATCH",
    "BEGIN",
    "BY",
    "CLUSTERING",
    "COMMIT",
    "COPY",
    "CREATE",
    "DELETE",
    "DELIMITER",
    "DESC",
    "DESCRIBE",
    "DETACH",
    "DETACHED",
    "DISTINCT",
    "DROP",
    "EFFECTIVE",
    "ELSE",
    "END",
    "EXISTS",
    "EXIT",
    "FROM",
    "HEADER",
    "HELP",
    "IF",
    "IN",
    "INSERT",
    "INTO",
    "IS",
    "ISOLATION",
    "KEY",
    "KEYSPACE",
    "KEYSPACES",
    "LET",
    "LEVEL",
    "LEVELS",
    "LIMIT",
    "LIST",
    "NOT",
    "NULL",
    "ORDER",
    "PARTITION",
    "PER",
    "PRIMARY",
    "REPLICATION",
    "RAISE",
    "ROLLBACK",
    "SCHEMA",
    "SELECT",
    "SERVICE",
    "SET",
    "SOURCE",
    "START",
    "STATIC",
    "STDIN",
    "STDOUT",
    "TABLE",
    "TABLES",
    "THEN",
    "TIMEOUT",
    "TOKEN",
    "TRANSACTION",
    "UPDATE",
    "USE",
    "USING",
    "VALUES",
    "WHERE",
    "WITH",
    "bigint",
    "blob",
    "boolean",
    "decimal",
    "double",
    "float",
    "int",
    "text",
    "timestamp",
    "timeuuid",
    "uuid",
];

impl Completer for Keywords {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        position: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        Ok(complete(line, position))
    }
}

fn complete(line: &str, position: usize) -> (usize, Vec<String>) {
    let typed = &line[..position];
    let start = typed
        .rfind(|c: char| !c.is_ascii_alphabetic())
        .map_or(0, |at| at + typed[at..].chars().next().map_or(1, char::len_utf8));
    let stem = &typed[start..];
    if stem.is_empty() {
        return (start, Vec::new());
    }
    let begins =
        |word: &&&str| word.get(..stem.len()).is_some_and(|head| head.eq_ignore_ascii_case(stem));
    (start, WORDS.iter().filter(begins).map(|word| format!("{word} ")).collect())
}

impl Hinter for Keywords {
    type Hint = String;
}

impl Highlighter for Keywords {}

impl Validator for Keywords {}

impl Helper for Keywords {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statement_ends_with_its_semicolon() {
        for complete in ["USE a;", "help\n", " exit ", "BEGIN BATCH INSERT a; APPLY BATCH;"] {
            assert!(is_complete(complete), "{complete}");
        }
        for open in ["", "USE a", "USE 'a;", "BEGIN TRANSACTION SELECT a;", "help me"] {
            assert!(!is_complete(open), "{open}");
        }
    }

    #[test]
    fn keywords_are_completed() {
        assert_eq!(complete("sel", 3), (0, vec!["SELECT ".into()]));
        assert_eq!(complete("é times", 8), (3, vec!["timestamp ".into()]));
        assert_eq!(complete("eff", 3), (0, vec!["EFFECTIVE ".into()]));
        assert_eq!(complete("SELECT ", 7).1, Vec::<String>::new());
    }
}
