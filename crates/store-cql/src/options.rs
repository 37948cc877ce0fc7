//! What has to be known to reach a cluster.

use std::time::Duration;

use carnet_base::{Error, Result};

/// The longest name that Cassandra takes for a keyspace.
const KEYSPACE_LEN_MAX: usize = 48;

/// How to reach a cluster, and which keyspace of it is Carnet's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CqlOptions {
    /// Nodes to ask for the others: `host` or `host:port`, the port being 9042 where none is named.
    pub contact_points: Vec<String>,
    /// The keyspace, private to one database: lower-case letters, digits and `_`, at most 48, the
    /// first a letter. It is created where it is absent.
    pub keyspace: String,
    /// How many replicas there are in each datacenter. Used when the keyspace is created, and
    /// only then.
    pub replication_factor: u16,
    /// The datacenter whose nodes are asked first.
    pub local_datacenter: Option<String>,
    /// Who asks, where the cluster wants to know.
    pub credentials: Option<Credentials>,
    /// How long a request may take before its outcome is unknown. Longer than the cluster's own
    /// time-outs (2 s for a write), so that the cluster speaks first.
    pub request_timeout: Duration,
    /// How many threads speak to the cluster.
    pub threads: usize,
}

/// A role of the cluster.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// Its name.
    pub user: String,
    /// Its password, which no message contains.
    pub password: String,
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credentials").field("user", &self.user).finish_non_exhaustive()
    }
}

impl CqlOptions {
    /// Options with three replicas, 12 s for a request and one thread.
    #[must_use]
    pub fn new(contact_points: Vec<String>, keyspace: impl Into<String>) -> Self {
        Self {
            contact_points,
            keyspace: keyspace.into(),
            replication_factor: 3,
            local_datacenter: None,
            credentials: None,
            request_timeout: Duration::from_secs(12),
            threads: 1,
        }
    }

    /// Fails where no cluster could be reached by these.
    pub(crate) fn check(&self) -> Result<()> {
        let Self { keyspace, .. } = self;
        let is_name = keyspace.starts_with(|first: char| first.is_ascii_lowercase())
            && keyspace.len() <= KEYSPACE_LEN_MAX
            && keyspace.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
        if !is_name {
            return Err(Error::invalid(format!(
                "{keyspace:?} cannot name a keyspace: lower-case letters, digits and _, at most \
                 {KEYSPACE_LEN_MAX}, a letter first"
            )));
        }
        if self.contact_points.is_empty() {
            return Err(Error::invalid("a cluster needs at least one contact point"));
        }
        if self.replication_factor == 0 || self.threads == 0 || self.request_timeout.is_zero() {
            return Err(Error::invalid(
                "replication factor, threads and the time-out of a request must not be 0",
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keyspace(name: &str) -> CqlOptions {
        CqlOptions::new(vec!["127.0.0.1".into()], name)
    }

    #[test]
    fn a_keyspaces_name_needs_no_quotes() {
        assert!(keyspace("carnet_2").check().is_ok());
        for name in ["", "2nd", "Carnet", "a b", "a\"b", "a;b", "é", "_a", &"a".repeat(49)] {
            assert!(keyspace(name).check().is_err(), "{name}");
        }
    }

    #[test]
    fn options_that_reach_nobody_are_refused() {
        assert!(CqlOptions::new(Vec::new(), "carnet").check().is_err());
        assert!(CqlOptions { replication_factor: 0, ..keyspace("carnet") }.check().is_err());
        assert!(CqlOptions { threads: 0, ..keyspace("carnet") }.check().is_err());
    }

    #[test]
    fn a_password_is_not_shown() {
        let credentials = Credentials { user: "ann".into(), password: "s3cret".into() };
        let shown = format!("{credentials:?}");
        assert!(shown.contains("ann") && !shown.contains("s3cret"), "{shown}");
    }
}
