//! Options of `COPY`.

use super::datetime::TimestampFormat;
use super::dialect::Dialect;

/// Maximum number of rows per chunk or page.
const ROWS_MAX: usize = 10_000;

/// The options that have an effect.
const NAMES: &str = "HEADER, DELIMITER, QUOTE, ESCAPE, NULL, DATETIMEFORMAT, PAGESIZE, CHUNKSIZE, \
                     MAXERRORS, MAXPARSEERRORS, MAXINSERTERRORS, ERRFILE or CQLSHEXPORT";

/// Options of cqlsh that tune its processes and requests, of which this `COPY` has none.
const WITHOUT_EFFECT: [&str; 8] = [
    "MAXATTEMPTS",
    "MAXBATCHSIZE",
    "MAXREQUESTS",
    "MINBATCHSIZE",
    "NUMPROCESSES",
    "PAGETIMEOUT",
    "PREPAREDSTATEMENTS",
    "REPORTFREQUENCY",
];

/// Options of cqlsh that change the result or the load, which this `COPY` does not support.
const UNSUPPORTED: [&str; 16] = [
    "BEGINTOKEN",
    "BOOLSTYLE",
    "CONFIGFILE",
    "DECIMALSEP",
    "DOUBLEPRECISION",
    "ENCODING",
    "ENDTOKEN",
    "FLOATPRECISION",
    "INGESTRATE",
    "MAXOUTPUTSIZE",
    "MAXROWS",
    "RATEFILE",
    "SKIPCOLS",
    "SKIPROWS",
    "THOUSANDSSEP",
    "TTL",
];

/// Options of a `COPY`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    /// Whether the first line names the columns.
    pub(super) header: bool,
    pub(super) dialect: Dialect,
    /// Form of the columns of type `timestamp`.
    pub(super) timestamps: Option<TimestampFormat>,
    /// `FROM`: rows per transaction.
    pub(super) chunk_rows: usize,
    /// `TO`: rows per page.
    pub(super) page_rows: usize,
    /// Number of records with an unreadable field that are passed over; `None`: all.
    pub(super) parse_errors_max: Option<u64>,
    /// Number of rows refused by the table that are passed over; `None`: all.
    pub(super) insert_errors_max: Option<u64>,
    /// Path of the file for the records that are passed over.
    pub(super) error_file: Option<String>,
    /// Whether texts have the form of an export of cqlsh; `None`: if the lines end with CR LF.
    pub(super) cqlsh_export: Option<bool>,
    /// Options given that have no effect.
    pub(super) without_effect: Vec<&'static str>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            header: false,
            dialect: Dialect::default(),
            timestamps: None,
            chunk_rows: 500,
            page_rows: 1_000,
            parse_errors_max: Some(0),
            insert_errors_max: Some(0),
            error_file: None,
            cqlsh_export: None,
            without_effect: Vec::new(),
        }
    }
}

impl Options {
    /// Checks that there is an option of this name, in upper case.
    ///
    /// # Errors
    ///
    /// A message for the user.
    pub(super) fn check_name(name: &str) -> Result<(), String> {
        let is_known = NAMES.split([',', ' ']).any(|known| known != "or" && known == name);
        if is_known || WITHOUT_EFFECT.contains(&name) {
            return Ok(());
        }
        if UNSUPPORTED.contains(&name) {
            return Err(format!("not supported yet: COPY's option {name}"));
        }
        Err(format!("expected {NAMES}, found {name}"))
    }

    /// Sets an option whose name was [checked](Self::check_name).
    ///
    /// # Errors
    ///
    /// The form that was expected.
    pub(super) fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            "HEADER" => self.header = boolean(value)?,
            "DELIMITER" => self.dialect.delimiter = byte(value)?,
            "QUOTE" => self.dialect.quote = byte(value)?,
            "ESCAPE" => self.dialect.escape = Some(byte(value)?),
            "NULL" => value.clone_into(&mut self.dialect.null),
            "DATETIMEFORMAT" => self.timestamps = Some(TimestampFormat::new(value)?),
            "CHUNKSIZE" => self.chunk_rows = rows(value)?,
            "PAGESIZE" => self.page_rows = rows(value)?,
            "MAXERRORS" => {
                self.parse_errors_max = limit(value)?;
                self.insert_errors_max = self.parse_errors_max;
            }
            "MAXPARSEERRORS" => self.parse_errors_max = limit(value)?,
            "MAXINSERTERRORS" => self.insert_errors_max = limit(value)?,
            "ERRFILE" if value.is_empty() => return Err("a file's path".into()),
            "ERRFILE" => self.error_file = Some(value.to_owned()),
            "CQLSHEXPORT" => self.cqlsh_export = Some(boolean(value)?),
            _ => self.without_effect.extend(WITHOUT_EFFECT.iter().find(|known| **known == name)),
        }
        Ok(())
    }

    /// Checks the options together, once all are set.
    ///
    /// # Errors
    ///
    /// A message for the user.
    pub(super) fn check(&mut self) -> Result<(), String> {
        if self.dialect.escape == Some(self.dialect.quote) {
            self.dialect.escape = None;
        }
        self.dialect.conflict().map_or(Ok(()), |conflict| Err(conflict.into()))
    }
}

fn boolean(value: &str) -> Result<bool, String> {
    match value.to_ascii_lowercase().as_str() {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err("true or false".into()),
    }
}

fn byte(value: &str) -> Result<u8, String> {
    match value.as_bytes() {
        b"\\t" => Ok(b'\t'),
        [byte] if !b"\r\n".contains(byte) => Ok(*byte),
        _ => Err("one ASCII character in quotes".into()),
    }
}

fn rows(value: &str) -> Result<usize, String> {
    let rows = value.parse().ok().filter(|rows| (1..=ROWS_MAX).contains(rows));
    rows.ok_or_else(|| format!("a number from 1 to {ROWS_MAX}"))
}

fn limit(value: &str) -> Result<Option<u64>, String> {
    if value == "-1" {
        return Ok(None);
    }
    value.parse().map(Some).map_err(|_| "a number of errors, or -1 for no limit".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_equal_to_quote_means_doubled_quotes() {
        let mut options = Options::default();
        options.set("ESCAPE", "\"").unwrap();
        options.check().unwrap();
        assert_eq!(options.dialect.escape, None);
        options.set("QUOTE", "'").unwrap();
        options.set("ESCAPE", "\"").unwrap();
        options.check().unwrap();
        assert_eq!(options.dialect.escape, Some(b'"'));
    }

    #[test]
    fn values_have_their_ranges() {
        let mut options = Options::default();
        for (name, value) in [
            ("HEADER", "yes"),
            ("DELIMITER", ",,"),
            ("ESCAPE", ""),
            ("QUOTE", "\n"),
            ("PAGESIZE", "0"),
            ("CHUNKSIZE", "10001"),
            ("MAXERRORS", "-2"),
            ("ERRFILE", ""),
            ("DATETIMEFORMAT", "%Q"),
        ] {
            assert!(options.set(name, value).is_err(), "{name} = {value}");
        }
        assert_eq!(options, Options::default());
        options.set("MAXINSERTERRORS", "3").unwrap();
        assert_eq!((options.parse_errors_max, options.insert_errors_max), (Some(0), Some(3)));
    }
}
