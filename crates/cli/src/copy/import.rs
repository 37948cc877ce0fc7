//! `COPY … FROM`.

use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail};
use carnet::block_on;
use carnet_cql::ast::BatchKind;
use carnet_cql::{
    BatchItem, Bound, CqlError, CqlErrorKind, Executor, Parameters, Prepared, Session, Values,
};
use csv::StringRecord;

use super::meter::{Meter, Metered};
use super::progress::Progress;
use super::rows;
use super::statement::{Copy, End, Options};
use super::target::{Column, column_names, spelled};
use crate::origin::Origin;
use crate::sentence;

/// Maximum bytes of a chunk's values; at this size the chunk is written early.
const CHUNK_BYTES_MAX: usize = 1 << 20;

/// Reads rows into a table.
pub(super) fn run(
    executor: &Executor,
    session: &Session,
    copy: &Copy,
    origin: &Origin,
) -> Result<String> {
    let meter = Meter::default();
    let (source, input, total_bytes): (String, Box<dyn Read>, _) = match &copy.end {
        End::Standard if *origin == Origin::StandardInput => {
            bail!("COPY … FROM STDIN needs a script from elsewhere: standard input is the script")
        }
        End::Standard => {
            if io::stdin().is_terminal() {
                eprintln!("Type the rows; Ctrl-D on a line of its own ends them.");
            }
            ("standard input".into(), Box::new(io::stdin()), None)
        }
        End::File(path) => {
            let path = origin.resolve(path);
            let shown = path.display().to_string();
            let file = open(&path).with_context(|| format!("cannot read the file {shown}"))?;
            let total_bytes = file.metadata().ok().filter(std::fs::Metadata::is_file);
            (shown, Box::new(file), total_bytes.map(|data| data.len()))
        }
    };
    let mut lines = Lines::new(meter.measure(input), meter, &copy.options, source);
    let columns = columns_to_set(executor, session, copy, &mut lines)?;
    let mut import = Import::new(executor, session, copy, &columns)?;
    let progress = Progress::new(total_bytes);
    let result = import.take_all(&mut lines, &progress);
    drop(progress);
    match result {
        Ok(()) => Ok(format!("{} imported from {}", rows(import.rows), lines.source)),
        Err(error) => bail!(
            "{}; COPY stopped there, with {} imported before it",
            sentence(&error),
            rows(import.rows)
        ),
    }
}

#[expect(clippy::disallowed_methods, reason = "a file of the user's, not of the database")]
fn open(path: &Path) -> io::Result<File> {
    File::open(path)
}

/// Returns the columns of the file in their order, as CQL identifiers.
fn columns_to_set(
    executor: &Executor,
    session: &Session,
    copy: &Copy,
    lines: &mut Lines,
) -> Result<Vec<String>> {
    let header = if copy.options.header { lines.read()?.cloned() } else { None };
    if let Some(columns) = &copy.columns {
        return Ok(columns.clone());
    }
    let known = column_names(executor, session, &copy.table)?;
    let Some(header) = header else {
        return Ok(known.iter().map(|name| spelled(name)).collect());
    };
    header
        .iter()
        .map(|name| {
            let name = name.trim().trim_start_matches('\u{feff}');
            let lower = name.to_lowercase();
            let found = known.iter().find(|column| *column == name || **column == lower);
            found.map(|column| spelled(column)).ok_or_else(|| {
                anyhow!(
                    "{}: the header names a column {name:?}, and table {} has {}",
                    lines.source,
                    copy.table,
                    known.join(", ")
                )
            })
        })
        .collect()
}

/// Records of the file.
struct Lines {
    source: String,
    reader: csv::Reader<Metered<Box<dyn Read>>>,
    record: StringRecord,
    meter: Meter,
}

impl Lines {
    fn new(input: Metered<Box<dyn Read>>, meter: Meter, options: &Options, source: String) -> Self {
        let reader = csv::ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .delimiter(options.delimiter)
            .quote(options.quote)
            .from_reader(input);
        Self { source, reader, record: StringRecord::new(), meter }
    }

    fn read(&mut self) -> Result<Option<&StringRecord>> {
        self.meter.begin_record();
        let line = self.reader.position().line();
        match self.reader.read_record(&mut self.record) {
            Ok(true) => Ok(Some(&self.record)),
            Ok(false) => Ok(None),
            Err(error) => {
                let reason = match error.kind() {
                    csv::ErrorKind::Utf8 { .. } => "it is not UTF-8".to_owned(),
                    csv::ErrorKind::Io(error) => error.to_string(),
                    _ => error.to_string(),
                };
                let line = error.position().map_or(line, csv::Position::line);
                Err(anyhow!("{}, line {line}: {reason}", self.source))
            }
        }
    }
}

/// Rows that are being written to the table.
struct Import<'a> {
    executor: &'a Executor,
    session: &'a Session,
    options: &'a Options,
    insert: Arc<Prepared>,
    columns: Vec<Column>,
    /// The rows to write next, with their lines.
    chunk: Vec<(u64, BatchItem)>,
    chunk_bytes: usize,
    /// Number of rows in the table.
    rows: u64,
}

impl<'a> Import<'a> {
    fn new(
        executor: &'a Executor,
        session: &'a Session,
        copy: &'a Copy,
        columns: &[String],
    ) -> Result<Self> {
        let markers = vec!["?"; columns.len()].join(", ");
        let insert =
            format!("INSERT INTO {} ({}) VALUES ({markers})", copy.table, columns.join(", "));
        let insert = block_on(executor.prepare(session, &insert, None))?;
        let columns = Column::all(&insert.markers);
        Ok(Self {
            executor,
            session,
            options: &copy.options,
            insert,
            columns,
            chunk: Vec::new(),
            chunk_bytes: 0,
            rows: 0,
        })
    }

    fn take_all(&mut self, lines: &mut Lines, progress: &Progress) -> Result<()> {
        loop {
            let (line, values) = match self.next(lines) {
                Ok(Some(next)) => next,
                Ok(None) => return self.write(&lines.source),
                Err(error) => {
                    self.write(&lines.source)?;
                    return Err(error);
                }
            };
            self.chunk_bytes += values.iter().map(size_bytes).sum::<usize>();
            let (prepared, values) = (Arc::clone(&self.insert), Values::Positional(values));
            self.chunk.push((line, BatchItem::Prepared { prepared, values }));
            let is_full = self.chunk.len() >= self.options.chunk_rows;
            if is_full || self.chunk_bytes >= CHUNK_BYTES_MAX {
                self.write(&lines.source)?;
                progress.set(self.rows, lines.meter.read_bytes());
            }
        }
    }

    /// Writes the chunk as one transaction. If one of its rows is refused, the rows before it are
    /// written, and the error names its line.
    fn write(&mut self, source: &str) -> Result<()> {
        let chunk = std::mem::take(&mut self.chunk);
        self.chunk_bytes = 0;
        let (Some((first, _)), Some((last, _))) = (chunk.first(), chunk.last()) else {
            return Ok(());
        };
        let lines = format!("{source}, lines {first} to {last}");
        match self.insert(chunk.iter().map(|(_, item)| item.clone()).collect()) {
            Ok(()) => return Ok(()),
            Err(error) if *error.kind() != CqlErrorKind::Invalid => {
                return Err(error).context(lines);
            }
            Err(_) => {}
        }
        for (line, item) in chunk {
            self.insert(vec![item]).with_context(|| format!("{source}, line {line}"))?;
        }
        Ok(())
    }

    fn insert(&mut self, items: Vec<BatchItem>) -> Result<(), CqlError> {
        let rows = items.len() as u64;
        let parameters = Parameters::default();
        block_on(self.executor.batch(self.session, BatchKind::Unlogged, items, &parameters))?;
        self.rows += rows;
        Ok(())
    }

    fn next(&self, lines: &mut Lines) -> Result<Option<(u64, Vec<Bound>)>> {
        let Some(record) = lines.read()? else { return Ok(None) };
        let line = record.position().map_or(0, csv::Position::line);
        match self.values(record) {
            Ok(values) => Ok(Some((line, values))),
            Err(reason) => Err(anyhow!("{}, line {line}{reason}", lines.source)),
        }
    }

    fn values(&self, record: &StringRecord) -> Result<Vec<Bound>, String> {
        if record.len() != self.columns.len() {
            let names: Vec<_> = self.columns.iter().map(|column| column.name.as_str()).collect();
            return Err(format!(
                ": it has {} fields, and there are {} columns ({})",
                record.len(),
                names.len(),
                names.join(", ")
            ));
        }
        self.columns
            .iter()
            .zip(record)
            .map(|(column, field)| {
                self.value(column, field)
                    .map_err(|reason| format!(", column {}: {reason}", column.name))
            })
            .collect()
    }

    fn value(&self, column: &Column, field: &str) -> Result<Bound, String> {
        if field == self.options.null {
            return Ok(Bound::Null);
        }
        match column.data_type.parse_text(field) {
            Ok(value) => Ok(Bound::Bytes(value.serialize())),
            Err(error) => Err(error.to_string()),
        }
    }
}

fn size_bytes(bound: &Bound) -> usize {
    match bound {
        Bound::Bytes(bytes) => bytes.len(),
        Bound::Null | Bound::Unset => 0,
    }
}
