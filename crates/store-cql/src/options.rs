//! What has to be known to reach a cluster.

use std::path::PathBuf;
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
    /// How many replicas there are. Used when the keyspace is created, and only then.
    pub replication: Replication,
    /// The datacenter whose nodes are asked first.
    pub local_datacenter: Option<String>,
    /// Of which replicas a majority has to answer.
    pub quorum: Quorum,
    /// Who asks, where the cluster wants to know.
    pub credentials: Option<Credentials>,
    /// Connections are encrypted by these, or not at all.
    pub tls: Option<TlsFiles>,
    /// How long a request may take before its outcome is unknown. Longer than the cluster's own
    /// time-outs (2 s for a write), so that the cluster speaks first.
    pub request_timeout: Duration,
    /// How many threads speak to the cluster.
    pub threads: usize,
}

/// How many replicas a new keyspace has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Replication {
    /// So many in each datacenter that there is.
    EveryDatacenter(u16),
    /// So many in each of these.
    Datacenters(Vec<(String, u16)>),
}

/// Of which replicas a majority has to answer. Every process of a database has to say the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Quorum {
    /// Of all, in whichever datacenters.
    #[default]
    OfAll,
    /// Of those in the local datacenter, which has to be the same one for every process:
    /// majorities of two datacenters need not have met.
    OfLocalDatacenter,
}

/// PEM files for encrypted connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// Authorities, one of which has signed each node's certificate.
    pub ca: PathBuf,
    /// Whether a node's certificate has to name the IP address by which the node is called.
    pub checks_names: bool,
    /// The client's certificate and its private key, where nodes ask for them.
    pub identity: Option<(PathBuf, PathBuf)>,
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
            replication: Replication::EveryDatacenter(3),
            local_datacenter: None,
            quorum: Quorum::OfAll,
            credentials: None,
            tls: None,
            request_timeout: Duration::from_secs(12),
            threads: 1,
        }
    }

    /// Refuses what no cluster could be reached by.
    ///
    /// # Errors
    ///
    /// `Invalid`.
    pub fn check(&self) -> Result<()> {
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
        self.check_reach()?;
        self.replication.check()
    }

    /// As [`CqlOptions::check`], whatever the keyspace: for one that is there and is only read.
    pub(crate) fn check_reach(&self) -> Result<()> {
        if self.contact_points.is_empty() {
            return Err(Error::invalid("a cluster needs at least one contact point"));
        }
        if self.threads == 0 || self.request_timeout.is_zero() {
            return Err(Error::invalid("threads and the time-out of a request must not be 0"));
        }
        if self.quorum == Quorum::OfLocalDatacenter && self.local_datacenter.is_none() {
            return Err(Error::invalid("a local quorum needs the name of the local_dc"));
        }
        Ok(())
    }
}

impl Replication {
    fn check(&self) -> Result<()> {
        let factors: Vec<u16> = match self {
            Self::EveryDatacenter(factor) => vec![*factor],
            Self::Datacenters(each) => each.iter().map(|(_, factor)| *factor).collect(),
        };
        if factors.is_empty() || factors.contains(&0) {
            return Err(Error::invalid("a replication factor must not be 0"));
        }
        let Self::Datacenters(each) = self else { return Ok(()) };
        // They go into a statement between quotes.
        let is_name = |name: &str| {
            !name.is_empty()
                && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.".contains(&b))
        };
        match each.iter().find(|(name, _)| !is_name(name)) {
            Some((name, _)) => Err(Error::invalid(format!("{name:?} names no datacenter"))),
            None => Ok(()),
        }
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
        assert!(CqlOptions { threads: 0, ..keyspace("carnet") }.check().is_err());
        let quorum = Quorum::OfLocalDatacenter;
        assert!(CqlOptions { quorum, ..keyspace("carnet") }.check().is_err());
        let local_datacenter = Some("dc1".into());
        assert!(CqlOptions { quorum, local_datacenter, ..keyspace("carnet") }.check().is_ok());
    }

    #[test]
    fn replicas_are_in_datacenters_that_can_be_named() {
        let of = |each: &[(&str, u16)]| {
            let each = each.iter().map(|(name, factor)| ((*name).to_owned(), *factor));
            let replication = Replication::Datacenters(each.collect());
            CqlOptions { replication, ..keyspace("carnet") }.check()
        };
        assert!(of(&[("dc1", 3), ("us-east_1.a", 2)]).is_ok());
        for bad in [&[][..], &[("dc1", 0)], &[("", 3)], &[("dc'1", 3)]] {
            assert!(of(bad).is_err(), "{bad:?}");
        }
        let replication = Replication::EveryDatacenter(0);
        assert!(CqlOptions { replication, ..keyspace("carnet") }.check().is_err());
    }

    #[test]
    fn a_password_is_not_shown() {
        let credentials = Credentials { user: "ann".into(), password: "s3cret".into() };
        let shown = format!("{credentials:?}");
        assert!(shown.contains("ann") && !shown.contains("s3cret"), "{shown}");
    }
}
