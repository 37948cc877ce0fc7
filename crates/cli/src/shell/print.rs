//! Results on standard output: tables, JSON or CSV.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, IsTerminal, Write};

use anyhow::Result;
use carnet::DataType;
use carnet_cql::result::{ChangeKind, ChangeTarget, ColumnSpec, Rows, SchemaChange};
use comfy_table::{CellAlignment, Row, Table, presets};

use super::pager::Pager;
use super::value;

/// Display form of null in a table, where "null" may be a text.
pub(crate) const NULL: &str = "∅";

/// Output format of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// Tables for people.
    Table,
    /// An object for each row, one per line.
    Json,
    /// RFC 4180, with a header.
    Csv,
}

/// Size of a terminal in characters.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    pub(crate) columns: usize,
    pub(crate) lines: usize,
}

/// Printer of results.
pub(crate) struct Printer {
    format: Format,
    is_terminal: bool,
    size: Option<Size>,
    /// Whether each value has a line.
    pub(crate) expands: bool,
    /// File that results go to instead of standard output, and its name.
    capture: Option<(File, String)>,
    pager: Option<Pager>,
}

impl Printer {
    /// Prints to standard output.
    pub(crate) fn stdout(format: Format) -> Self {
        let is_terminal = io::stdout().is_terminal();
        Self { format, is_terminal, size: None, expands: false, capture: None, pager: None }
    }

    /// Sets the size of the terminal.
    pub(crate) fn resize(&mut self, size: Option<Size>) {
        self.size = size;
    }

    /// Redirects the output to a file, or back.
    pub(crate) fn capture(&mut self, capture: Option<(File, String)>) {
        self.capture = capture;
    }

    /// Returns the name of the file that output goes to.
    pub(crate) fn captured(&self) -> Option<&str> {
        self.capture.as_ref().map(|(_, name)| name.as_str())
    }

    /// Returns `true` if the output is a table, for people.
    pub(crate) fn is_table(&self) -> bool {
        self.format == Format::Table
    }

    /// Returns `true` if a person reads the output.
    pub(crate) fn is_terminal(&self) -> bool {
        self.is_terminal && self.capture.is_none()
    }

    /// Returns `true` if a pager shows the result.
    pub(crate) fn pages(&self) -> bool {
        self.pager.is_some()
    }

    /// Prints a page of rows behind a number of rows. If more pages follow, or the terminal is too
    /// small, a pager shows them. Returns `false` once the pager has ended.
    pub(crate) fn page(&mut self, rows: &Rows, before: u64, has_more: bool) -> Result<bool> {
        let text = self.render(rows, before)?;
        self.text(&text, has_more)
    }

    /// Prints the text of a result, like [`Printer::page`].
    pub(crate) fn text(&mut self, text: &str, has_more: bool) -> Result<bool> {
        let is_long = || self.size.is_some_and(|size| text.lines().count() >= size.lines);
        let wants_pager = self.pager.is_none() && self.is_terminal() && self.is_table();
        if wants_pager && (has_more || is_long()) {
            self.pager = Pager::start();
        }
        match &mut self.pager {
            Some(pager) => Ok(pager.write(text)),
            None => self.write(text).map(|()| true),
        }
    }

    /// Ends a result: waits for the pager.
    pub(crate) fn end_result(&mut self) {
        if let Some(pager) = self.pager.take() {
            pager.wait();
        }
    }

    fn write(&mut self, text: &str) -> Result<()> {
        match &mut self.capture {
            Some((file, _)) => file.write_all(text.as_bytes())?,
            None => {
                let mut stdout = io::stdout().lock();
                stdout.write_all(text.as_bytes())?;
                stdout.flush()?;
            }
        }
        Ok(())
    }

    fn render(&self, rows: &Rows, before: u64) -> Result<String> {
        let is_first = before == 0;
        match self.format {
            Format::Table if is_first || !rows.rows.is_empty() => self.for_people(rows, before),
            Format::Table => Ok(String::new()),
            Format::Json => json(rows),
            Format::Csv => csv(rows, is_first),
        }
    }

    /// Returns a table, or a line for each value if the table is wider than the terminal.
    fn for_people(&self, rows: &Rows, before: u64) -> Result<String> {
        let mut shown = Vec::with_capacity(rows.rows.len());
        for row in rows.rows.iter() {
            shown.push(cells(&rows.columns, &row)?);
        }
        if self.expands {
            return Ok(expanded(&rows.columns, &shown, before));
        }
        let table = table(&rows.columns, &shown);
        let width = table.lines().next().map_or(0, |line| line.chars().count());
        let columns = self.size.filter(|_| self.is_terminal()).map(|size| size.columns);
        match columns {
            Some(columns) if width > columns => Ok(expanded(&rows.columns, &shown, before)),
            _ => Ok(table),
        }
    }

    /// Prints the number of rows of a result and `note`, for people.
    pub(crate) fn count(&mut self, rows: u64, note: &str) -> Result<()> {
        let plural = if rows == 1 { "" } else { "s" };
        self.note(&format!("({rows} row{plural}{note})"))
    }

    /// Prints a schema change, for people.
    pub(crate) fn change(&mut self, change: &SchemaChange) -> Result<()> {
        let verb = match change.kind {
            ChangeKind::Created => "created",
            ChangeKind::Updated => "changed",
            ChangeKind::Dropped => "dropped",
        };
        let keyspace = &change.keyspace;
        self.note(&match &change.target {
            ChangeTarget::Keyspace => format!("({verb} keyspace {keyspace})"),
            ChangeTarget::Table(table) => format!("({verb} table {keyspace}.{table})"),
            ChangeTarget::Type(name) => format!("({verb} type {keyspace}.{name})"),
        })
    }

    /// Prints a line for people; JSON and CSV omit it.
    pub(crate) fn note(&mut self, note: &str) -> Result<()> {
        if self.format == Format::Table { self.write(&format!("{note}\n")) } else { Ok(()) }
    }

    /// Prints a script's comments, and a statement before its result.
    pub(crate) fn echo(&mut self, comments: &str, statement: &str) -> Result<()> {
        let (dim, bold, end) = match self.is_terminal() {
            true => ("\u{1b}[32m", "\u{1b}[1m", "\u{1b}[0m"),
            false => ("", "", ""),
        };
        if !comments.is_empty() {
            self.write(&format!("{dim}{comments}{end}\n"))?;
        }
        if !statement.is_empty() {
            self.write(&format!("{bold}{statement}{end}\n"))?;
        }
        Ok(())
    }
}

/// Returns a row's values for people.
fn cells(columns: &[ColumnSpec], row: &[Option<&[u8]>]) -> Result<Vec<String>> {
    let cell = |(column, bytes): (&ColumnSpec, &Option<&[u8]>)| match bytes {
        Some(bytes) => Ok(printable(&value::text(&column.data_type, bytes)?)),
        None => Ok(NULL.to_owned()),
    };
    columns.iter().zip(row).map(cell).collect()
}

fn table(columns: &[ColumnSpec], rows: &[Vec<String>]) -> String {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED);
    table.set_header(columns.iter().map(|column| printable(&column.name)));
    for row in rows {
        table.add_row(Row::from(row));
    }
    for (column, spec) in table.column_iter_mut().zip(columns) {
        if is_number(spec) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    format!("{table}\n")
}

/// Returns a line for each value, and one above each row.
fn expanded(columns: &[ColumnSpec], rows: &[Vec<String>], before: u64) -> String {
    let names: Vec<String> = columns.iter().map(|column| printable(&column.name)).collect();
    let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for (number, row) in (before + 1..).zip(rows) {
        let _ = writeln!(text, "── row {number} ──");
        for (name, value) in names.iter().zip(row) {
            let _ = writeln!(text, "{name:width$} │ {value}");
        }
    }
    text
}

fn json(rows: &Rows) -> Result<String> {
    let names: Vec<_> = rows.columns.iter().map(|column| value::quote(&column.name)).collect();
    let mut text = String::new();
    for row in rows.rows.iter() {
        let mut separator = '{';
        for ((column, name), bytes) in rows.columns.iter().zip(&names).zip(row) {
            let value = match bytes {
                Some(bytes) => value::json(&column.data_type, bytes)?,
                None => "null".into(),
            };
            write!(text, "{separator}{name}:{value}")?;
            separator = ',';
        }
        text.push_str("}\n");
    }
    Ok(text)
}

fn csv(rows: &Rows, has_header: bool) -> Result<String> {
    let mut csv = csv::Writer::from_writer(Vec::new());
    if has_header {
        csv.write_record(rows.columns.iter().map(|column| &column.name))?;
    }
    for row in rows.rows.iter() {
        for (column, bytes) in rows.columns.iter().zip(row) {
            match bytes {
                Some(bytes) => csv.write_field(value::text(&column.data_type, bytes)?)?,
                None => csv.write_field("")?,
            }
        }
        csv.write_record(None::<&[u8]>)?;
    }
    Ok(String::from_utf8(csv.into_inner()?)?)
}

fn is_number(column: &ColumnSpec) -> bool {
    matches!(
        column.data_type,
        DataType::Bigint
            | DataType::Counter
            | DataType::Decimal
            | DataType::Double
            | DataType::Float
            | DataType::Int
            | DataType::Smallint
            | DataType::Tinyint
            | DataType::Varint
    )
}

/// Escapes characters that would break a table's lines or control a terminal.
fn printable(text: &str) -> String {
    if !text.contains(char::is_control) {
        return text.to_owned();
    }
    let escape = |c: char| match c {
        c if c.is_control() => c.escape_default().to_string(),
        c => c.to_string(),
    };
    text.chars().map(escape).collect()
}

#[cfg(test)]
mod tests {
    use carnet::Value;

    use super::*;

    fn rows() -> Rows {
        let column = |name: &str, data_type: DataType| ColumnSpec {
            keyspace: "bank".into(),
            table: "accounts".into(),
            name: name.into(),
            data_type,
        };
        let text = |text: &str| Some(Value::Text(text.into()).serialize());
        Rows {
            columns: vec![column("id", DataType::Int), column("owner", DataType::Text)].into(),
            rows: vec![
                vec![Some(Value::Int(1).serialize()), text("Ada")],
                vec![Some(Value::Int(200).serialize()), None],
                vec![None, text("\u{1b}[2J, \"x\"")],
            ]
            .into(),
            paging_state: None,
        }
    }

    fn printed(format: Format) -> String {
        Printer::stdout(format).render(&rows(), 0).unwrap()
    }

    #[test]
    fn tables_align_numbers_and_show_null() {
        let expected = "\
┌─────┬────────────────┐
│  id ┆ owner          │
╞═════╪════════════════╡
│   1 ┆ Ada            │
│ 200 ┆ ∅              │
│   ∅ ┆ \\u{1b}[2J, \"x\" │
└─────┴────────────────┘
";
        assert_eq!(printed(Format::Table), expected);
    }

    #[test]
    fn json_has_a_line_per_row() {
        let expected = "{\"id\":1,\"owner\":\"Ada\"}\n{\"id\":200,\"owner\":null}\n\
                        {\"id\":null,\"owner\":\"\\u001b[2J, \\\"x\\\"\"}\n";
        assert_eq!(printed(Format::Json), expected);
    }

    #[test]
    fn csv_has_a_header_and_quotes() {
        let expected = "id,owner\n1,Ada\n200,\n,\"\u{1b}[2J, \"\"x\"\"\"\n";
        assert_eq!(printed(Format::Csv), expected);
    }

    #[test]
    fn rows_wider_than_the_terminal_are_expanded() {
        let mut printer = Printer::stdout(Format::Table);
        printer.is_terminal = true;
        printer.resize(Some(Size { columns: 24, lines: 50 }));
        assert_eq!(printer.render(&rows(), 0).unwrap(), printed(Format::Table));
        printer.resize(Some(Size { columns: 23, lines: 50 }));
        let expected = "\
── row 11 ──
id    │ 1
owner │ Ada
── row 12 ──
id    │ 200
owner │ ∅
── row 13 ──
id    │ ∅
owner │ \\u{1b}[2J, \"x\"
";
        assert_eq!(printer.render(&rows(), 10).unwrap(), expected);
        // A file has no width.
        printer.is_terminal = false;
        assert_eq!(printer.render(&rows(), 0).unwrap(), printed(Format::Table));
        printer.expands = true;
        assert_eq!(printer.render(&rows(), 10).unwrap(), expected);
    }
}
