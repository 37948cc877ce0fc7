//! Commands that show and set how statements run and how results are printed.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use carnet::Uuid;
use carnet_cql::result::Rows;
use scylla::statement::{Consistency, SerialConsistency};

use super::command::{Capture, Command, Paging, Show};
use super::session::Session;
use crate::origin::Origin;
use crate::password;

/// Number of rows per page after `PAGING ON`.
const PAGE_ROWS: usize = 100;
/// Sequence that clears a terminal.
const CLEAR: &str = "\u{1b}[2J\u{1b}[3J\u{1b}[H";

const LEVELS: [(&str, Consistency); 11] = [
    ("ANY", Consistency::Any),
    ("ONE", Consistency::One),
    ("TWO", Consistency::Two),
    ("THREE", Consistency::Three),
    ("QUORUM", Consistency::Quorum),
    ("ALL", Consistency::All),
    ("LOCAL_QUORUM", Consistency::LocalQuorum),
    ("EACH_QUORUM", Consistency::EachQuorum),
    ("LOCAL_ONE", Consistency::LocalOne),
    ("SERIAL", Consistency::Serial),
    ("LOCAL_SERIAL", Consistency::LocalSerial),
];

const SERIAL_LEVELS: [(&str, SerialConsistency); 2] =
    [("SERIAL", SerialConsistency::Serial), ("LOCAL_SERIAL", SerialConsistency::LocalSerial)];

impl Session {
    /// Runs a command that shows or sets something.
    pub(super) fn set(&mut self, command: Command, origin: &Origin) -> Result<()> {
        match command {
            Command::Consistency(level) => self.consistency(level.as_deref()),
            Command::SerialConsistency(level) => self.serial_consistency(level.as_deref()),
            Command::Tracing(traces) => self.tracing(traces),
            Command::Expand(expands) => {
                self.printer.expands = expands.unwrap_or(self.printer.expands);
                let state = if self.printer.expands { "on" } else { "off" };
                self.printer.note(&format!("(expanded output is {state})"))
            }
            Command::Paging(paging) => self.paging(paging),
            Command::Capture(capture) => self.capture(capture, origin),
            Command::Show(Show::Version) => self.show_version(),
            Command::Show(Show::Host) => self.show_host(),
            Command::Show(Show::Session(id)) => {
                let id = Uuid::parse_str(&id);
                self.print_trace(id.context("expected SHOW SESSION and the id of a trace")?)
            }
            Command::Clear if self.printer.is_terminal() => self.printer.note(CLEAR),
            Command::Login(user) => self.login(&user),
            // A script has nothing to clear, and the other commands do not set anything.
            _ => Ok(()),
        }
    }

    fn consistency(&mut self, level: Option<&str>) -> Result<()> {
        let level = level.map(|level| named(&LEVELS, level)).transpose()?;
        let Some(remote) = self.database.remote() else {
            return self.printer.note("(without effect: this database is strictly serializable)");
        };
        remote.consistency.set(level.unwrap_or(remote.consistency.get()));
        let now = name(&LEVELS, &remote.consistency.get());
        self.printer.note(&format!("(consistency level {now})"))
    }

    fn serial_consistency(&mut self, level: Option<&str>) -> Result<()> {
        let level = level.map(|level| named(&SERIAL_LEVELS, level)).transpose()?;
        let Some(remote) = self.database.remote() else {
            return self.printer.note("(without effect: this database is strictly serializable)");
        };
        remote.serial_consistency.set(level.unwrap_or(remote.serial_consistency.get()));
        let now = name(&SERIAL_LEVELS, &remote.serial_consistency.get());
        self.printer.note(&format!("(serial consistency level {now})"))
    }

    fn tracing(&mut self, traces: Option<bool>) -> Result<()> {
        let setting = self.database.traces();
        setting.set(traces.unwrap_or(setting.get()));
        let state = if setting.get() { "on" } else { "off" };
        self.printer.note(&format!("(tracing is {state})"))
    }

    fn paging(&mut self, paging: Option<Paging>) -> Result<()> {
        match paging {
            Some(Paging::Off) => self.page_rows = None,
            Some(Paging::On) => self.page_rows = Some(PAGE_ROWS),
            Some(Paging::Rows(rows)) => self.page_rows = Some(rows),
            None => {}
        }
        let state = match self.page_rows {
            Some(rows) => format!("(pages of {rows} rows)"),
            None => "(paging is off)".to_owned(),
        };
        self.printer.note(&state)
    }

    fn capture(&mut self, capture: Option<Capture>, origin: &Origin) -> Result<()> {
        match capture {
            Some(Capture::Off) => self.printer.capture(None),
            Some(Capture::File(path)) => {
                let path = origin.resolve(&path);
                let shown = path.display().to_string();
                let file = append(&path).with_context(|| format!("cannot write {shown}"))?;
                self.printer.note(&format!("(results go to {shown}, until CAPTURE OFF)"))?;
                self.printer.capture(Some((file, shown)));
                return Ok(());
            }
            None => {}
        }
        match self.printer.captured() {
            // The answer belongs to the person, not to the file.
            Some(path) => eprintln!("(results go to {path}, until CAPTURE OFF)"),
            None => self.printer.note("(results are not captured)")?,
        }
        Ok(())
    }

    fn show_version(&mut self) -> Result<()> {
        let row = self.local_row("release_version, cql_version, native_protocol_version")?;
        let [release, cql, protocol] = row.as_slice() else { bail!("the server has no version") };
        self.printer.note(&format!(
            "[carnet shell {} | Cassandra {release} | CQL spec {cql} | Native protocol v{protocol}]",
            env!("CARGO_PKG_VERSION")
        ))
    }

    fn show_host(&mut self) -> Result<()> {
        let cluster = self.local_row("cluster_name")?.pop().unwrap_or_default();
        let place = match self.database.remote() {
            Some(remote) => format!("at {}", remote.address()),
            None => "in this process".to_owned(),
        };
        self.printer.note(&format!("Connected to {cluster} {place}"))
    }

    /// Returns texts of the server's row in `system.local`.
    fn local_row(&self, columns: &str) -> Result<Vec<String>> {
        let rows = self.database.rows(&format!("SELECT {columns} FROM system.local"))?;
        let text =
            |bytes: Option<&[u8]>| String::from_utf8_lossy(bytes.unwrap_or_default()).into_owned();
        let first = rows.rows.iter().next();
        Ok(first.unwrap_or_default().into_iter().map(text).collect())
    }

    /// Prints the steps of a traced statement.
    pub(super) fn print_trace(&mut self, id: Uuid) -> Result<()> {
        // The query of the steps is not traced.
        let traces = self.database.traces().replace(false);
        let steps = self.trace(id);
        self.database.traces().set(traces);
        let (text, steps) = steps?;
        self.printer.note(&format!("\nTrace {id}:"))?;
        self.print_rows(&text, steps, "")
    }

    /// Returns the time of the server before a traced statement. The driver does not tell the trace of a
    /// statement that fails, and an earlier one may have had the same text.
    pub(super) fn time_before_traced(&self) -> Option<Uuid> {
        if !self.database.traces().replace(false) {
            return None;
        }
        let before = self.database.time_before();
        self.database.traces().set(true);
        // Without a time no trace is found; the statement's own error is the one to tell.
        before.ok().flatten()
    }

    /// Prints the steps of a statement that has failed, if it was traced.
    pub(super) fn print_failed_trace(&mut self, text: &str, before: Option<Uuid>) {
        if !self.database.traces().replace(false) {
            return;
        }
        let trace = self.database.failed_trace(text, before);
        // The statement's own error is the one to tell.
        if let Ok(Some(id)) = trace {
            let _ = self.print_trace(id);
        }
        self.database.traces().set(true);
    }

    fn trace(&self, id: Uuid) -> Result<(String, Rows)> {
        if let Some(remote) = self.database.remote() {
            remote.wait_for_trace(id)?;
        }
        let text = format!(
            "SELECT source_elapsed AS microseconds, activity, source, thread \
             FROM system_traces.events WHERE session_id = {id}"
        );
        let steps = self.database.rows(&text)?;
        Ok((text, steps))
    }

    fn login(&mut self, user: &str) -> Result<()> {
        let Some(remote) = self.database.remote() else {
            bail!("LOGIN needs a server: a database of this process has no log-in");
        };
        if self.is_in_transaction() {
            bail!("LOGIN inside a transaction would end it: COMMIT or ROLLBACK first");
        }
        let [password] = password::ask([&format!("Password of {user}: ")])?;
        remote.login(user.to_owned(), password)?;
        self.printer.note(&format!("(logged in as {user})"))
    }
}

fn named<T: Copy>(levels: &[(&str, T)], wanted: &str) -> Result<T> {
    let found = levels.iter().find(|(name, _)| *name == wanted);
    found.map(|(_, level)| *level).ok_or_else(|| {
        let names: Vec<&str> = levels.iter().map(|(name, _)| *name).collect();
        anyhow!("expected a level ({}), found {wanted}", names.join(", "))
    })
}

fn name<T: PartialEq>(levels: &[(&'static str, T)], wanted: &T) -> &'static str {
    levels.iter().find(|(_, level)| level == wanted).map_or("?", |(name, _)| name)
}

#[expect(clippy::disallowed_methods, reason = "a file of the user's, not of the database")]
fn append(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path)
}
