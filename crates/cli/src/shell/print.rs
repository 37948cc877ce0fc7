//! Results on standard output: tables, JSON or CSV.

use std::io::{self, BufWriter, IsTerminal, Stdout, Write};

use anyhow::Result;
use carnet::DataType;
use carnet_cql::result::{ChangeKind, ChangeTarget, ColumnSpec, Rows, SchemaChange};
use comfy_table::{CellAlignment, Row, Table, presets};

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

/// Printer of results.
pub(crate) struct Printer<W: Write = BufWriter<Stdout>> {
    format: Format,
    is_terminal: bool,
    out: W,
}

impl Printer {
    /// Prints to standard output.
    pub(crate) fn stdout(format: Format) -> Self {
        let is_terminal = io::stdout().is_terminal();
        Self { format, is_terminal, out: BufWriter::new(io::stdout()) }
    }
}

impl<W: Write> Printer<W> {
    /// Returns `true` if the output is a table, for people.
    pub(crate) fn is_table(&self) -> bool {
        self.format == Format::Table
    }

    /// Returns `true` if standard output is a terminal.
    pub(crate) fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    /// Prints a page of rows; `is_first` marks the first page of a result.
    pub(crate) fn page(&mut self, rows: &Rows, is_first: bool) -> Result<()> {
        match self.format {
            Format::Table if is_first || !rows.rows.is_empty() => self.table(rows)?,
            Format::Table => {}
            Format::Json => self.json(rows)?,
            Format::Csv => self.csv(rows, is_first)?,
        }
        Ok(self.out.flush()?)
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
        if self.format == Format::Table {
            writeln!(self.out, "{note}")?;
        }
        Ok(self.out.flush()?)
    }

    /// Prints a script's comments, and a statement before its result.
    pub(crate) fn echo(&mut self, comments: &str, statement: &str) -> Result<()> {
        let (dim, bold, end) =
            if self.is_terminal { ("\u{1b}[32m", "\u{1b}[1m", "\u{1b}[0m") } else { ("", "", "") };
        if !comments.is_empty() {
            writeln!(self.out, "{dim}{comments}{end}")?;
        }
        if !statement.is_empty() {
            writeln!(self.out, "{bold}{statement}{end}")?;
        }
        Ok(self.out.flush()?)
    }

    fn table(&mut self, rows: &Rows) -> Result<()> {
        let mut table = Table::new();
        table.load_style(presets::UTF8_FULL_CONDENSED);
        table.set_header(rows.columns.iter().map(|column| printable(&column.name)));
        for row in rows.rows.iter() {
            let mut cells = Vec::with_capacity(row.len());
            for (column, bytes) in rows.columns.iter().zip(row) {
                cells.push(match bytes {
                    Some(bytes) => printable(&value::text(&column.data_type, bytes)?),
                    None => NULL.to_owned(),
                });
            }
            table.add_row(Row::from(cells));
        }
        for (column, spec) in table.column_iter_mut().zip(&rows.columns) {
            if is_number(spec) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        Ok(writeln!(self.out, "{table}")?)
    }

    fn json(&mut self, rows: &Rows) -> Result<()> {
        let names: Vec<_> = rows.columns.iter().map(|column| value::quote(&column.name)).collect();
        for row in rows.rows.iter() {
            let mut separator = '{';
            for ((column, name), bytes) in rows.columns.iter().zip(&names).zip(row) {
                let value = match bytes {
                    Some(bytes) => value::json(&column.data_type, bytes)?,
                    None => "null".into(),
                };
                write!(self.out, "{separator}{name}:{value}")?;
                separator = ',';
            }
            writeln!(self.out, "}}")?;
        }
        Ok(())
    }

    fn csv(&mut self, rows: &Rows, is_first: bool) -> Result<()> {
        let mut csv = csv::Writer::from_writer(&mut self.out);
        if is_first {
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
        Ok(csv.flush()?)
    }
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
        let mut printer = Printer { format, is_terminal: false, out: Vec::new() };
        printer.page(&rows(), true).unwrap();
        printer.count(3, "").unwrap();
        String::from_utf8(printer.out).unwrap()
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
(3 rows)
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
}
