//! Runs scripts and statements.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use carnet::base::{Clock, SystemClock};
use carnet::block_on;
use carnet_cql::ast::{OpenStatement, Statement};
use carnet_cql::result::{Response, Rows};
use carnet_cql::{Executor, Limits, Location, Parameters, Piece, PieceEnd, parse, split};

use super::command::{Command, HELP};
use super::lexer::Mistake;
use super::print::Printer;
use crate::copy;
use crate::origin::{Origin, caret};

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

/// An open database, the current keyspace, and the printer of results.
pub(crate) struct Session {
    executor: Executor,
    cql: carnet_cql::Session,
    printer: Printer,
    echoes: bool,
    depth: usize,
}

impl Session {
    pub(crate) fn new(executor: Executor, printer: Printer) -> Self {
        let cql = carnet_cql::Session::new();
        Self { executor, cql, printer, echoes: false, depth: 0 }
    }

    /// Sets whether statements are printed before their results.
    pub(crate) fn echo(&mut self, echoes: bool) {
        self.echoes = echoes;
    }

    /// Returns the current keyspace.
    pub(crate) fn keyspace(&self) -> Option<String> {
        self.cql.keyspace()
    }

    /// Returns `true` if statements are part of an open transaction.
    pub(crate) fn is_in_transaction(&self) -> bool {
        self.cql.is_in_transaction()
    }

    /// Selects a keyspace by its stored name.
    pub(crate) fn use_keyspace(&mut self, name: &str) -> Result<()> {
        let statement = format!("USE \"{}\"", name.replace('"', "\"\""));
        self.query(&statement).map(|_| ())
    }

    /// Runs a script up to its first error.
    pub(crate) fn run_script(&mut self, script: &str, origin: &Origin) -> Result<Flow> {
        let mut done = 0;
        for piece in split(script) {
            let end = piece.start.offset + piece.text.len();
            if self.echoes {
                let statement = format!("{};", piece.text);
                self.printer.echo(between(&script[done..piece.start.offset]), &statement)?;
            }
            done = end;
            if self.run_piece(script, &piece, origin)? == Flow::Exit {
                return Ok(Flow::Exit);
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
        if let PieceEnd::Inside(what) = piece.end {
            let place = origin.place(piece.start.line, Some(piece.start.column));
            bail!("{place}: the {what} has no end\n{}", caret(script, piece.start));
        }
        match Command::parse(piece.text) {
            Some(Ok(command)) => {
                return placed(self.run_command(command, origin), origin, piece.start.line);
            }
            Some(Err(mistake)) => return Err(misplaced(script, piece, origin, &mistake)),
            None => {}
        }
        // Parse here and not in the executor alone, so that an error has its position in the
        // script.
        let parsed = parse(piece.text, &Limits::default()).map_err(|error| {
            let error = error.within(piece.start);
            let place = origin.place(error.location().line, Some(error.location().column));
            anyhow!("{place}: {}\n{}", error.message(), error.snippet())
        })?;
        let result = self.run_statement(piece.text, &parsed.statement);
        placed(result.map(|()| Flow::Continue), origin, piece.start.line)
    }

    fn run_statement(&mut self, text: &str, statement: &Statement) -> Result<()> {
        let started = SystemClock.now();
        let response = self.query(text)?;
        let elapsed = SystemClock.now().since(started);
        let note = if self.printer.is_terminal() {
            format!(", {:.1} ms", elapsed.as_secs_f64() * 1e3)
        } else {
            String::new()
        };
        match response {
            Response::Rows(rows) => self.print_rows(text, rows, &note),
            Response::SchemaChange(change) => self.printer.change(&change),
            Response::SetKeyspace(keyspace) => self.printer.note(&format!("(using {keyspace})")),
            Response::Void => self.printer.note(done(statement)),
        }
    }

    fn query(&self, text: &str) -> Result<Response> {
        let parameters = Parameters { page_rows: Some(PAGE_ROWS), ..Parameters::default() };
        Ok(block_on(self.executor.query(&self.cql, text, &parameters))?)
    }

    /// Prints a result page by page; all pages read the first page's snapshot.
    fn print_rows(&mut self, text: &str, mut rows: Rows, note: &str) -> Result<()> {
        let mut count = 0;
        let mut is_first = true;
        loop {
            self.printer.page(&rows, is_first)?;
            is_first = false;
            count += rows.rows.len() as u64;
            let Some(paging_state) = rows.paging_state else { break };
            let asks = self.printer.is_terminal() && self.printer.is_table();
            if asks && !wants_more(count)? {
                break;
            }
            let parameters = Parameters {
                page_rows: Some(PAGE_ROWS),
                paging_state: Some(paging_state),
                ..Parameters::default()
            };
            match block_on(self.executor.query(&self.cql, text, &parameters))? {
                Response::Rows(next) => rows = next,
                _ => break,
            }
        }
        self.printer.count(count, note)
    }

    fn run_command(&mut self, command: Command, origin: &Origin) -> Result<Flow> {
        match command {
            Command::Help => self.printer.note(HELP.trim_end())?,
            Command::Exit => return Ok(Flow::Exit),
            Command::Source(path) => return self.source(&origin.resolve(&path)),
            Command::Copy(_) if self.is_in_transaction() => {
                bail!(
                    "COPY inside a transaction: it has transactions of its own; COMMIT or ROLLBACK first"
                );
            }
            Command::Copy(copy) => {
                let report = copy::run(&self.executor, &self.cql, &copy, origin)?;
                if copy.writes_to_stdout() {
                    return Ok(Flow::Continue);
                }
                self.printer.note(&format!("({report})"))?;
            }
        }
        Ok(Flow::Continue)
    }

    fn source(&mut self, path: &Path) -> Result<Flow> {
        if self.depth == SOURCE_DEPTH_MAX {
            bail!("scripts are nested more than {SOURCE_DEPTH_MAX} deep: does one run itself?");
        }
        let script = fs::read_to_string(path)
            .with_context(|| format!("cannot read the script {}", path.display()))?;
        self.depth += 1;
        let result = self.run_script(&script, &Origin::File(path.to_path_buf()));
        self.depth -= 1;
        result
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

/// Returns a description of a completed statement that has no result.
fn done(statement: &Statement) -> &'static str {
    match statement {
        Statement::Transaction(_) | Statement::Open(OpenStatement::Commit(_)) => "(committed)",
        Statement::Open(OpenStatement::Rollback(_)) => "(rolled back)",
        _ => "(done)",
    }
}

/// Asks at the terminal whether to print another page.
fn wants_more(count: u64) -> Result<bool> {
    eprint!("-- {count} rows so far; Enter for more, q to stop: ");
    io::stderr().flush()?;
    let mut answer = String::new();
    let read = io::stdin().read_line(&mut answer)?;
    Ok(read > 0 && !answer.trim().eq_ignore_ascii_case("q"))
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
