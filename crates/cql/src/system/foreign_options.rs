//! Options of ScyllaDB. An option that changes no answer is accepted without effect, with a warning, and
//! not stored: the description of a schema has Cassandra's options only. For the same reason, entries of
//! `compaction` and `compression` are stored in Cassandra's form.

use super::option_values::{COMPRESSOR_PACKAGE, STRATEGY_PACKAGE};
use crate::ast::{Literal, OptionValue, Options};

/// Options of tables and views that change no answer. ScyllaDB describes tables with the chances of read
/// repairs, which Cassandra had before its version 4.
const TABLE: [&str; 6] = [
    "dclocal_read_repair_chance",
    "paxos_grace_seconds",
    "read_repair_chance",
    "synchronous_updates",
    "tablets",
    "tombstone_gc",
];
/// Options of keyspaces that change no answer.
const KEYSPACE: [&str; 2] = ["storage", "tablets"];
/// Options that would change answers.
const REFUSED: [&str; 2] = ["in_memory", "per_partition_rate_limit"];

/// Meaning of an option of ScyllaDB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Foreign {
    /// It changes no answer.
    WithoutEffect,
    /// It would change answers.
    Refused,
}

/// Returns the meaning of an option of a table or view; `None` if ScyllaDB alone does not have it.
pub(crate) fn of_table(name: &str, value: &OptionValue) -> Option<Foreign> {
    match (name, value) {
        ("cdc", OptionValue::Map(pairs)) => {
            let is_on = pairs.iter().any(|(key, value)| {
                key.plain().eq_ignore_ascii_case("enabled")
                    && value.plain().eq_ignore_ascii_case("true")
            });
            Some(if is_on { Foreign::Refused } else { Foreign::WithoutEffect })
        }
        (name, _) if TABLE.contains(&name) => Some(Foreign::WithoutEffect),
        (name, _) if REFUSED.contains(&name) => Some(Foreign::Refused),
        _ => None,
    }
}

/// Returns `true` for an option of a keyspace that changes no answer.
pub(crate) fn is_of_keyspace(name: &str) -> bool {
    KEYSPACE.contains(&name)
}

/// Returns warnings of the options that are without effect, or stored in another form.
pub(crate) fn warnings(options: &Options) -> Vec<String> {
    let warning = |name: &str, value: &OptionValue| {
        if is_of_keyspace(name) || of_table(name, value) == Some(Foreign::WithoutEffect) {
            return Some(format!("option {name} of ScyllaDB is without effect"));
        }
        let stored = cassandra_form(name, value)?;
        Some(format!("option {name} of ScyllaDB is stored in Cassandra's form: {stored}"))
    };
    options.iter().filter_map(|(name, value)| warning(name.as_str(), value)).collect()
}

type Pairs = Vec<(Literal, Literal)>;

/// Returns an option of a table in Cassandra's form; `None` if it has that form, or none of ScyllaDB.
pub(super) fn cassandra_form(name: &str, value: &OptionValue) -> Option<OptionValue> {
    let OptionValue::Map(given) = value else { return None };
    let changed = match name {
        "compaction" => compaction(given),
        "compression" => compression(given),
        _ => return None,
    };
    (changed != *given).then_some(OptionValue::Map(changed))
}

/// The incremental strategy is the size-tiered one with runs of tables of a limited size.
fn compaction(given: &Pairs) -> Pairs {
    let is_incremental = given.iter().any(|(key, class)| {
        key.plain() == "class"
            && without_package(&class.plain(), STRATEGY_PACKAGE) == "IncrementalCompactionStrategy"
    });
    let kept = given.iter().filter(|(key, _)| match key.plain().as_str() {
        "sstable_size_in_mb" | "space_amplification_goal" => !is_incremental,
        "enable_optimized_twcs_queries" => false,
        _ => true,
    });
    kept.map(|(key, value)| match key.plain().as_str() {
        "class" if is_incremental => (key.clone(), string("SizeTieredCompactionStrategy")),
        _ => (key.clone(), value.clone()),
    })
    .collect()
}

fn compression(given: &Pairs) -> Pairs {
    let has_class = given.iter().any(|(key, _)| key.plain() == "class");
    let mut changed = Pairs::new();
    for (key, value) in given {
        match key.plain().as_str() {
            "sstable_compression" if !has_class => {
                let class = value.plain();
                if class.is_empty() {
                    return vec![(string("enabled"), string("false"))];
                }
                changed.push((string("class"), string(compressor(&class))));
            }
            "class" => changed.push((key.clone(), string(compressor(&value.plain())))),
            "chunk_length_kb" => changed.push((string("chunk_length_in_kb"), value.clone())),
            "crc_check_chance" => {}
            _ => changed.push((key.clone(), value.clone())),
        }
    }
    changed
}

/// Returns the compressor of Cassandra for one that has dictionaries.
fn compressor(class: &str) -> &str {
    match without_package(class, COMPRESSOR_PACKAGE) {
        "LZ4WithDictsCompressor" => "LZ4Compressor",
        "ZstdWithDictsCompressor" => "ZstdCompressor",
        _ => class,
    }
}

fn without_package<'a>(class: &'a str, package: &str) -> &'a str {
    class.strip_prefix(package).unwrap_or(class)
}

fn string(text: &str) -> Literal {
    Literal::String(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> OptionValue {
        OptionValue::Map(pairs.iter().map(|(key, value)| (string(key), string(value))).collect())
    }

    #[test]
    fn scylla_entries_are_changed_to_cassandra_entries() {
        for (name, given, expected) in [
            (
                "compression",
                &[("sstable_compression", "org.apache.cassandra.io.compress.LZ4Compressor")][..],
                &[("class", "org.apache.cassandra.io.compress.LZ4Compressor")][..],
            ),
            (
                "compression",
                &[("chunk_length_kb", "4"), ("sstable_compression", "ZstdWithDictsCompressor")],
                &[("chunk_length_in_kb", "4"), ("class", "ZstdCompressor")],
            ),
            (
                "compression",
                &[("class", "LZ4WithDictsCompressor"), ("crc_check_chance", "1.0")],
                &[("class", "LZ4Compressor")],
            ),
            ("compression", &[("sstable_compression", "")], &[("enabled", "false")]),
            (
                "compaction",
                &[
                    ("class", "IncrementalCompactionStrategy"),
                    ("min_threshold", "2"),
                    ("space_amplification_goal", "1.5"),
                    ("sstable_size_in_mb", "1000"),
                ],
                &[("class", "SizeTieredCompactionStrategy"), ("min_threshold", "2")],
            ),
            (
                "compaction",
                &[
                    ("class", "TimeWindowCompactionStrategy"),
                    ("enable_optimized_twcs_queries", "true"),
                ],
                &[("class", "TimeWindowCompactionStrategy")],
            ),
        ] {
            assert_eq!(cassandra_form(name, &map(given)), Some(map(expected)), "{given:?}");
        }
    }

    #[test]
    fn cassandra_entries_are_kept() {
        for (name, given) in [
            ("compression", &[("class", "LZ4Compressor"), ("chunk_length_in_kb", "4")][..]),
            ("compression", &[("class", "Zip"), ("sstable_compression", "Zip")]),
            (
                "compaction",
                &[("class", "LeveledCompactionStrategy"), ("sstable_size_in_mb", "160")],
            ),
            ("caching", &[("sstable_compression", "LZ4Compressor")]),
        ] {
            assert_eq!(cassandra_form(name, &map(given)), None, "{given:?}");
        }
    }
}
