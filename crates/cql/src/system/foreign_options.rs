//! Options of ScyllaDB. An option that changes no answer is accepted without effect, with a warning, and
//! not stored: the description of a schema has Cassandra's options only.

use super::setting::plain;
use crate::ast::{OptionValue, Options};

/// Options of tables and views that change no answer.
const TABLE: [&str; 3] = ["paxos_grace_seconds", "synchronous_updates", "tombstone_gc"];
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
                plain(key).eq_ignore_ascii_case("enabled")
                    && plain(value).eq_ignore_ascii_case("true")
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

/// Returns the names of the options that are without effect.
pub(crate) fn without_effect(options: &Options) -> Vec<&str> {
    let is_foreign = |name: &str, value: &OptionValue| {
        is_of_keyspace(name) || of_table(name, value) == Some(Foreign::WithoutEffect)
    };
    let found = options.iter().filter(|(name, value)| is_foreign(name.as_str(), value));
    found.map(|(name, _)| name.as_str()).collect()
}
