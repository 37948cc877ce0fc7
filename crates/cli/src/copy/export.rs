//! `COPY … TO`.

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::Path;

use anyhow::{Context, Result, bail};
use carnet::Bytes;
use carnet_base::Token;
use carnet_cql::result::{ColumnSpec, Rows};
use carnet_storage::place;

use super::columns::{self, spelled};
use super::dialect::Field;
use super::field;
use super::progress::Progress;
use super::rows;
use super::statement::{Copy, End};
use super::writer::Writer;
use crate::database::{Database, Page, Prepared};
use crate::origin::Origin;

/// Writes a table's rows.
pub(super) fn run(database: &Database, copy: &Copy, origin: &Origin) -> Result<String> {
    let columns = match &copy.columns {
        Some(columns) => columns.clone(),
        None => {
            let table = columns::of_table(database, &copy.table)?;
            table.iter().map(|column| spelled(&column.name)).collect()
        }
    };
    let select = format!("SELECT {} FROM {}", columns.join(", "), copy.table);
    // Prepare before creating the file, which may replace one.
    let mut prepared = database.prepare(&select)?;
    let columns = std::mem::take(&mut prepared.columns);
    let is_on_screen = copy.end == End::Standard && io::stdout().is_terminal();
    // Only people see which part was read.
    let is_seen = !is_on_screen && io::stderr().is_terminal();
    let with_tokens = is_seen.then(|| with_tokens(database, copy, &select, &columns)).flatten();
    let has_tokens = with_tokens.is_some();
    let progress = if is_on_screen { Progress::hidden() } else { Progress::of_table(has_tokens) };
    let prepared = with_tokens.unwrap_or(prepared);
    let export = Export { database, copy, prepared, columns, has_tokens, progress };
    match &copy.end {
        End::Standard => {
            let count = export.write(io::stdout().lock())?;
            Ok(format!("{} written", rows(count)))
        }
        End::File(path) => {
            let path = origin.resolve(path);
            let shown = path.display();
            refuse_inside_database(&path)?;
            let file = create(&path).with_context(|| format!("cannot make the file {shown}"))?;
            let count = export.write(&file).with_context(|| format!("cannot write {shown}"))?;
            file.sync_all().with_context(|| format!("cannot write {shown}"))?;
            Ok(format!("{} written to {shown}", rows(count)))
        }
    }
}

/// Prepares the statement with the token of each row as its last column; `None` for a table without tokens.
fn with_tokens(
    database: &Database,
    copy: &Copy,
    select: &str,
    columns: &[ColumnSpec],
) -> Option<Prepared> {
    let key = columns::partition_key(database, columns.first()?).ok()?;
    let key: Vec<String> = key.iter().map(|name| spelled(name)).collect();
    let from = format!(" FROM {}", copy.table);
    let selected = select.strip_suffix(&from)?;
    database.prepare(&format!("{selected}, token({}){from}", key.join(", "))).ok()
}

/// Refuses a path inside a database's directory, where COPY could replace a file.
fn refuse_inside_database(path: &Path) -> Result<()> {
    let shown = path.display();
    let around = place::database_around(path).with_context(|| format!("cannot resolve {shown}"))?;
    if let Some(around) = around {
        bail!(
            "cannot make the file {shown}: {} is the directory of a database or of a backup; \
             choose a path outside of it",
            around.display()
        );
    }
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "a file of the user's, not of the database")]
fn create(path: &Path) -> io::Result<File> {
    File::create(path)
}

struct Export<'a> {
    database: &'a Database,
    copy: &'a Copy,
    prepared: Prepared,
    /// Columns of the file.
    columns: Vec<ColumnSpec>,
    /// Whether the token of a row follows its columns.
    has_tokens: bool,
    progress: Progress,
}

impl Export<'_> {
    fn write(&self, out: impl Write) -> Result<u64> {
        let options = &self.copy.options;
        let mut csv = Writer::new(BufWriter::new(out), options.dialect.clone());
        if options.header {
            for column in &self.columns {
                csv.field(&Field { text: column.name.clone(), is_quoted: false })?;
            }
            csv.end_record()?;
        }
        let mut count = 0;
        let mut paging_state = None;
        loop {
            let page = self.page(paging_state)?;
            for row in page.rows.iter() {
                for (column, bytes) in self.columns.iter().zip(row) {
                    match bytes {
                        Some(bytes) => {
                            let timestamps = options.timestamps.as_ref();
                            csv.field(&field::write(&column.data_type, bytes, timestamps)?)?;
                        }
                        None => csv.null()?,
                    }
                }
                csv.end_record()?;
            }
            count += page.rows.len() as u64;
            self.report(&page, count, csv.bytes());
            paging_state = page.paging_state;
            if paging_state.is_none() {
                break;
            }
        }
        csv.flush()?;
        Ok(count)
    }

    /// Reports the rows and bytes up to the end of a page.
    fn report(&self, page: &Rows, rows: u64, bytes: u64) {
        if !self.has_tokens {
            return self.progress.set(rows, bytes);
        }
        let token = page.rows.iter().last().and_then(|row| row.last().copied().flatten());
        if let Some(token) = token.and_then(|bytes| bytes.try_into().ok()).map(i64::from_be_bytes) {
            self.progress.set_part(rows, bytes, Token(token).part());
        }
    }

    /// Reads a page; pages after the first read the first page's snapshot.
    fn page(&self, paging_state: Option<Bytes>) -> Result<Rows> {
        let page = Page { rows: Some(self.copy.options.page_rows), state: paging_state };
        self.database.execute(&self.prepared, &[], &page)
    }
}
