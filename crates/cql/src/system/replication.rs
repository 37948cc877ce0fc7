//! Replication of keyspaces: the accepted settings, and the form in which they are stored and
//! shown.
//!
//! Carnet keeps one copy in one data centre, but drivers route every statement by these settings:
//! the Java driver builds no token map and the Rust driver completes no schema change while one
//! keyspace has settings that it cannot parse. The stored form therefore always equals that of
//! Cassandra 5.0:
//!
//! ```text
//! given                                                  stored
//! SimpleStrategy                                         SimpleStrategy, replication_factor: 1
//! NetworkTopologyStrategy                                NetworkTopologyStrategy, datacenter1: 1
//! NetworkTopologyStrategy, replication_factor: 3         NetworkTopologyStrategy, datacenter1: 3
//! NetworkTopologyStrategy, datacenter1: 3                the same
//! ```
//!
//! Classes are stored with their package. Source: `prepareOptions` and `validateOptions` of
//! Cassandra's `SimpleStrategy` and `NetworkTopologyStrategy`, with `default_keyspace_rf: 1`.

use std::collections::BTreeMap;

use crate::cql_error::CqlError;

/// Settings of a keyspace's `replication`.
pub(crate) type Replication = BTreeMap<String, String>;

/// Package of Cassandra's replication strategies.
pub(super) const LOCATOR: &str = "org.apache.cassandra.locator.";

const CLASS: &str = "class";
const FACTOR: &str = "replication_factor";
/// Default replication factor, Cassandra's `default_keyspace_rf`.
const DEFAULT_FACTOR: u32 = 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Strategy {
    Simple,
    NetworkTopology,
}

impl Strategy {
    const ALL: [Self; 2] = [Self::Simple, Self::NetworkTopology];

    const fn name(self) -> &'static str {
        match self {
            Self::Simple => "SimpleStrategy",
            Self::NetworkTopology => "NetworkTopologyStrategy",
        }
    }

    fn find(class: &str) -> Option<Self> {
        let name = class.strip_prefix(LOCATOR).unwrap_or(class);
        Self::ALL.into_iter().find(|known| known.name() == name)
    }

    /// Returns the stored form, with one factor under `key`.
    fn stored(self, key: &str, factor: u32) -> Replication {
        let class = (CLASS.to_owned(), format!("{LOCATOR}{}", self.name()));
        [class, (key.to_owned(), factor.to_string())].into()
    }
}

/// Returns the stored form of the settings of `CREATE KEYSPACE`, or of `ALTER KEYSPACE` with the
/// `previous` settings.
///
/// # Errors
///
/// `Config` for a class, data centre or option that does not exist, and for a factor that is not a
/// number from 1; `Invalid` for `LocalStrategy`.
pub(crate) fn resolve(
    keyspace: &str,
    given: &Replication,
    previous: Option<&Replication>,
    data_center: &str,
) -> Result<Replication, CqlError> {
    let class = given
        .get(CLASS)
        .ok_or_else(|| CqlError::config("Missing replication strategy class: give a 'class'"))?;
    let strategy = Strategy::find(class).ok_or_else(|| unknown_class(class))?;
    let key = match strategy {
        Strategy::Simple => FACTOR,
        Strategy::NetworkTopology => data_center,
    };
    let mut factor = None;
    for (name, text) in given.iter().filter(|(name, _)| *name != CLASS) {
        if name == key {
            factor = Some(parse_factor(name, text)?);
        } else if name == FACTOR {
            let expanded = parse_factor(name, text)?;
            // A data centre keeps its factor when `replication_factor` is expanded over it.
            let kept = previous.and_then(|previous| read_factor(previous, key));
            factor = factor.or(kept).or(Some(expanded));
        } else if strategy == Strategy::Simple || text != "0" {
            return Err(CqlError::config(format!(
                "Unrecognized strategy option {{{name}}} passed to {} for keyspace {keyspace}; \
                 use '{key}'",
                strategy.name()
            )));
        }
    }
    if factor.is_none() && given.len() > 1 {
        return Err(CqlError::config(format!(
            "keyspace {keyspace} has no replica: give '{key}' a factor of at least 1"
        )));
    }
    let factor = factor.or_else(|| previous.and_then(|previous| inherited(previous, key)));
    Ok(strategy.stored(key, factor.unwrap_or(DEFAULT_FACTOR)))
}

/// Returns the factor that `ALTER KEYSPACE` inherits if it sets only a class.
fn inherited(previous: &Replication, key: &str) -> Option<u32> {
    read_factor(previous, key).or_else(|| read_factor(previous, FACTOR))
}

/// Returns the form in which stored settings are shown. Settings that an earlier version stored in
/// a form that drivers cannot parse are repaired.
pub(crate) fn repaired(stored: &Replication, data_center: &str) -> Replication {
    let class = stored.get(CLASS).and_then(|class| Strategy::find(class));
    let strategy = class.unwrap_or(Strategy::Simple);
    let factor = match strategy {
        Strategy::Simple => read_factor(stored, FACTOR),
        Strategy::NetworkTopology => {
            let any = || {
                stored.keys().filter(|key| *key != CLASS).find_map(|key| read_factor(stored, key))
            };
            inherited(stored, data_center).or_else(any)
        }
    };
    let key = if strategy == Strategy::Simple { FACTOR } else { data_center };
    strategy.stored(key, factor.unwrap_or(DEFAULT_FACTOR))
}

fn read_factor(settings: &Replication, key: &str) -> Option<u32> {
    settings.get(key).and_then(|text| parse_factor(key, text).ok())
}

fn parse_factor(name: &str, text: &str) -> Result<u32, CqlError> {
    if text.contains('/') {
        return Err(CqlError::config(format!(
            "{name} '{text}': transient replication is not enabled on this node"
        )));
    }
    match text.parse::<i32>().map(u32::try_from) {
        Ok(Ok(factor @ 1..)) => Ok(factor),
        Ok(_) => Err(CqlError::config(format!("{name} must be at least 1, found {text}"))),
        Err(_) => Err(CqlError::config(format!("{name} must be a 32-bit integer, found {text}"))),
    }
}

fn unknown_class(class: &str) -> CqlError {
    if class.strip_prefix(LOCATOR).unwrap_or(class) == "LocalStrategy" {
        return CqlError::invalid(
            "Unable to use given strategy class: LocalStrategy is reserved for internal use.",
        );
    }
    let class = if class.contains('.') { class.to_owned() } else { format!("{LOCATOR}{class}") };
    let known = Strategy::ALL.map(Strategy::name).join(" and ");
    CqlError::config(format!(
        "Unable to find replication strategy class '{class}'; there are {known}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CqlErrorKind;

    const DC: &str = "datacenter1";

    fn settings(pairs: &[(&str, &str)]) -> Replication {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    fn with_class(class: &str, pairs: &[(&str, &str)]) -> Replication {
        let mut settings = settings(pairs);
        settings.insert(CLASS.into(), class.into());
        settings
    }

    fn simple(factor: &str) -> Replication {
        with_class("org.apache.cassandra.locator.SimpleStrategy", &[(FACTOR, factor)])
    }

    fn network(factor: &str) -> Replication {
        with_class("org.apache.cassandra.locator.NetworkTopologyStrategy", &[(DC, factor)])
    }

    #[test]
    fn created_replication_is_stored_as_cassandra_does() {
        for (class, given, expected) in [
            ("SimpleStrategy", &[][..], simple("1")),
            ("SimpleStrategy", &[(FACTOR, "3")], simple("3")),
            ("org.apache.cassandra.locator.SimpleStrategy", &[(FACTOR, "+2")], simple("2")),
            ("NetworkTopologyStrategy", &[], network("1")),
            ("NetworkTopologyStrategy", &[(FACTOR, "3")], network("3")),
            ("NetworkTopologyStrategy", &[(DC, "2")], network("2")),
            ("NetworkTopologyStrategy", &[(DC, "2"), (FACTOR, "3")], network("2")),
            ("NetworkTopologyStrategy", &[(DC, "2"), ("elsewhere", "0")], network("2")),
            ("org.apache.cassandra.locator.NetworkTopologyStrategy", &[], network("1")),
        ] {
            let given = with_class(class, given);
            assert_eq!(resolve("ks", &given, None, DC), Ok(expected), "{given:?}");
        }
    }

    #[test]
    fn altered_replication_keeps_known_factors() {
        for (class, given, previous, expected) in [
            ("SimpleStrategy", &[][..], simple("3"), simple("3")),
            ("SimpleStrategy", &[], network("3"), simple("1")),
            ("SimpleStrategy", &[(FACTOR, "2")], network("3"), simple("2")),
            ("NetworkTopologyStrategy", &[], simple("3"), network("3")),
            ("NetworkTopologyStrategy", &[], network("3"), network("3")),
            ("NetworkTopologyStrategy", &[(FACTOR, "2")], network("3"), network("3")),
            ("NetworkTopologyStrategy", &[(FACTOR, "2")], simple("3"), network("2")),
            ("NetworkTopologyStrategy", &[(DC, "2")], network("3"), network("2")),
        ] {
            let given = with_class(class, given);
            let altered = resolve("ks", &given, Some(&previous), DC);
            assert_eq!(altered, Ok(expected), "{given:?} over {previous:?}");
        }
    }

    #[test]
    fn wrong_replication_is_refused() {
        for (class, given, message) in [
            ("Simple", &[][..], "replication strategy class 'org.apache.cassandra.locator.Simple'"),
            ("a.SimpleStrategy", &[], "strategy class 'a.SimpleStrategy'"),
            ("", &[], "Unable to find replication strategy class"),
            ("SimpleStrategy", &[(FACTOR, "0")], "replication_factor must be at least 1, found 0"),
            ("SimpleStrategy", &[(FACTOR, "-1")], "must be at least 1, found -1"),
            ("SimpleStrategy", &[(FACTOR, "two")], "must be a 32-bit integer, found two"),
            ("SimpleStrategy", &[(FACTOR, "2147483648")], "must be a 32-bit integer"),
            ("SimpleStrategy", &[(FACTOR, "3/1")], "transient replication is not enabled"),
            (
                "SimpleStrategy",
                &[(DC, "1")],
                "Unrecognized strategy option {datacenter1} passed to SimpleStrategy for keyspace ks",
            ),
            (
                "NetworkTopologyStrategy",
                &[("dc1", "3")],
                "Unrecognized strategy option {dc1} passed to NetworkTopologyStrategy for \
                 keyspace ks; use 'datacenter1'",
            ),
            ("NetworkTopologyStrategy", &[(DC, "0")], "datacenter1 must be at least 1"),
            ("NetworkTopologyStrategy", &[("dc1", "0")], "has no replica"),
            ("NetworkTopologyStrategy", &[(FACTOR, "none")], "must be a 32-bit integer"),
        ] {
            let error = resolve("ks", &with_class(class, given), None, DC).unwrap_err();
            assert_eq!(error.kind(), &CqlErrorKind::Config, "{class} {given:?}");
            assert!(error.message().contains(message), "{error}");
        }
        let error = resolve("ks", &settings(&[(FACTOR, "1")]), None, DC).unwrap_err();
        assert_eq!(error.kind(), &CqlErrorKind::Config);
        let error = resolve("ks", &with_class("LocalStrategy", &[]), None, DC).unwrap_err();
        assert_eq!(error.kind(), &CqlErrorKind::Invalid);
    }

    #[test]
    fn stored_replication_of_older_builds_is_repaired() {
        for (stored, expected) in [
            (with_class("SimpleStrategy", &[]), simple("1")),
            (with_class("SimpleStrategy", &[(FACTOR, "0")]), simple("1")),
            (with_class("SimpleStrategy", &[(FACTOR, "3"), ("dc1", "2")]), simple("3")),
            (with_class("NetworkTopologyStrategy", &[(FACTOR, "3")]), network("3")),
            (with_class("NetworkTopologyStrategy", &[("dc1", "2"), ("dc2", "x")]), network("2")),
            (with_class("NetworkTopologyStrategy", &[(DC, "3"), ("aa", "1")]), network("3")),
            (with_class("NetworkTopologyStrategy", &[]), network("1")),
            (with_class("EverywhereStrategy", &[]), simple("1")),
            (settings(&[]), simple("1")),
            (simple("2"), simple("2")),
            (network("2"), network("2")),
        ] {
            assert_eq!(repaired(&stored, DC), expected, "{stored:?}");
        }
    }
}
