//! Checks scripts: which statements would be refused, and why.
//!
//! Definitions run on a scratch database, other statements are prepared against it. A definition
//! with several refused options is tried once for each of them, so that all are named at once.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, Result};
use carnet::{Db, Durability, block_on};
use carnet_cql::ast::{CreateTable, Name, Statement};
use carnet_cql::system::NodeInfo;
use carnet_cql::{
    CqlError, Executor, Limits, Location, Parameters, Piece, PieceEnd, Session, Timestamps, parse,
};
use tempfile::TempDir;

use crate::interrupt;
use crate::origin::{Origin, caret};
use crate::shell::command::Command;
use crate::shell::hint;
use crate::shell::pieces::pieces;

/// Checker of scripts, and the scratch database of their tables.
pub(crate) struct Check {
    /// Number of statements so far.
    pub(crate) statements: u64,
    /// Number of statements that would be refused.
    pub(crate) refused: u64,
    /// Number of statements on tables and keyspaces that the scripts do not create.
    pub(crate) missing: u64,
    executor: Executor,
    session: Session,
    /// Messages about missing tables and keyspaces that were printed.
    told_missing: BTreeSet<String>,
    /// Last field: removed after the database is closed.
    _directory: TempDir,
}

impl Check {
    /// Makes the scratch database.
    pub(crate) fn new(timestamps: Timestamps, data_center: &str) -> Result<Self> {
        let directory = TempDir::with_prefix("carnet-check-")
            .context("cannot make a temporary directory for a scratch database")?;
        let db = Db::builder().durability(Durability::None).open(directory.path())?;
        Ok(Self {
            statements: 0,
            refused: 0,
            missing: 0,
            executor: Executor::with_timestamps(
                db,
                NodeInfo::local(carnet::Uuid::nil()).in_data_center(data_center),
                timestamps,
            ),
            session: Session::new(),
            told_missing: BTreeSet::new(),
            _directory: directory,
        })
    }

    /// Checks a script, and prints each statement that would be refused.
    pub(crate) fn script(&mut self, script: &str, path: &Path) -> Result<()> {
        let origin = Origin::File(path.to_path_buf());
        for piece in pieces(script) {
            interrupt::check()?;
            self.statements += 1;
            let refusals = self.refusals(script, &piece, &origin);
            self.refused += u64::from(!refusals.is_empty());
            for refusal in refusals {
                println!("{refusal}");
                if let Some(hint) = hint(piece.text, &refusal) {
                    println!("hint: {hint}");
                }
            }
        }
        Ok(())
    }

    /// Returns the reasons for which a statement would be refused, with their places.
    fn refusals(&mut self, script: &str, piece: &Piece<'_>, origin: &Origin) -> Vec<String> {
        let at = |location: Location| origin.place(location.line, Some(location.column));
        if let PieceEnd::Inside(what) = piece.end {
            let caret = caret(script, piece.start);
            return vec![format!("{}: the {what} has no end\n{caret}", at(piece.start))];
        }
        match Command::parse(piece.text) {
            Some(Ok(_)) => return Vec::new(),
            Some(Err(mistake)) => {
                let location = Location::from_offset(piece.text, mistake.at).within(piece.start);
                let caret = caret(script, location);
                return vec![format!("{}: {}\n{caret}", at(location), mistake.message)];
            }
            None => {}
        }
        match parse(piece.text, &Limits::default()) {
            Err(error) => {
                let error = error.within(piece.start);
                vec![format!("{}: {}\n{}", at(error.location()), error.message(), error.snippet())]
            }
            Ok(parsed) => {
                let place = at(piece.start);
                let errors = self.try_statement(piece.text, parsed.statement, &place);
                errors.iter().map(|error| format!("{}: {error}", at(piece.start))).collect()
            }
        }
    }

    /// Tries a statement at a place of a script, and returns its errors.
    fn try_statement(&mut self, text: &str, statement: Statement, place: &str) -> Vec<String> {
        let tried = match statement {
            Statement::CreateTable(create) => return self.create_table(text, &create),
            Statement::Use(name) => {
                self.make_keyspace(&name);
                self.run(text)
            }
            Statement::CreateType(ref create) => {
                create.name.keyspace.iter().for_each(|name| self.make_keyspace(name));
                self.run(text)
            }
            Statement::CreateKeyspace(_)
            | Statement::AlterKeyspace(_)
            | Statement::DropKeyspace(_)
            | Statement::CopyTable(_)
            | Statement::AlterTable(_)
            | Statement::DropTable(_)
            | Statement::AlterType(_)
            | Statement::DropType(_)
            | Statement::CreateIndex(_)
            | Statement::DropIndex(_)
            | Statement::CreateView(_)
            | Statement::AlterView(_)
            | Statement::DropView(_)
            // It is refused when it runs.
            | Statement::Unsupported(_) => self.run(text),
            Statement::Select(_)
            | Statement::Write(_)
            | Statement::Batch(_)
            | Statement::Transaction(_) => {
                block_on(self.executor.prepare(&self.session, text, None)).map(|_| ())
            }
            // They depend on users, on open transactions, or only read the schema.
            _ => Ok(()),
        };
        tried.err().and_then(|error| self.unless_missing(&error, place)).into_iter().collect()
    }

    /// Creates a table. If that is refused, each option is tried alone.
    fn create_table(&self, text: &str, create: &CreateTable) -> Vec<String> {
        create.table.keyspace.iter().for_each(|name| self.make_keyspace(name));
        let Err(error) = self.run(text) else { return Vec::new() };
        let mut errors = Vec::new();
        let mut accepted = create.clone();
        accepted.options.clear();
        let with =
            |options: Vec<_>| CreateTable { options, if_not_exists: false, ..create.clone() };
        for option in &create.options {
            let alone = Statement::CreateTable(with(vec![option.clone()]));
            match self.run(&alone.to_string()) {
                Ok(()) => {
                    accepted.options.push(option.clone());
                    // The table was made by the line above.
                    let _ = self.run(&format!("DROP TABLE {}", create.table));
                }
                Err(error) => errors.push(error.message().to_owned()),
            }
        }
        // Later statements are checked against the table without the options.
        match self.run(&Statement::CreateTable(accepted).to_string()) {
            Ok(()) if errors.is_empty() => vec![error.message().to_owned()],
            Ok(()) => errors,
            Err(error) => vec![error.message().to_owned()],
        }
    }

    fn run(&self, text: &str) -> Result<(), CqlError> {
        block_on(self.executor.query(&self.session, text, &Parameters::default())).map(|_| ())
    }

    /// Makes a keyspace that the scripts use and do not create, as descriptions of tables do.
    fn make_keyspace(&self, name: &Name) {
        // A failure shows when the keyspace is used.
        let _ = self.run(&format!(
            "CREATE KEYSPACE IF NOT EXISTS {name} WITH replication = \
             {{'class': 'SimpleStrategy', 'replication_factor': 1}}"
        ));
    }

    /// Returns an error, unless it only says that the scripts do not create a table: that is printed
    /// once, and counted for each statement.
    fn unless_missing(&mut self, error: &CqlError, place: &str) -> Option<String> {
        let message = error.message();
        if !message.contains("does not exist") {
            return Some(message.to_owned());
        }
        self.missing += 1;
        if self.told_missing.insert(message.to_owned()) {
            println!("{place}: would fail unless it exists: {message} in these files");
        }
        None
    }
}
