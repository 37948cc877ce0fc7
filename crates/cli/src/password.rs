//! Passwords: read from a file, or typed on the terminal.

use std::borrow::Cow;
use std::path::Path;

use anyhow::{Context, Result};
use rustyline::completion::Completer;
use rustyline::config::Configurer;
use rustyline::highlight::{CmdKind, Highlighter};
use rustyline::hint::Hinter;
use rustyline::history::DefaultHistory;
use rustyline::validate::Validator;
use rustyline::{ColorMode, Editor, Helper};

/// Reads a password from a file; blanks around it are not part of it.
///
/// # Errors
///
/// If the file cannot be read.
pub(crate) fn read(path: &Path) -> Result<String> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("cannot read the password in {}", path.display()))?;
    Ok(text.trim().to_owned())
}

/// Asks for a password on the terminal, once for each prompt, without echoing it.
///
/// # Errors
///
/// If there is no terminal, or nothing is typed.
pub(crate) fn ask<const N: usize>(prompts: [&str; N]) -> Result<[String; N]> {
    let mut editor = Editor::<Masked, DefaultHistory>::new().context("cannot use the terminal")?;
    editor.set_helper(Some(Masked));
    // Highlighting hides the text, so it is forced whatever the terminal reports.
    editor.set_color_mode(ColorMode::Forced);
    editor.set_auto_add_history(false);
    let mut lines = [const { String::new() }; N];
    for (line, prompt) in lines.iter_mut().zip(prompts) {
        *line = editor.readline(prompt).context("no password was given")?;
    }
    Ok(lines)
}

/// Shows a star for each typed character.
struct Masked;

impl Highlighter for Masked {
    fn highlight<'l>(&self, line: &'l str, _: usize) -> Cow<'l, str> {
        Cow::Owned("*".repeat(line.chars().count()))
    }

    fn highlight_char(&self, _: &str, _: usize, kind: CmdKind) -> bool {
        kind != CmdKind::MoveCursor
    }
}

impl Completer for Masked {
    type Candidate = String;
}

impl Hinter for Masked {
    type Hint = String;
}

impl Validator for Masked {}

impl Helper for Masked {}
