//! `COPY … TO`.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use anyhow::{Context, Result, bail};
use carnet::storage::place;
use carnet::{Bytes, block_on};
use carnet_cql::result::{Response, Rows};
use carnet_cql::{Executor, Parameters, Prepared, Session};

use super::progress::Progress;
use super::rows;
use super::statement::{Copy, End};
use crate::origin::Origin;
use crate::shell::value;

/// Writes a table's rows.
pub(super) fn run(
    executor: &Executor,
    session: &Session,
    copy: &Copy,
    origin: &Origin,
) -> Result<String> {
    let columns = copy.columns.as_ref().map_or("*".into(), |columns| columns.join(", "));
    let select = format!("SELECT {columns} FROM {}", copy.table);
    // Prepare before creating the file, which may replace one.
    let prepared = block_on(executor.prepare(session, &select, None))?;
    let export = Export { executor, session, copy, prepared: &prepared };
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
    executor: &'a Executor,
    session: &'a Session,
    copy: &'a Copy,
    prepared: &'a Prepared,
}

impl Export<'_> {
    fn write(&self, out: impl Write) -> Result<u64> {
        let options = &self.copy.options;
        let mut csv = csv::WriterBuilder::new()
            .delimiter(options.delimiter)
            .quote(options.quote)
            .from_writer(BufWriter::new(out));
        if options.header {
            csv.write_record(self.prepared.result.iter().map(|column| &column.name))?;
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
                            csv.write_field(value::text(&column.data_type, bytes)?)?;
                        }
                        None => csv.write_field(&options.null)?,
                    }
                }
                csv.write_record(None::<&[u8]>)?;
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
        let parameters = Parameters {
            page_rows: Some(self.copy.options.chunk_rows),
            paging_state,
            ..Parameters::default()
        };
        match block_on(self.executor.execute(self.session, self.prepared, &parameters))? {
            Response::Rows(rows) => Ok(rows),
            _ => bail!("the table could not be read"),
        }
    }
}
