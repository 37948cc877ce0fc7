//! `COPY … TO`.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use anyhow::{Context, Result, bail};
use carnet::Bytes;
use carnet::storage::place;
use carnet_cql::result::Rows;

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
    let prepared = database.prepare(&select)?;
    let export = Export { database, copy, prepared: &prepared };
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
    prepared: &'a Prepared,
}

impl Export<'_> {
    fn write(&self, out: impl Write) -> Result<u64> {
        let options = &self.copy.options;
        let mut csv = Writer::new(BufWriter::new(out), options.dialect.clone());
        if options.header {
            for column in &self.prepared.columns {
                csv.field(&Field { text: column.name.clone(), is_quoted: false })?;
            }
            csv.end_record()?;
        }
        let progress = Progress::new(None);
        let mut count = 0;
        let mut paging_state = None;
        loop {
            let page = self.page(paging_state)?;
            for row in page.rows.iter() {
                for (column, bytes) in page.columns.iter().zip(row) {
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
            progress.set(count, 0);
            paging_state = page.paging_state;
            if paging_state.is_none() {
                break;
            }
        }
        csv.flush()?;
        Ok(count)
    }

    /// Reads a page; pages after the first read the first page's snapshot.
    fn page(&self, paging_state: Option<Bytes>) -> Result<Rows> {
        let page = Page { rows: Some(self.copy.options.page_rows), state: paging_state };
        self.database.execute(self.prepared, &[], &page)
    }
}
