//! Table options: those of Cassandra with their defaults, and their stored form in the catalog.
//!
//! The catalog stores an option as the CQL text of its value (`'text'`, `0.5`, `{'class': 'x'}`).
//! Carnet's engine ignores Cassandra's options but stores them: tools set them, and the description
//! of a schema can be executed on the other system.

use std::collections::BTreeMap;

use carnet::catalog::TableSchema;

use super::encode::Cell;
use super::foreign_options;
use super::option_values;
use super::setting::{Setting, quoted};
use crate::ast::{AlterTable, Literal, Name, OptionValue, Options, Statement, TableChange};
use crate::error::Failure;
use crate::parser::{Limits, parse};

/// Option that Carnet has besides Cassandra 5.0's: Accord's switch that lets a table take part in
/// transactions.
const TRANSACTIONAL_MODE: &str = "transactional_mode";

/// Option of a new table: its id for drivers.
pub(crate) const ID: &str = "id";

impl Setting {
    /// Parses a value that replaces this one, which is the default.
    fn replace(&self, name: &str, value: &OptionValue) -> Option<Self> {
        match (self, value) {
            (Self::Map(_), OptionValue::Map(pairs)) => {
                let given = pairs.iter().map(|(key, value)| (key.plain(), value.plain())).collect();
                Some(Self::Map(option_values::canonical_map(name, given)))
            }
            (Self::Blobs(_), OptionValue::Map(pairs)) => {
                let blob = |(key, value): &(Literal, Literal)| match value {
                    Literal::Blob(bytes) => Some((key.plain(), bytes.clone())),
                    _ => None,
                };
                pairs.iter().map(blob).collect::<Option<_>>().map(Self::Blobs)
            }
            (Self::Text(_), OptionValue::Literal(literal)) => {
                Some(Self::Text(option_values::canonical_text(name, literal.plain())))
            }
            (Self::Int(_), OptionValue::Literal(literal)) => {
                literal.plain().parse().ok().map(Self::Int)
            }
            (Self::Double(_), OptionValue::Literal(literal)) => {
                literal.plain().parse().ok().map(Self::Double)
            }
            (Self::Boolean(_), OptionValue::Literal(literal)) => {
                parse_boolean(&literal.plain()).map(Self::Boolean)
            }
            _ => None,
        }
    }

    /// Returns the error for a value of another type than this one.
    fn mismatch(&self, name: &str, value: &OptionValue) -> String {
        let value = shown(value);
        match self {
            Self::Text(_) => {
                format!("Invalid value for property '{name}'. It should be a string")
            }
            Self::Int(_) => format!("Invalid integer value {value} for '{name}'"),
            Self::Double(_) => format!("Invalid double value {value} for '{name}'"),
            Self::Boolean(_) => wrong_boolean(name, &value),
            Self::Map(_) => format!("Invalid value for property '{name}'. It should be a map."),
            Self::Blobs(_) => format!(
                "Invalid value for property '{name}'. It should be a map, as {{'key': 0x0123}}."
            ),
        }
    }
}

/// Returns a value's form in errors.
fn shown(value: &OptionValue) -> String {
    match value {
        OptionValue::Map(_) => "a map".to_owned(),
        OptionValue::Literal(literal) => literal.plain(),
    }
}

/// Parses a boolean like Cassandra.
fn parse_boolean(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "1" | "true" | "yes" => Some(true),
        "0" | "false" | "no" => Some(false),
        _ => None,
    }
}

fn wrong_boolean(name: &str, value: &str) -> String {
    format!(
        "Invalid boolean value {value} for '{name}'. Positive values can be '1', 'true' or \
         'yes'. Negative values can be '0', 'false' or 'no'."
    )
}

/// Default of `bloom_filter_fp_chance` for tables with leveled compaction.
const LEVELED_BLOOM_FILTER_CHANCE: f64 = 0.1;

/// Returns Cassandra 5.0's options with their defaults, in the order of `DESCRIBE`.
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
    /// Stored options that Cassandra does not have, in stored form.
    others: BTreeMap<String, String>,
}

impl TableOptions {
    /// Returns the options of a system table.
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

    /// Reads the stored options. An invalid value is ignored: [`check_option`] would have refused
    /// it, so another program has written it.
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
        if options.is_leveled() && !stored.contains_key("bloom_filter_fp_chance") {
            options.set("bloom_filter_fp_chance", Setting::Double(LEVELED_BLOOM_FILTER_CHANCE));
        }
        options
    }

    fn is_leveled(&self) -> bool {
        let Some(Setting::Map(compaction)) = self.get("compaction") else { return false };
        compaction.get("class").is_some_and(|class| class.ends_with("LeveledCompactionStrategy"))
    }

    /// Checks the options of a table against each other.
    ///
    /// # Errors
    ///
    /// [`OptionError::Value`].
    pub(crate) fn check(&self) -> Result<(), OptionError> {
        match (self.get("min_index_interval"), self.get("max_index_interval")) {
            (Some(min), Some(max)) => {
                option_values::check_intervals(min, max).map_err(OptionError::Value)
            }
            _ => Ok(()),
        }
    }

    fn set(&mut self, name: &str, value: Setting) {
        if let Some((_, setting)) = self.settings.iter_mut().find(|(known, _)| *known == name) {
            *setting = value;
        }
    }

    /// Returns the value of one of Cassandra's options.
    pub(crate) fn get(&self, name: &str) -> Option<&Setting> {
        self.settings.iter().find(|(known, _)| *known == name).map(|(_, setting)| setting)
    }

    /// Returns the value of one of Cassandra's options; null if it is the default and Cassandra
    /// leaves the column empty for it.
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

    /// Returns names and values as CQL, in the order of `DESCRIBE`.
    pub(crate) fn terms(&self) -> impl Iterator<Item = (Name, String)> {
        let settings =
            self.settings.iter().map(|(name, setting)| (Name::new(*name), setting.to_string()));
        settings.chain(self.others.iter().map(|(name, term)| (Name::new(name), term.clone())))
    }
}

/// Error of an option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OptionError {
    /// The option does not exist, or has values of another type: a syntax error.
    Syntax(String),
    /// The value is invalid for the option.
    Value(String),
    /// Cassandra has the option, but Carnet does not.
    Unsupported(String),
}

/// Checks an option of a `CREATE TABLE` or `ALTER TABLE`, and returns the text that the catalog
/// stores.
///
/// # Errors
///
/// [`OptionError`] for an option that does not exist, or an invalid value.
pub fn check_option(name: &str, value: &OptionValue) -> Result<String, OptionError> {
    if name == ID {
        return Err(OptionError::Value("Cannot alter table id.".to_owned()));
    }
    let translated = foreign_options::cassandra_form(name, value);
    let value = translated.as_ref().unwrap_or(value);
    let defaults = defaults();
    let known = defaults.iter().find(|(known, _)| *known == name).map(|(_, default)| default);
    let mode = Setting::text("");
    let default = known.or_else(|| (name == TRANSACTIONAL_MODE).then_some(&mode));
    let default =
        default.ok_or_else(|| OptionError::Syntax(format!("Unknown property '{name}'")))?;
    let setting = default
        .replace(name, value)
        .ok_or_else(|| OptionError::Syntax(default.mismatch(name, value)))?;
    let pairs = match value {
        OptionValue::Map(pairs) => pairs.as_slice(),
        OptionValue::Literal(_) => &[],
    };
    let given = pairs.iter().map(|(key, value)| (key.plain(), value.plain())).collect();
    option_values::check(name, &setting, &given).map_err(OptionError::Value)?;
    Ok(value.to_string())
}

/// Checks the names and types of a table's options.
///
/// # Errors
///
/// A syntax error at the option's name.
pub(crate) fn check_table_options(options: &Options) -> Result<(), Failure> {
    for (name, value) in options {
        if foreign_options::of_table(name.as_str(), value).is_some() {
            continue;
        }
        if let Err(OptionError::Syntax(message)) = check_option(name.as_str(), value) {
            return Err(Failure::syntax(name.at.0, message));
        }
    }
    Ok(())
}

/// Checks the names and types of a keyspace's options.
///
/// # Errors
///
/// A syntax error at the option's name.
pub(crate) fn check_keyspace_options(options: &Options) -> Result<(), Failure> {
    for (name, value) in options {
        let message = match (name.as_str(), value) {
            ("replication", OptionValue::Map(_)) => continue,
            ("replication", _) => {
                "Invalid value for property 'replication'. It should be a map.".to_owned()
            }
            ("durable_writes", value) if durable_writes(value).is_some() => continue,
            ("durable_writes", value) => wrong_boolean("durable_writes", &shown(value)),
            (name, _) if foreign_options::is_of_keyspace(name) => continue,
            (name, _) => format!("Unknown property '{name}'"),
        };
        return Err(Failure::syntax(name.at.0, message));
    }
    Ok(())
}

/// Returns the default time to live of a table's values in seconds, zero for none.
pub(crate) fn default_time_to_live(table: &TableSchema) -> i32 {
    let text = table.options.get("default_time_to_live");
    text.and_then(|text| text.trim_matches('\'').parse().ok()).unwrap_or(0)
}

/// Parses the value of the keyspace option `durable_writes`.
pub(crate) fn durable_writes(value: &OptionValue) -> Option<bool> {
    match value {
        OptionValue::Literal(literal) => parse_boolean(&literal.plain()),
        OptionValue::Map(_) => None,
    }
}

/// Parses an option's value with the grammar of the statement that sets it.
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

    #[test]
    fn leveled_tables_have_smaller_bloom_filters() {
        let leveled = ("compaction", "{'class': 'LeveledCompactionStrategy'}");
        let chance = |stored: &[_]| term(&options(stored), "bloom_filter_fp_chance").unwrap();
        assert_eq!(chance(&[]), "0.01");
        assert_eq!(chance(&[leveled]), "0.1");
        assert_eq!(chance(&[leveled, ("bloom_filter_fp_chance", "0.02")]), "0.02");
    }

    fn term(options: &TableOptions, name: &str) -> Option<String> {
        options.terms().find(|(known, _)| known.as_str() == name).map(|(_, term)| term)
    }

    #[test]
    fn stored_values_replace_the_defaults() {
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
                 'max_threshold': '32', 'min_threshold': '4', 'sstable_size_in_mb': '160'}",
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
    fn invalid_stored_values_become_defaults() {
        for text in ["", "1 AND cdc = true", "'x", "{}", "many", "99999999999"] {
            let options = options(&[("gc_grace_seconds", text), ("odd one", text)]);
            assert_eq!(term(&options, "gc_grace_seconds").as_deref(), Some("864000"), "{text}");
            assert_eq!(term(&options, "cdc").as_deref(), Some("false"), "{text}");
            let odd = term(&options, "odd one").unwrap();
            assert!(parse_value("odd one", &odd).is_some(), "{odd}");
        }
    }

    #[test]
    fn options_are_shown_as_cassandra_stores_them() {
        for (name, text, expected) in [
            ("speculative_retry", "'99.9percentile'", "'99.9p'"),
            ("speculative_retry", "'none'", "'NEVER'"),
            ("speculative_retry", "'max(5.5ms, 90P)'", "'MAX(90p,5ms)'"),
            ("read_repair", "'none'", "'NONE'"),
            ("caching", "{}", "{'keys': 'NONE', 'rows_per_partition': 'NONE'}"),
            (
                "caching",
                "{'keys': 'all', 'rows_per_partition': 10}",
                "{'keys': 'ALL', 'rows_per_partition': '10'}",
            ),
            (
                "compaction",
                "{'class': 'UnifiedCompactionStrategy'}",
                "{'class': 'org.apache.cassandra.db.compaction.UnifiedCompactionStrategy'}",
            ),
            ("compression", "{}", "{'enabled': 'false'}"),
            ("compression", "{'enabled': false}", "{'enabled': 'false'}"),
            (
                "compression",
                "{'enabled': true, 'class': 'ZstdCompressor'}",
                "{'chunk_length_in_kb': '16', \
                 'class': 'org.apache.cassandra.io.compress.ZstdCompressor'}",
            ),
        ] {
            assert!(check(name, text).is_ok(), "{name} = {text}");
            let options = options(&[(name, text)]);
            assert_eq!(term(&options, name).as_deref(), Some(expected), "{name} = {text}");
        }
    }

    fn check(name: &str, text: &str) -> Result<String, OptionError> {
        check_option(name, &parse_value(name, text).unwrap())
    }

    #[test]
    fn valid_options_are_kept_as_written() {
        for (name, texts) in [
            ("comment", &["'a'"][..]),
            ("transactional_mode", &["'off'"]),
            ("extensions", &["{}"]),
            ("cdc", &["true", "'TRUE'", "1", "'no'"]),
            ("compression", &["{}", "{'enabled': false}", "{'enabled': 'false'}"]),
            ("compression", &["{'class': 'ZstdCompressor', 'compression_level': 3}"]),
            ("compression", &["{'class': 'org.apache.cassandra.io.compress.LZ4Compressor'}"]),
            ("compression", &["{'class': 'LZ4Compressor', 'chunk_length_in_kb': 64}"]),
            ("compaction", &["{'class': 'UnifiedCompactionStrategy'}"]),
            ("compaction", &["{'class': 'LeveledCompactionStrategy', 'sstable_size_in_mb': 160}"]),
            ("caching", &["{'keys': 'NONE', 'rows_per_partition': 10}", "{'keys': 'all'}"]),
            ("gc_grace_seconds", &["0", "864000"]),
            ("bloom_filter_fp_chance", &["1", "0.0001"]),
            ("crc_check_chance", &["0", "1.0"]),
            ("speculative_retry", &["'99p'", "'99.9PERCENTILE'", "'50ms'", "'NONE'", "ALWAYS"]),
            ("speculative_retry", &["'MIN(99p, 50ms)'", "'max(5ms,90p)'"]),
            ("read_repair", &["'BLOCKING'", "'none'"]),
            ("memtable", &["'trie'"]),
        ] {
            for text in texts {
                assert!(check(name, text).is_ok(), "{name} = {text}: {:?}", check(name, text));
            }
        }
        assert_eq!(check("compression", "{'enabled': false}"), Ok("{'enabled': false}".into()));
    }

    #[test]
    fn unknown_options_and_types_are_syntax_errors() {
        for (name, text, message) in [
            ("colour", "'red'", "Unknown property 'colour'"),
            ("gc_grace_seconds", "'soon'", "Invalid integer value soon for 'gc_grace_seconds'"),
            ("gc_grace_seconds", "{'a': 1}", "Invalid integer value a map"),
            ("crc_check_chance", "'often'", "Invalid double value often for 'crc_check_chance'"),
            ("compaction", "'fast'", "property 'compaction'. It should be a map."),
            ("comment", "{'a': 'b'}", "property 'comment'. It should be a string"),
            ("cdc", "'maybe'", "Invalid boolean value maybe for 'cdc'."),
            ("extensions", "{'a': 'b'}", "property 'extensions'. It should be a map"),
        ] {
            match check(name, text) {
                Err(OptionError::Syntax(found)) => assert!(found.contains(message), "{found}"),
                other => panic!("{name} = {text}: {other:?}"),
            }
        }
    }

    #[test]
    fn wrong_option_values_are_refused() {
        for (name, text, message) in [
            ("gc_grace_seconds", "-1", "greater than or equal to 0 (got -1)"),
            ("default_time_to_live", "-1", "greater than or equal to 0"),
            ("default_time_to_live", "630720001", "less than or equal to 630720000"),
            ("bloom_filter_fp_chance", "0", "larger than 0.0000671"),
            ("bloom_filter_fp_chance", "1.1", "less than or equal to 1.0 (got 1.1)"),
            ("bloom_filter_fp_chance", "NaN", "(got NaN)"),
            ("crc_check_chance", "-0.1", "larger than or equal to 0"),
            ("min_index_interval", "0", "greater than or equal to 1"),
            ("memtable_flush_period_in_ms", "-5", "greater than or equal to 0"),
            ("speculative_retry", "'100p'", "[100p] is not supported"),
            ("speculative_retry", "'fast'", "[fast] is not supported"),
            ("speculative_retry", "'MIN(1ms,2ms)'", "is not supported"),
            ("additional_write_policy", "'-1ms'", "is not supported"),
            ("read_repair", "'ASYNC'", "it takes BLOCKING or NONE"),
            ("memtable", "'fast'", "Memtable configuration \"fast\" not found"),
            ("caching", "{'rows': 'ALL'}", "Invalid caching sub-options [rows]"),
            ("caching", "{'keys': 3}", "Invalid value '3' for caching sub-option 'keys'"),
            ("compaction", "{}", "Missing sub-option 'class'"),
            (
                "compaction",
                "{'class': 'FastStrategy'}",
                "compaction strategy class 'org.apache.cassandra.db.compaction.FastStrategy'",
            ),
            (
                "compaction",
                "{'class': 'SizeTieredCompactionStrategy', 'speed': 9}",
                "[speed] are not understood by SizeTieredCompactionStrategy",
            ),
            (
                "compaction",
                "{'class': 'SizeTieredCompactionStrategy', 'min_threshold': 1}",
                "cannot be less than 2",
            ),
            (
                "compaction",
                "{'class': 'SizeTieredCompactionStrategy', 'max_threshold': 3}",
                "must be larger than the min (4)",
            ),
            (
                "compaction",
                "{'class': 'SizeTieredCompactionStrategy', 'max_threshold': 0}",
                "set the compaction option 'enabled' to false",
            ),
            (
                "compaction",
                "{'class': 'UnifiedCompactionStrategy', 'min_threshold': 4}",
                "[min_threshold] are not understood by UnifiedCompactionStrategy",
            ),
            ("compression", "{'class': ''}", "must not be empty"),
            ("caching", "{'rows_per_partition': 2147483648}", "NONE or an integer"),
            ("compression", "{'enabled': 'perhaps'}", "'enabled' is true or false"),
            (
                "compression",
                "{'enabled': false, 'class': 'LZ4Compressor'}",
                "no other options must be specified",
            ),
            ("compression", "{'chunk_length_in_kb': 4}", "Missing sub-option 'class'"),
            (
                "compression",
                "{'class': 'Zip'}",
                "Compression for type org.apache.cassandra.io.compress.Zip",
            ),
            (
                "compression",
                "{'class': 'LZ4Compressor', 'chunk_length_in_kb': 3}",
                "must be a power of 2",
            ),
            ("compression", "{'class': 'LZ4Compressor', 'level': 3}", "options level"),
        ] {
            match check(name, text) {
                Err(OptionError::Value(found)) => assert!(found.contains(message), "{found}"),
                other => panic!("{name} = {text}: {other:?}"),
            }
        }
        assert!(options(&[("min_index_interval", "4096")]).check().is_err());
        assert!(options(&[("max_index_interval", "128")]).check().is_ok());
    }
}
