//! The interactive shell: line editing, history, completion.

use std::env;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use carnet_cql::{PieceEnd, redacted};
use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::DefaultHistory;
use rustyline::validate::Validator;
use rustyline::{Context, Editor, Helper};

use super::command::first_word;
use super::complete::{Names, complete};
use super::pieces::pieces;
use super::print::Size;
use super::session::{Flow, Session};
use crate::origin::Origin;
use crate::{interrupt, print_error};

/// First words of statements that may change the names in the schema, or the current keyspace.
const CHANGING: [&str; 6] = ["ALTER", "CREATE", "DROP", "LOGIN", "SOURCE", "USE"];

/// Prompts for statements and runs them, until Ctrl-D or EXIT. Ctrl-C ends the statement.
pub(crate) fn interactive(session: &mut Session) -> Result<()> {
    let mut editor =
        Editor::<Completion, DefaultHistory>::new().context("cannot use the terminal")?;
    editor.set_helper(Some(Completion::default()));
    let history = history_file();
    if let Some(path) = &history {
        // The file is missing the first time.
        let _ = editor.load_history(path);
    }
    eprintln!("Carnet {}. HELP; for help, Ctrl-D to leave.", env!("CARGO_PKG_VERSION"));
    refresh(&mut editor, session);
    let mut text = String::new();
    loop {
        if let Some(helper) = editor.helper_mut() {
            helper.text_before.clone_from(&text);
        }
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
        remember(&mut editor, history.as_ref(), text.trim_end());
        session.resize(size(&mut editor));
        // A press while no statement ran is not meant for this one.
        interrupt::clear();
        match session.run_script(&text, &Origin::Terminal) {
            Ok(Flow::Continue) => {}
            Ok(Flow::Exit) => break,
            Err(error) => print_error(&error),
        }
        interrupt::clear();
        if CHANGING.iter().any(|word| first_word(&text).eq_ignore_ascii_case(word)) {
            refresh(&mut editor, session);
        }
        text.clear();
    }
    Ok(())
}

/// Adds an entry to the history and its file, unless it has a password. A failure to store it is no
/// reason to stop.
fn remember(editor: &mut Editor<Completion, DefaultHistory>, file: Option<&PathBuf>, entry: &str) {
    if redacted(entry) != entry {
        return;
    }
    let is_new = editor.add_history_entry(entry).unwrap_or(false);
    if let (true, Some(path)) = (is_new, file) {
        let _ = editor.append_history(path);
    }
}

/// Reads the names in the schema. Without them, completion knows keywords only.
fn refresh(editor: &mut Editor<Completion, DefaultHistory>, session: &Session) {
    let names = Names::read(&session.database).unwrap_or_default();
    interrupt::clear();
    if let Some(helper) = editor.helper_mut() {
        helper.names = names;
        helper.keyspace = session.keyspace();
    }
}

fn size(editor: &mut Editor<Completion, DefaultHistory>) -> Option<Size> {
    let (columns, lines) = editor.dimensions()?;
    Some(Size { columns: columns.into(), lines: lines.into() })
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
    pieces(text).last().is_some_and(|piece| piece.end == PieceEnd::Semicolon)
}

/// Returns the history file in the user's state directory, which is created; `None` without one.
fn history_file() -> Option<PathBuf> {
    let set = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let state = set("XDG_STATE_HOME").or_else(|| Some(set("HOME")?.join(".local/state")))?;
    let directory = state.join("carnet");
    DirBuilder::new().recursive(true).mode(0o700).create(&directory).ok()?;
    Some(directory.join("history"))
}

/// Completion of the line that is typed.
#[derive(Default)]
struct Completion {
    names: Names,
    keyspace: Option<String>,
    /// Lines of the statement before this one.
    text_before: String,
}

impl Completer for Completion {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        position: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        Ok(complete(&self.names, self.keyspace.as_deref(), &self.text_before, line, position))
    }
}

impl Hinter for Completion {
    type Hint = String;
}

impl Highlighter for Completion {}

impl Validator for Completion {}

impl Helper for Completion {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statement_ends_with_its_semicolon() {
        let complete = ["USE a;", "help\n", " exit \n", "BEGIN BATCH INSERT a; APPLY BATCH;"];
        for text in complete.into_iter().chain(["DESCRIBE TABLES\n", "\\dt\n"]) {
            assert!(is_complete(text), "{text}");
        }
        for open in ["", "USE a\n", "USE 'a;\n", "BEGIN TRANSACTION SELECT a;\n", "COPY t\n"] {
            assert!(!is_complete(open), "{open}");
        }
    }
}
