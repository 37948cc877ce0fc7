//! Options of a connection to a cluster.

use std::path::PathBuf;
use std::time::Duration;

use carnet_base::{Error, Result};

/// Maximum length of a keyspace name in Cassandra.
const KEYSPACE_LEN_MAX: usize = 48;

/// Options of a connection to a cluster and a keyspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CqlOptions {
    /// Nodes to contact first, as `host` or `host:port`; the default port is 9042.
    pub contact_points: Vec<String>,
    /// Keyspace of the database: lower-case letters, digits and `_`, at most 48, beginning with a
    /// letter. It is private to one database, and is created if absent.
    pub keyspace: String,
    /// Replication of a new keyspace; ignored for an existing one.
    pub replication: Replication,
    /// Datacenter whose nodes are preferred.
    pub local_datacenter: Option<String>,
    /// The replicas of which a majority must answer.
    pub quorum: Quorum,
    /// Role and password, if the cluster requires them.
    pub credentials: Option<Credentials>,
    /// Files for encrypted connections; `None` disables encryption.
    pub tls: Option<TlsFiles>,
    /// Time after which a node that does not answer is left: its connections are closed, and the
    /// requests on them end. A node that hangs, unlike one that died, keeps its connections open.
    pub keepalive: Duration,
    /// Time after which the outcome of a request is unknown. It should exceed the cluster's own
    /// timeouts (2 s for a write), so that the cluster answers first.
    pub request_timeout: Duration,
    /// Number of threads of the driver.
    pub threads: usize,
}

/// Replication of a new keyspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Replication {
    /// This number of replicas in each existing datacenter.
    EveryDatacenter(u16),
    /// Number of replicas in each of these datacenters.
    Datacenters(Vec<(String, u16)>),
}

/// The replicas of which a majority must answer. All processes of a database must use the same
/// setting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Quorum {
    /// All replicas, in any datacenter.
    #[default]
    OfAll,
    /// The replicas in the local datacenter, which must be the same for every process: majorities
    /// of two datacenters may not overlap.
    OfLocalDatacenter,
}

/// PEM files for encrypted connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// Authorities, one of which has signed each node's certificate.
    pub ca: PathBuf,
    /// Whether a node's certificate must name the IP address by which the node is called.
    pub checks_names: bool,
    /// Certificate and private key of the client, if nodes require them.
    pub identity: Option<(PathBuf, PathBuf)>,
}

/// A role of the cluster.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// Name of the role.
    pub user: String,
    /// Password of the role, which no message contains.
    pub password: String,
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credentials").field("user", &self.user).finish_non_exhaustive()
    }
}

impl CqlOptions {
    /// Creates options with three replicas, a keepalive of 1 s, a request timeout of 4 s and one
    /// thread.
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
            keepalive: Duration::from_secs(1),
            request_timeout: Duration::from_secs(4),
            threads: 1,
        }
    }

    /// Returns the consistency in the words of the URL, with the datacenter that it belongs to.
    pub(crate) fn consistency(&self) -> String {
        match (self.quorum, &self.local_datacenter) {
            (Quorum::OfLocalDatacenter, Some(name)) => format!("local_quorum in {name}"),
            (Quorum::OfLocalDatacenter, None) => "local_quorum".to_owned(),
            (Quorum::OfAll, _) => "quorum".to_owned(),
        }
    }

    /// Rejects options that cannot work with any cluster.
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

    /// Like [`CqlOptions::check`], but for any keyspace, which must exist and is only read.
    pub(crate) fn check_reach(&self) -> Result<()> {
        if self.contact_points.is_empty() {
            return Err(Error::invalid("a cluster needs at least one contact point"));
        }
        if self.threads == 0 || self.request_timeout.is_zero() || self.keepalive.is_zero() {
            return Err(Error::invalid("threads, keepalive and request timeout must not be 0"));
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
        // The names go into a statement between quotes.
        let is_name = |name: &str| {
            !name.is_empty()
                && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.".contains(&b))
        };
        match each.iter().find(|(name, _)| !is_name(name)) {
            Some((name, _)) => Err(Error::invalid(format!("{name:?} is not a datacenter name"))),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn consistency_is_told_in_the_words_of_the_url() {
        let options = CqlOptions::new(Vec::new(), "ks");
        assert_eq!(options.consistency(), "quorum");
        let local_datacenter = Some("dc1".to_owned());
        let options = CqlOptions { local_datacenter, ..options };
        assert_eq!(options.consistency(), "quorum", "requests ask all nodes");
        let options = CqlOptions { quorum: Quorum::OfLocalDatacenter, ..options };
        assert_eq!(options.consistency(), "local_quorum in dc1");
    }

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
    fn unusable_options_are_refused() {
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
