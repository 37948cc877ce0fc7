//! Runs scripts and statements.

use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use carnet_base::{Clock, SystemClock};
use carnet_cql::ast::Statement;
use carnet_cql::result::{Response, Rows};
use carnet_cql::{CqlError, Limits, Location, Piece, PieceEnd, parse};

use super::build::Build;
use super::command::{Command, first_word};
use super::feedback;
use super::help::help;
use super::hints::hint;
use super::pieces::pieces;
use super::print::{Printer, Size};
use crate::copy;
use crate::database::{Answer, Database, Page};
use crate::lexer::Mistake;
use crate::origin::{Origin, caret};
use crate::{interrupt, print_error, script_text, sentence};

/// Number of rows per page of a result.
const PAGE_ROWS: usize = 1_000;
/// Maximum nesting depth of scripts.
const SOURCE_DEPTH_MAX: usize = 16;

/// Whether the shell continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    /// Continue with the next statement.
    Continue,
    /// End: EXIT was run.
    Exit,
}

/// An open database, and the printer of results.
pub(crate) struct Session {
    pub(super) database: Database,
    pub(super) printer: Printer,
    /// Number of rows per page; `None` if all rows are printed without a question.
    pub(super) page_rows: Option<usize>,
    echoes: bool,
    keeps_going: bool,
    /// Number of statements that failed although the script went on.
    failures: u64,
    depth: usize,
}

impl Session {
    pub(crate) fn new(database: Database, printer: Printer) -> Self {
        Self {
            database,
            printer,
            page_rows: Some(PAGE_ROWS),
            echoes: false,
            keeps_going: false,
            failures: 0,
            depth: 0,
        }
    }

    /// Sets whether statements are printed before their results.
    pub(crate) fn echo(&mut self, echoes: bool) {
        self.echoes = echoes;
    }

    /// Sets whether a script goes on behind a statement that fails.
    pub(crate) fn keep_going(&mut self, keeps_going: bool) {
        self.keeps_going = keeps_going;
    }

    /// Fails if statements failed although the script went on.
    pub(crate) fn finish(&self) -> Result<()> {
        match self.failures {
            0 => Ok(()),
            1 => bail!("1 statement failed"),
            failures => bail!("{failures} statements failed"),
        }
    }

    /// Returns the current keyspace.
    pub(crate) fn keyspace(&self) -> Option<String> {
        self.database.keyspace()
    }

    /// Returns `true` if statements are part of an open transaction.
    pub(crate) fn is_in_transaction(&self) -> bool {
        self.database.is_in_transaction()
    }

    /// Sets the size of the terminal.
    pub(crate) fn resize(&mut self, size: Option<Size>) {
        self.printer.resize(size);
    }

    /// Selects a keyspace by its stored name.
    pub(crate) fn use_keyspace(&mut self, name: &str) -> Result<()> {
        let statement = format!("USE \"{}\"", name.replace('"', "\"\""));
        self.database.query(&statement, &Page::default()).map(|_| ())
    }

    /// Runs a script up to its first error, or to its end if the shell keeps going.
    pub(crate) fn run_script(&mut self, script: &str, origin: &Origin) -> Result<Flow> {
        let mut done = 0;
        for piece in pieces(script) {
            let end = piece.start.offset + piece.text.len();
            if self.echoes {
                let statement = format!("{};", piece.text);
                self.printer.echo(between(&script[done..piece.start.offset]), &statement)?;
            }
            done = end;
            match self.run_piece(script, &piece, origin) {
                Ok(Flow::Exit) => return Ok(Flow::Exit),
                Ok(Flow::Continue) => {}
                Err(error) if self.keeps_going && !interrupt::is_pressed() => {
                    print_error(&error);
                    self.failures += 1;
                }
                Err(error) => return Err(error),
            }
            if self.echoes {
                self.printer.note("")?;
            }
        }
        if self.echoes {
            self.printer.echo(between(&script[done..]), "")?;
        }
        Ok(Flow::Continue)
    }

    fn run_piece(&mut self, script: &str, piece: &Piece<'_>, origin: &Origin) -> Result<Flow> {
        interrupt::check()?;
        if let PieceEnd::Inside(what) = piece.end {
            let place = origin.place(piece.start.line, Some(piece.start.column));
            bail!("{place}: the {what} has no end\n{}", caret(script, piece.start));
        }
        match Command::parse(piece.text) {
            Some(Ok(command)) => {
                return placed(self.run_command(command, origin), origin, piece.start.line);
            }
            Some(Err(mistake)) => {
                let error = misplaced(script, piece, origin, &mistake);
                return Err(with_hint(error, piece.text));
            }
            None => {}
        }
        let statement = self.parse(piece, origin).map_err(|error| with_hint(error, piece.text))?;
        let result = self.run_statement(piece.text, statement.as_ref(), origin);
        let result = result.map_err(|error| with_hint(error, piece.text));
        placed(result.map(|()| Flow::Continue), origin, piece.start.line)
    }

    /// Parses here and not in the database alone, so that an error has its position in the script.
    /// `None` for a statement that only the server understands.
    fn parse(&self, piece: &Piece<'_>, origin: &Origin) -> Result<Option<Statement>> {
        match parse(piece.text, &Limits::default()) {
            Ok(parsed) => Ok(Some(parsed.statement)),
            Err(_) if self.database.remote().is_some() => Ok(None),
            Err(error) => {
                let error = error.within(piece.start);
                let place = origin.place(error.location().line, Some(error.location().column));
                Err(anyhow!("{place}: {}\n{}", error.message(), error.snippet()))
            }
        }
    }

    fn run_statement(
        &mut self,
        text: &str,
        statement: Option<&Statement>,
        origin: &Origin,
    ) -> Result<()> {
        let before = self.time_before_traced();
        let started = SystemClock.now();
        let answer = match self.query(text, None) {
            Ok(answer) => answer,
            Err(error) => {
                self.print_failed_trace(text, before);
                return Err(error);
            }
        };
        let elapsed = SystemClock.now().since(started);
        let note = if self.printer.is_terminal() {
            format!(", {:.1} ms", elapsed.as_secs_f64() * 1e3)
        } else {
            String::new()
        };
        for warning in &answer.warnings {
            eprintln!("warning: {warning}");
        }
        match answer.response {
            Response::Rows(rows) if is_description(text, &rows) && self.printer.is_table() => {
                let described = self.printer.text(&description(&rows), false);
                self.printer.end_result();
                described?;
            }
            Response::Rows(rows) => {
                let not_applied = feedback::not_applied(statement, &rows);
                self.print_rows(text, rows, &note)?;
                not_applied.map_or(Ok(()), |note| self.printer.note(note))?;
            }
            Response::SchemaChange(change) => self.printer.change(&change)?,
            Response::SetKeyspace(keyspace) => self.printer.note(&format!("(using {keyspace})"))?,
            // The driver tells no keyspace, but has it.
            Response::Void if matches!(statement, Some(Statement::Use(_))) => {
                let keyspace = self.keyspace().unwrap_or_default();
                self.printer.note(&format!("(using {keyspace})"))?;
            }
            Response::Void => {
                let done = feedback::done(statement, self.is_in_transaction());
                self.printer.note(&done)?;
            }
        }
        // Scripts do not wait for builds, at a terminal as elsewhere.
        let is_watched = *origin == Origin::Terminal && io::stderr().is_terminal();
        if let Some(build) = statement.and_then(Build::of).filter(|_| is_watched) {
            build.follow(&self.database);
        }
        match answer.trace {
            Some(trace) => self.print_trace(trace),
            None => Ok(()),
        }
    }

    fn query(&self, text: &str, state: Option<carnet::Bytes>) -> Result<Answer> {
        let rows = Some(self.page_rows.unwrap_or(PAGE_ROWS));
        self.database.query(text, &Page { rows, state })
    }

    /// Prints a result page by page; all pages read the first page's snapshot.
    pub(super) fn print_rows(&mut self, text: &str, rows: Rows, note: &str) -> Result<()> {
        let count = self.print_pages(text, rows);
        self.printer.end_result();
        self.printer.count(count?, note)
    }

    fn print_pages(&mut self, text: &str, mut rows: Rows) -> Result<u64> {
        let mut count = 0;
        loop {
            let has_more = rows.paging_state.is_some() && self.page_rows.is_some();
            let goes_on = self.printer.page(&rows, count, has_more)?;
            count += rows.rows.len() as u64;
            let Some(state) = rows.paging_state.filter(|_| goes_on) else { return Ok(count) };
            let asks = self.printer.is_terminal() && self.printer.is_table() && has_more;
            if asks && !self.printer.pages() && !wants_more(count)? {
                return Ok(count);
            }
            match self.query(text, Some(state))?.response {
                Response::Rows(next) => rows = next,
                _ => return Ok(count),
            }
        }
    }

    fn run_command(&mut self, command: Command, origin: &Origin) -> Result<Flow> {
        match command {
            Command::Help(topic) => self.printer.note(&help(topic.as_deref()))?,
            Command::Exit => return Ok(Flow::Exit),
            Command::Source(path) => return self.source(&origin.resolve(&path)),
            Command::Copy(_) if self.is_in_transaction() => {
                bail!(
                    "COPY inside a transaction: it has transactions of its own; COMMIT or ROLLBACK first"
                );
            }
            Command::Copy(copy) => {
                let report = copy::run(&self.database, &copy, origin)?;
                if copy.writes_to_stdout() {
                    return Ok(Flow::Continue);
                }
                self.printer.note(&format!("({report})"))?;
            }
            setting => self.set(setting, origin)?,
        }
        Ok(Flow::Continue)
    }

    fn source(&mut self, path: &Path) -> Result<Flow> {
        if self.depth == SOURCE_DEPTH_MAX {
            bail!("scripts are nested more than {SOURCE_DEPTH_MAX} deep: does one run itself?");
        }
        let script = read_script(path)?;
        self.depth += 1;
        let result = self.run_script(&script, &Origin::File(path.to_path_buf()));
        self.depth -= 1;
        result
    }
}

/// Reads a script.
pub(crate) fn read_script(path: &Path) -> Result<String> {
    let read = fs::read(path).map_err(anyhow::Error::from).and_then(script_text::decode);
    read.with_context(|| format!("cannot read the script {}", path.display()))
}

/// Returns `true` if rows are statements that create what a `DESCRIBE` names.
fn is_description(text: &str, rows: &Rows) -> bool {
    let word = first_word(text);
    let is_describe = ["DESC", "DESCRIBE"].iter().any(|verb| word.eq_ignore_ascii_case(verb));
    is_describe && rows.columns.last().is_some_and(|column| column.name == "create_statement")
}

/// Returns the statements of a `DESCRIBE` as a script.
fn description(rows: &Rows) -> String {
    let mut script = String::new();
    for row in rows.rows.iter() {
        let statement = row.last().copied().flatten().unwrap_or_default();
        script.push_str(String::from_utf8_lossy(statement).trim_end());
        script.push_str("\n\n");
    }
    script
}

/// Adds a hint to the error of a statement, if its mistake is known.
fn with_hint(error: anyhow::Error, text: &str) -> anyhow::Error {
    // Errors of input and output are told apart by their types.
    let is_of_statement = error.is::<CqlError>() || error.source().is_none();
    match hint(text, &sentence(&error)).filter(|_| is_of_statement) {
        Some(hint) => anyhow!("{}\nhint: {hint}", sentence(&error)),
        None => error,
    }
}

/// Adds a statement's position to an error, except at a terminal.
fn placed(result: Result<Flow>, origin: &Origin, line: usize) -> Result<Flow> {
    match origin {
        Origin::Terminal => result,
        _ => result.with_context(|| origin.place(line, None)),
    }
}

fn misplaced(script: &str, piece: &Piece<'_>, origin: &Origin, mistake: &Mistake) -> anyhow::Error {
    let location = Location::from_offset(piece.text, mistake.at).within(piece.start);
    let place = origin.place(location.line, Some(location.column));
    anyhow!("{place}: {}\n{}", mistake.message, caret(script, location))
}

/// Returns the text between two statements, without the semicolon of the first.
fn between(text: &str) -> &str {
    let text = text.trim();
    text.strip_prefix(';').unwrap_or(text).trim()
}

/// Asks at the terminal whether to print another page.
fn wants_more(count: u64) -> Result<bool> {
    eprint!("-- {count} rows so far; Enter for more, q to stop: ");
    io::stderr().flush()?;
    let answer = interrupt::read_line()?;
    Ok(answer.is_some_and(|answer| !answer.trim().eq_ignore_ascii_case("q")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_between_statements_are_kept() {
        assert_eq!(between(";\n\n-- next\n"), "-- next");
        assert_eq!(between("\n-- first\n"), "-- first");
        assert_eq!(between(" ; "), "");
    }
}
