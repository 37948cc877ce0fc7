//! The options of tables: what Cassandra has, their defaults, and how the catalogue keeps them.
//!
//! The catalogue keeps an option as the text of its value in CQL (`'text'`, `0.5`,
//! `{'class': 'x'}`). Carnet's engine has its own ways and follows none of Cassandra's options,
//! but keeps them: tools set them, and a schema that is described on one side can be created on
//! the other.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};

use carnet::{Error, Result};

use super::encode::{self, Cell};
use crate::ast::{AlterTable, Literal, Name, OptionValue, Statement, TableChange};
use crate::parser::{Limits, parse};

/// What Carnet has besides Cassandra 5.0's: Accord's switch, by which a table takes part in
/// transactions.
const TRANSACTIONAL_MODE: &str = "transactional_mode";

/// The value of an option.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Setting {
    Text(String),
    Int(i32),
    Double(f64),
    Boolean(bool),
    Map(BTreeMap<String, String>),
    Blobs(BTreeMap<String, Vec<u8>>),
}

impl Setting {
    fn text(text: &str) -> Self {
        Self::Text(text.to_owned())
    }

    fn map<const N: usize>(pairs: [(&str, &str); N]) -> Self {
        Self::Map(pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).into())
    }

    /// Returns the value as a column of `system_schema.tables` holds it.
    pub(crate) fn cell(&self) -> Cell {
        match self {
            Self::Text(text) => encode::text(text),
            Self::Int(number) => encode::int(*number),
            Self::Double(number) => encode::double(*number),
            Self::Boolean(value) => encode::boolean(*value),
            Self::Map(pairs) => {
                encode::text_map(pairs.iter().map(|(key, value)| (key.as_str(), value.as_str())))
            }
            Self::Blobs(pairs) => {
                let parts = pairs.iter().flat_map(|(key, value)| [key.as_bytes(), value]);
                Some(encode::collection(pairs.len(), parts))
            }
        }
    }

    /// Reads a value that takes the place of this one, which is the default.
    fn replace(&self, name: &str, value: &OptionValue) -> Option<Self> {
        match (self, value) {
            (Self::Map(default), OptionValue::Map(pairs)) => {
                let given = pairs.iter().map(|(key, value)| (plain(key), plain(value))).collect();
                Some(Self::Map(complete(name, default, given)))
            }
            (Self::Blobs(_), OptionValue::Map(pairs)) => {
                let blob = |(key, value): &(Literal, Literal)| match value {
                    Literal::Blob(bytes) => Some((plain(key), bytes.clone())),
                    _ => None,
                };
                pairs.iter().map(blob).collect::<Option<_>>().map(Self::Blobs)
            }
            (Self::Text(_), OptionValue::Literal(literal)) => Some(Self::Text(plain(literal))),
            (Self::Int(_), OptionValue::Literal(literal)) => {
                plain(literal).parse().ok().map(Self::Int)
            }
            (Self::Double(_), OptionValue::Literal(literal)) => {
                plain(literal).parse().ok().map(Self::Double)
            }
            (Self::Boolean(_), OptionValue::Literal(literal)) => {
                plain(literal).to_ascii_lowercase().parse().ok().map(Self::Boolean)
            }
            _ => None,
        }
    }

    const fn what(&self) -> &'static str {
        match self {
            Self::Text(_) => "a string",
            Self::Int(_) => "a 32-bit integer",
            Self::Double(_) => "a number",
            Self::Boolean(_) => "true or false",
            Self::Map(_) => "a map, as {'key': 'value'}",
            Self::Blobs(_) => "a map, as {'key': 0x0123}",
        }
    }
}

/// Writes the value as a term of CQL.
impl Display for Setting {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(&quoted(text)),
            Self::Int(number) => number.fmt(f),
            // With a fraction, even where it is zero.
            Self::Double(number) => write!(f, "{number:?}"),
            Self::Boolean(value) => value.fmt(f),
            Self::Map(pairs) => f.write_str(&map_of(pairs.iter())),
            Self::Blobs(pairs) => {
                let blob = |(key, value): (&String, &Vec<u8>)| {
                    (Literal::String(key.clone()), Literal::Blob(value.clone()))
                };
                OptionValue::Map(pairs.iter().map(blob).collect()).fmt(f)
            }
        }
    }
}

/// Returns pairs as a map of strings in CQL.
pub(crate) fn map_of<'a>(pairs: impl Iterator<Item = (&'a String, &'a String)>) -> String {
    let strings = |(key, value): (&String, &String)| {
        (Literal::String(key.clone()), Literal::String(value.clone()))
    };
    OptionValue::Map(pairs.map(strings).collect()).to_string()
}

fn quoted(text: &str) -> String {
    Literal::String(text.to_owned()).to_string()
}

/// Returns what a constant says, without quotes.
fn plain(literal: &Literal) -> String {
    match literal {
        Literal::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Adds to a map what Cassandra adds: what `caching` leaves out, and the packages of classes.
fn complete(
    name: &str,
    default: &BTreeMap<String, String>,
    mut given: BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    let package = match name {
        "caching" => return default.clone().into_iter().chain(given).collect(),
        "compaction" => "org.apache.cassandra.db.compaction",
        "compression" => "org.apache.cassandra.io.compress",
        _ => return given,
    };
    if let Some(class) = given.get_mut("class")
        && !class.is_empty()
        && !class.contains('.')
    {
        *class = format!("{package}.{class}");
    }
    given
}

/// Cassandra 5.0's options and their defaults, in the order in which `DESCRIBE` prints them.
fn defaults() -> Vec<(&'static str, Setting)> {
    let compaction = [
        ("class", "org.apache.cassandra.db.compaction.SizeTieredCompactionStrategy"),
        ("max_threshold", "32"),
        ("min_threshold", "4"),
    ];
    let compression =
        [("chunk_length_in_kb", "16"), ("class", "org.apache.cassandra.io.compress.LZ4Compressor")];
    vec![
        ("additional_write_policy", Setting::text("99p")),
        ("allow_auto_snapshot", Setting::Boolean(true)),
        ("bloom_filter_fp_chance", Setting::Double(0.01)),
        ("caching", Setting::map([("keys", "ALL"), ("rows_per_partition", "NONE")])),
        ("cdc", Setting::Boolean(false)),
        ("comment", Setting::text("")),
        ("compaction", Setting::map(compaction)),
        ("compression", Setting::map(compression)),
        ("memtable", Setting::text("default")),
        ("crc_check_chance", Setting::Double(1.0)),
        ("default_time_to_live", Setting::Int(0)),
        ("extensions", Setting::Blobs(BTreeMap::new())),
        ("gc_grace_seconds", Setting::Int(864_000)),
        ("incremental_backups", Setting::Boolean(true)),
        ("max_index_interval", Setting::Int(2048)),
        ("memtable_flush_period_in_ms", Setting::Int(0)),
        ("min_index_interval", Setting::Int(128)),
        ("read_repair", Setting::text("BLOCKING")),
        ("speculative_retry", Setting::text("99p")),
    ]
}

/// All options of a table.
#[derive(Clone, Debug)]
pub(crate) struct TableOptions {
    settings: Vec<(&'static str, Setting)>,
    /// What the catalogue has besides, as it has it.
    others: BTreeMap<String, String>,
}

impl TableOptions {
    /// The options of a table of the system.
    pub(crate) fn of_system(keyspace: &str, comment: &str) -> Self {
        const HOUR_MILLIS: i32 = 3_600_000;
        const WEEK_SECS: i32 = 7 * 24 * 3600;
        let mut options = Self { settings: defaults(), others: BTreeMap::new() };
        let gc_grace_secs = if keyspace == "system" { 0 } else { WEEK_SECS };
        options.set("comment", Setting::text(comment));
        options.set("gc_grace_seconds", Setting::Int(gc_grace_secs));
        options.set("memtable_flush_period_in_ms", Setting::Int(HOUR_MILLIS));
        options
    }

    /// Reads what the catalogue keeps. A value that makes no sense is as if it were not there:
    /// [`check_option`] refused it, so it is another program's.
    pub(crate) fn read(stored: &BTreeMap<String, String>) -> Self {
        let mut options = Self { settings: defaults(), others: BTreeMap::new() };
        for (name, text) in stored {
            let value = parse_value(name, text);
            match options.settings.iter_mut().find(|(known, _)| known == name) {
                Some((_, setting)) => {
                    if let Some(replaced) = value.and_then(|value| setting.replace(name, &value)) {
                        *setting = replaced;
                    }
                }
                None => {
                    let term = value.map_or_else(|| quoted(text), |value| value.to_string());
                    options.others.insert(name.clone(), term);
                }
            }
        }
        options
    }

    fn set(&mut self, name: &str, value: Setting) {
        if let Some((_, setting)) = self.settings.iter_mut().find(|(known, _)| *known == name) {
            *setting = value;
        }
    }

    /// Finds the value of one of Cassandra's options.
    pub(crate) fn get(&self, name: &str) -> Option<&Setting> {
        self.settings.iter().find(|(known, _)| *known == name).map(|(_, setting)| setting)
    }

    /// Returns the value of one of Cassandra's options, or null where that is the default and
    /// Cassandra leaves the column empty then.
    pub(crate) fn cell(&self, name: &str) -> Cell {
        let setting = self.get(name)?;
        let is_hidden = match name {
            "allow_auto_snapshot" | "incremental_backups" => *setting == Setting::Boolean(true),
            "cdc" => *setting == Setting::Boolean(false),
            "memtable" => *setting == Setting::text("default"),
            _ => false,
        };
        if is_hidden { None } else { setting.cell() }
    }

    /// Returns the names and values in CQL, in the order in which `DESCRIBE` prints them.
    pub(crate) fn terms(&self) -> impl Iterator<Item = (Name, String)> {
        let settings =
            self.settings.iter().map(|(name, setting)| (Name::new(*name), setting.to_string()));
        settings.chain(self.others.iter().map(|(name, term)| (Name::new(name), term.clone())))
    }
}

/// Checks an option that a table is created or altered with, and returns the text under which the
/// catalogue keeps it.
///
/// # Errors
///
/// `Invalid` for an option that there is not, or a value of the wrong type.
pub fn check_option(name: &str, value: &OptionValue) -> Result<String> {
    let defaults = defaults();
    let known = defaults.iter().find(|(known, _)| *known == name).map(|(_, default)| default);
    let mode = Setting::text("");
    let Some(default) = known.or_else(|| (name == TRANSACTIONAL_MODE).then_some(&mode)) else {
        let known: Vec<_> = defaults.iter().map(|(known, _)| *known).collect();
        return Err(Error::invalid(format!(
            "there is no table option {name}; there are {} and {TRANSACTIONAL_MODE}",
            known.join(", ")
        )));
    };
    if default.replace(name, value).is_none() {
        return Err(Error::invalid(format!("option {name} takes {}, not {value}", default.what())));
    }
    Ok(value.to_string())
}

/// Reads an option's value with the grammar of the statement that sets it.
fn parse_value(name: &str, text: &str) -> Option<OptionValue> {
    let statement = format!("ALTER TABLE t WITH {} = {text}", Name::new(name));
    let parsed = parse(&statement, &Limits::default()).ok()?;
    let Statement::AlterTable(AlterTable { change: TableChange::Options(options), .. }) =
        parsed.statement
    else {
        return None;
    };
    match <[_; 1]>::try_from(options) {
        Ok([(_, value)]) => Some(value),
        Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(stored: &[(&str, &str)]) -> TableOptions {
        let stored = stored.iter().map(|(name, text)| (name.to_string(), text.to_string()));
        TableOptions::read(&stored.collect())
    }

    fn term(options: &TableOptions, name: &str) -> Option<String> {
        options.terms().find(|(known, _)| known.as_str() == name).map(|(_, term)| term)
    }

    #[test]
    fn what_is_stored_replaces_the_default() {
        let options = options(&[
            ("comment", "'it''s'"),
            ("gc_grace_seconds", "-7"),
            ("bloom_filter_fp_chance", "1"),
            ("cdc", "'TRUE'"),
            ("caching", "{'keys': 'NONE'}"),
            ("compaction", "{'class': 'LeveledCompactionStrategy', 'sstable_size_in_mb': 160}"),
            ("extensions", "{'a': 0x00FF}"),
            ("transactional_mode", "'full'"),
        ]);
        for (name, expected) in [
            ("comment", "'it''s'"),
            ("gc_grace_seconds", "-7"),
            ("bloom_filter_fp_chance", "1.0"),
            ("cdc", "true"),
            ("caching", "{'keys': 'NONE', 'rows_per_partition': 'NONE'}"),
            (
                "compaction",
                "{'class': 'org.apache.cassandra.db.compaction.LeveledCompactionStrategy', \
                 'sstable_size_in_mb': '160'}",
            ),
            ("extensions", "{'a': 0x00ff}"),
            ("transactional_mode", "'full'"),
            ("speculative_retry", "'99p'"),
        ] {
            assert_eq!(term(&options, name).as_deref(), Some(expected), "{name}");
        }
    }

    #[test]
    fn extensions_are_bytes_in_the_table() {
        let options = options(&[("extensions", "{'a': 0x00FF}")]);
        let expected = b"\0\0\0\x01\0\0\0\x01a\0\0\0\x02\0\xff";
        assert_eq!(options.cell("extensions").as_deref(), Some(&expected[..]));
    }

    #[test]
    fn what_cannot_be_read_is_the_default() {
        for text in ["", "1 AND cdc = true", "'x", "{}", "many", "99999999999"] {
            let options = options(&[("gc_grace_seconds", text), ("odd one", text)]);
            assert_eq!(term(&options, "gc_grace_seconds").as_deref(), Some("864000"), "{text}");
            assert_eq!(term(&options, "cdc").as_deref(), Some("false"), "{text}");
            let odd = term(&options, "odd one").unwrap();
            assert!(parse_value("odd one", &odd).is_some(), "{odd}");
        }
    }

    #[test]
    fn options_are_checked() {
        let check = |name: &str, text: &str| {
            check_option(name, &parse_value(name, text).unwrap()).map_err(|e| e.to_string())
        };
        assert_eq!(check("comment", "'a'"), Ok("'a'".into()));
        assert_eq!(check("transactional_mode", "off"), Ok("'off'".into()));
        assert_eq!(check("extensions", "{}"), Ok("{}".into()));
        assert_eq!(
            check("gc_grace_seconds", "'soon'"),
            Err("option gc_grace_seconds takes a 32-bit integer, not 'soon'".into())
        );
        assert!(check("compaction", "'fast'").is_err());
        assert!(check("comment", "{'a': 'b'}").is_err());
        assert!(check("cdc", "1").is_err());
        assert!(check("extensions", "{'a': 'b'}").is_err());
        assert!(
            check("colour", "'red'").unwrap_err().starts_with("there is no table option colour")
        );
    }
}
