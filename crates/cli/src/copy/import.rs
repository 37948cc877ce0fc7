//! `COPY … FROM`.

use std::fs::File;
use std::io::{self, BufReader, IsTerminal, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use carnet::DataType;
use carnet_cql::ast::BatchKind;
use carnet_cql::{Bound, CqlError, CqlErrorKind};

use super::columns::{self, Column, spelled};
use super::dialect::Field;
use super::field::FieldReader;
use super::options::Options;
use super::progress::Progress;
use super::reader::{Reader, Record};
use super::rejects::{Rejects, Step};
use super::rows;
use super::statement::{Copy, End};
use crate::database::{Database, Prepared};
use crate::interrupt;
use crate::origin::Origin;
use crate::sentence;

/// Maximum bytes of a chunk's records; at this size the chunk is written early.
const CHUNK_BYTES_MAX: usize = 1 << 20;

/// Reads rows into a table.
pub(super) fn run(database: &Database, copy: &Copy, origin: &Origin) -> Result<String> {
    let table = columns::of_table(database, &copy.table)?;
    let rejects = Rejects::new(&copy.options, error_file(copy, origin))?;
    let (source, input, total_bytes) = open_input(&copy.end, origin)?;
    let mut lines = Lines::new(input, &copy.options, source);
    let columns = columns_to_set(copy, &table, &mut lines)?;
    let mut import = Import::new(database, copy, columns, rejects)?;
    let progress = Progress::of_file(total_bytes);
    let result = import.take_all(&mut lines, &progress);
    drop(progress);
    let refused = import.rejects.finish()?;
    let count = rows(import.rows);
    match result {
        Ok(()) => Ok(format!("{count} imported from {}{refused}", lines.source)),
        Err(error) => {
            bail!(
                "{}; COPY stopped there, with {count} imported before it{refused}",
                sentence(&error)
            )
        }
    }
}

/// Returns the path of the file for refused records, by default named like cqlsh's.
fn error_file(copy: &Copy, origin: &Origin) -> PathBuf {
    match &copy.options.error_file {
        Some(path) => origin.resolve(path),
        None => {
            let table = copy.table.replace(['"', '/'], "").replace('.', "_");
            PathBuf::from(format!("import_{table}.err"))
        }
    }
}

type Input = (String, Box<dyn Read>, Option<u64>);

/// Opens the file; returns its name for messages, and its length if it has one.
fn open_input(end: &End, origin: &Origin) -> Result<Input> {
    match end {
        End::Standard if *origin == Origin::StandardInput => {
            bail!("COPY … FROM STDIN needs a script from elsewhere: standard input is the script")
        }
        End::Standard => {
            if io::stdin().is_terminal() {
                eprintln!("Type the rows; Ctrl-D on a line of its own ends them.");
            }
            Ok(("standard input".into(), Box::new(interrupt::Stdin::new()), None))
        }
        End::File(path) => {
            let path = origin.resolve(path);
            let shown = path.display().to_string();
            let file = open(&path).with_context(|| format!("cannot read the file {shown}"))?;
            let data = file.metadata().ok().filter(std::fs::Metadata::is_file);
            Ok((shown, Box::new(file), data.map(|data| data.len())))
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "a file of the user's, not of the database")]
fn open(path: &Path) -> io::Result<File> {
    File::open(path)
}

/// Returns the columns of the file in their order: those of the statement, of the header, or all.
fn columns_to_set(copy: &Copy, table: &[Column], lines: &mut Lines) -> Result<Vec<Column>> {
    let header = if copy.options.header { lines.read()? } else { None };
    let header =
        header.map(|record| record.fields.map_err(|reason| lines.mistake(record.line, &reason)));
    if let Some(columns) = &copy.columns {
        return columns.iter().map(|name| find(copy, table, &stored_name(name))).collect();
    }
    let Some(header) = header else { return Ok(table.to_vec()) };
    let column = |field: &Field| {
        let name = field.text.trim();
        find(copy, table, name)
            .or_else(|_| find(copy, table, &name.to_lowercase()))
            .with_context(|| format!("{}: the header names a column {name:?}", lines.source))
    };
    header?.iter().map(column).collect()
}

/// Returns the stored name of an identifier of CQL.
fn stored_name(identifier: &str) -> String {
    match identifier.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        Some(quoted) => quoted.replace("\"\"", "\""),
        None => identifier.to_lowercase(),
    }
}

fn find(copy: &Copy, table: &[Column], name: &str) -> Result<Column> {
    let found = table.iter().find(|column| column.name == name).cloned();
    found.ok_or_else(|| {
        let names: Vec<&str> = table.iter().map(|column| column.name.as_str()).collect();
        anyhow!("table {} has no column {name:?}; it has {}", copy.table, names.join(", "))
    })
}

/// Records of the file.
struct Lines {
    source: String,
    reader: Reader<BufReader<Box<dyn Read>>>,
    /// Whether texts have the form of an export of cqlsh, once that is known.
    is_cqlsh_export: Option<bool>,
    has_escapes: bool,
}

impl Lines {
    fn new(input: Box<dyn Read>, options: &Options, source: String) -> Self {
        let reader = Reader::new(BufReader::with_capacity(1 << 16, input), options.dialect.clone());
        let has_escapes = options.dialect.escape.is_some();
        Self { source, reader, is_cqlsh_export: options.cqlsh_export, has_escapes }
    }

    fn read(&mut self) -> Result<Option<Record>> {
        let line = self.reader.line();
        let record = self.reader.read().map_err(|error| self.mistake(line, &error.to_string()))?;
        if let (Some(record), None) = (&record, self.is_cqlsh_export) {
            let is_export = self.has_escapes && record.ends_like_cqlsh();
            if is_export {
                eprintln!(
                    "The lines of {} end like those of an export of cqlsh: \\\\, \\n, \\r, \\t and \
                     \\x.. in texts are read as cqlsh writes them. CQLSHEXPORT = false reads them \
                     as they are.",
                    self.source
                );
            }
            self.is_cqlsh_export = Some(is_export);
        }
        Ok(record)
    }

    fn mistake(&self, line: u64, reason: &str) -> anyhow::Error {
        anyhow!("{}, line {line}: {reason}", self.source)
    }
}

/// The statement that writes a row.
struct RowWriter {
    prepared: Prepared,
    kind: BatchKind,
    /// The field of each marker.
    fields: Vec<usize>,
    /// What a field that is null is to the statement.
    null: Bound,
}

impl RowWriter {
    fn new(database: &Database, table: &str, columns: &[Column]) -> Result<Self> {
        let is_counter = |column: &Column| column.data_type == DataType::Counter;
        let adds = columns.iter().any(is_counter);
        let (text, fields) =
            if adds { addition(table, columns) } else { insertion(table, columns) };
        let prepared = database.prepare(&text)?;
        // A counter that is null keeps its value.
        let (kind, null) = match adds {
            true => (BatchKind::Counter, Bound::Unset),
            false => (BatchKind::Unlogged, Bound::Null),
        };
        Ok(Self { prepared, kind, fields, null })
    }

    /// Returns the values of the markers for a row's values, which stand in the order of the fields.
    fn values(&self, row: &[Bound]) -> Vec<Bound> {
        let value = |field: &usize| match &row[*field] {
            Bound::Null => self.null.clone(),
            value => value.clone(),
        };
        self.fields.iter().map(value).collect()
    }
}

fn insertion(table: &str, columns: &[Column]) -> (String, Vec<usize>) {
    let names: Vec<String> = columns.iter().map(|column| spelled(&column.name)).collect();
    let markers = vec!["?"; columns.len()].join(", ");
    let text = format!("INSERT INTO {table} ({}) VALUES ({markers})", names.join(", "));
    (text, (0..columns.len()).collect())
}

/// Returns an UPDATE that adds to counters: these cannot be inserted.
fn addition(table: &str, columns: &[Column]) -> (String, Vec<usize>) {
    let (keys, counters): (Vec<usize>, Vec<usize>) =
        (0..columns.len()).partition(|place| columns[*place].is_key);
    let name = |place: &usize| spelled(&columns[*place].name);
    let add = |place: &usize| format!("{0} = {0} + ?", name(place));
    let equal = |place: &usize| format!("{} = ?", name(place));
    let text = format!(
        "UPDATE {table} SET {} WHERE {}",
        counters.iter().map(add).collect::<Vec<_>>().join(", "),
        keys.iter().map(equal).collect::<Vec<_>>().join(" AND "),
    );
    (text, counters.into_iter().chain(keys).collect())
}

/// Row that is not written yet, with its record.
struct Pending {
    line: u64,
    raw: Vec<u8>,
    values: Vec<Bound>,
}

/// Rows that are being written to the table.
struct Import<'a> {
    database: &'a Database,
    options: &'a Options,
    writer: RowWriter,
    columns: Vec<Column>,
    rejects: Rejects,
    chunk: Vec<Pending>,
    chunk_bytes: usize,
    /// Number of rows in the table.
    rows: u64,
}

impl<'a> Import<'a> {
    fn new(
        database: &'a Database,
        copy: &'a Copy,
        columns: Vec<Column>,
        rejects: Rejects,
    ) -> Result<Self> {
        let writer = RowWriter::new(database, &copy.table, &columns)?;
        Ok(Self {
            database,
            options: &copy.options,
            writer,
            columns,
            rejects,
            chunk: Vec::new(),
            chunk_bytes: 0,
            rows: 0,
        })
    }

    fn take_all(&mut self, lines: &mut Lines, progress: &Progress) -> Result<()> {
        loop {
            let record = match lines.read() {
                Ok(Some(record)) => record,
                Ok(None) => return self.write(&lines.source),
                Err(error) => {
                    self.write(&lines.source)?;
                    return Err(error);
                }
            };
            self.take(record, lines)?;
            let is_full = self.chunk.len() >= self.options.chunk_rows;
            if is_full || self.chunk_bytes >= CHUNK_BYTES_MAX {
                self.write(&lines.source)?;
                progress.set(self.rows, lines.reader.read_bytes());
            }
        }
    }

    fn take(&mut self, record: Record, lines: &Lines) -> Result<()> {
        let Record { line, fields, raw } = record;
        let reader = FieldReader::new(self.options, lines.is_cqlsh_export.unwrap_or_default());
        let values = fields
            .map_err(|reason| format!(": {reason}"))
            .and_then(|fields| self.values(&reader, &fields));
        match values {
            Ok(values) => {
                self.chunk_bytes += raw.len();
                self.chunk.push(Pending { line, raw, values: self.writer.values(&values) });
                Ok(())
            }
            Err(reason) => {
                let error = anyhow!("{}, line {line}{reason}", lines.source);
                let Err(error) = self.rejects.take(Step::Parse, &raw, error) else { return Ok(()) };
                self.write(&lines.source)?;
                Err(error)
            }
        }
    }

    fn values(&self, reader: &FieldReader<'_>, fields: &[Field]) -> Result<Vec<Bound>, String> {
        if fields.len() != self.columns.len() {
            let names: Vec<_> = self.columns.iter().map(|column| column.name.as_str()).collect();
            return Err(format!(
                ": it has {} fields, and there are {} columns ({})",
                fields.len(),
                names.len(),
                names.join(", ")
            ));
        }
        let value = |(column, field): (&Column, &Field)| {
            let value = reader.read(column, field);
            value.map_err(|reason| format!(", column {}: {reason}", column.name))
        };
        self.columns.iter().zip(fields).map(value).collect()
    }

    /// Writes the chunk as one transaction. If one of its rows is refused, each is written alone,
    /// until one is refused that may not be passed over.
    fn write(&mut self, source: &str) -> Result<()> {
        let chunk = std::mem::take(&mut self.chunk);
        self.chunk_bytes = 0;
        let (Some(first), Some(last)) = (chunk.first(), chunk.last()) else {
            return Ok(());
        };
        let lines = format!("{source}, lines {} to {}", first.line, last.line);
        match self.insert(chunk.iter().map(|row| row.values.clone()).collect()) {
            Ok(()) => return Ok(()),
            Err(error) if !is_of_row(&error) => return Err(error).context(lines),
            Err(_) => {}
        }
        for Pending { line, raw, values } in chunk {
            let Err(error) = self.insert(vec![values]) else { continue };
            let is_of_row = is_of_row(&error);
            let error = error.context(format!("{source}, line {line}"));
            if !is_of_row {
                return Err(error);
            }
            self.rejects.take(Step::Insert, &raw, error)?;
        }
        Ok(())
    }

    fn insert(&mut self, rows: Vec<Vec<Bound>>) -> Result<()> {
        let count = rows.len() as u64;
        self.database.batch(self.writer.kind, &self.writer.prepared, rows)?;
        self.rows += count;
        Ok(())
    }
}

/// Returns `true` if the statement is refused for its values.
fn is_of_row(error: &anyhow::Error) -> bool {
    let error = error.downcast_ref::<CqlError>();
    error.is_some_and(|error| *error.kind() == CqlErrorKind::Invalid)
}
