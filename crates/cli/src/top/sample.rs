//! A sample of a server's figures.

use anyhow::{Context as _, Result};
use carnet::Value;
use carnet_base::Moment;
use carnet_cql::result::Rows;

use crate::database::Database;

/// Query of the server's version.
const VERSION: &str = "SELECT release_version FROM system.local";

/// Queries of a sample.
const BOTTLENECK: &str = "SELECT * FROM system_views.bottleneck";
const LEVELS: &str = "SELECT * FROM system_views.service_levels";
const STATEMENTS: &str = "SELECT * FROM system_views.queries";
const TRANSACTIONS: &str = "SELECT * FROM system_views.transactions";
const STATISTICS: &str = "SELECT * FROM system_views.statement_statistics";
const CLIENTS: &str = "SELECT address, port FROM system_views.clients";

/// Statements that watch the server. They are no load of its applications.
const OWN: [&str; 7] = [VERSION, BOTTLENECK, LEVELS, STATEMENTS, TRANSACTIONS, STATISTICS, CLIENTS];

/// Rows of a system table, by the names of the columns.
#[derive(Clone, Debug, Default)]
pub(crate) struct Listed {
    columns: Vec<String>,
    rows: Vec<Vec<Option<Value>>>,
}

/// Rows of a system table, or why they cannot be read.
pub(crate) type Part = Result<Listed, String>;

/// Figures of a server at a moment.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    pub(super) at: Moment,
    pub(super) bottleneck: Part,
    pub(super) levels: Part,
    pub(super) statements: Part,
    pub(super) transactions: Part,
    pub(super) statistics: Part,
    pub(super) clients: Part,
}

impl Sample {
    /// Reads the figures of a server.
    ///
    /// # Errors
    ///
    /// If the server has no such tables, or does not answer.
    pub(crate) fn take(database: &Database, now: impl Fn() -> Moment) -> Result<Self> {
        let version = Listed::new(&database.rows(VERSION).context("cannot ask the server")?)?;
        let version = version.row(0).text("release_version");
        anyhow::ensure!(
            version.contains("carnet"),
            "the server is of version {version}, and not of Carnet: carnet top reads tables that others do \
             not have"
        );
        let read = |query: &str| -> Part {
            let rows = database.rows(query).and_then(|rows| Listed::new(&rows));
            rows.map_err(|error| format!("{error:#}"))
        };
        Ok(Self {
            at: now(),
            bottleneck: read(BOTTLENECK),
            levels: read(LEVELS),
            statements: read(STATEMENTS).map(Listed::without_own),
            transactions: read(TRANSACTIONS),
            statistics: read(STATISTICS).map(Listed::without_own),
            clients: read(CLIENTS),
        })
    }
}

impl Listed {
    pub(super) fn new(rows: &Rows) -> Result<Self> {
        let columns = rows.columns.iter().map(|column| column.name.clone()).collect();
        let mut listed = Vec::with_capacity(rows.rows.len());
        for row in rows.values() {
            let values = rows.columns.iter().zip(row).map(|(column, cell)| {
                cell.map(|bytes| column.data_type.deserialize(&bytes)).transpose()
            });
            listed.push(values.collect::<carnet::Result<Vec<_>>>()?);
        }
        Ok(Self { columns, rows: listed })
    }

    /// Removes the statements of `carnet top`.
    pub(super) fn without_own(mut self) -> Self {
        let Some(at) = self.columns.iter().position(|column| column == "statement") else {
            return self;
        };
        let is_own = |row: &[Option<Value>]| match row.get(at) {
            Some(Some(Value::Text(text))) => OWN.contains(&text.as_str()),
            _ => false,
        };
        self.rows.retain(|row| !is_own(row));
        self
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Row<'_>> {
        (0..self.rows.len()).map(|at| self.row(at))
    }

    pub(super) fn row(&self, at: usize) -> Row<'_> {
        Row { columns: &self.columns, values: self.rows.get(at).map_or(&[], Vec::as_slice) }
    }
}

/// A row of a system table.
#[derive(Clone, Copy)]
pub(super) struct Row<'l> {
    columns: &'l [String],
    values: &'l [Option<Value>],
}

impl Row<'_> {
    fn value(&self, name: &str) -> Option<&Value> {
        let at = self.columns.iter().position(|column| column == name)?;
        self.values.get(at)?.as_ref()
    }

    /// Returns a text; empty for null, or for a column that this server does not have.
    pub(super) fn text(&self, name: &str) -> String {
        match self.value(name) {
            None => String::new(),
            Some(Value::Text(text)) => text.clone(),
            Some(other) => other.to_string(),
        }
    }

    /// Returns a number; 0 for null.
    #[expect(clippy::cast_precision_loss, reason = "figures of a monitor are floats")]
    pub(super) fn number(&self, name: &str) -> f64 {
        match self.value(name) {
            Some(Value::Double(number)) => *number,
            Some(Value::Int(number)) => f64::from(*number),
            Some(Value::Bigint(number)) => *number as f64,
            _ => 0.0,
        }
    }
}
