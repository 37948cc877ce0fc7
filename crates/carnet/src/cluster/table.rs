//! `cassandra://user:password@host/keyspace.table?option=value&…`: a table of another application.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use carnet_base::Result;
use carnet_store_cql::{CqlOptions, ForeignCluster};

use super::open::read_secret;
use super::reach::Reach;
use super::url_options::wrong;

/// Those of a database's [options](super::OPTIONS) that concern the connection to the cluster.
const OPTIONS_OF_REACH: [&str; 10] = [
    "local_dc",
    "consistency",
    "password_file",
    "ca",
    "cert",
    "key",
    "check_names",
    "keepalive",
    "request_timeout",
    "threads",
];

/// Default timeout of a request: a page of a large table may take longer than any request of a
/// database, and no client waits for it.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(12);

/// A table of a cluster, named by a URL. Its `Debug` and `Display` forms omit secrets.
#[derive(Clone, Debug)]
pub struct TableUrl {
    cql: CqlOptions,
    password_file: Option<PathBuf>,
    keyspace: String,
    table: String,
}

impl TableUrl {
    /// Parses a URL. Names are case-sensitive and unquoted, as the cluster stores them.
    ///
    /// # Errors
    ///
    /// `Invalid` with the reason, which never contains a password.
    pub fn parse(text: &str) -> Result<Self> {
        let (Reach { mut cql, password_file }, given) = Reach::parse(text)?;
        given.nothing_left(|name| OPTIONS_OF_REACH.contains(&name))?;
        let (keyspace, table) = match cql.keyspace.split_once('.') {
            Some((keyspace, table)) if !keyspace.is_empty() && !table.is_empty() => {
                (keyspace.to_owned(), table.to_owned())
            }
            _ => return Err(wrong("a table is missing: cassandra://host/keyspace.table")),
        };
        cql.keyspace.clone_from(&keyspace);
        if !text.contains("request_timeout=") {
            cql.request_timeout = REQUEST_TIMEOUT;
        }
        Ok(Self { cql, password_file, keyspace, table })
    }

    /// Returns the keyspace.
    #[must_use]
    pub fn keyspace(&self) -> &str {
        &self.keyspace
    }

    /// Returns the table.
    #[must_use]
    pub fn table(&self) -> &str {
        &self.table
    }

    /// Connects to the cluster.
    ///
    /// # Errors
    ///
    /// `Invalid` for invalid options; `Unavailable` if no node answers or the password file cannot
    /// be read.
    pub async fn connect(&self) -> Result<ForeignCluster> {
        let mut options = self.cql.clone();
        if let (Some(path), Some(credentials)) = (&self.password_file, &mut options.credentials) {
            credentials.password = read_secret(path)?;
        }
        ForeignCluster::connect(&options).await
    }
}

impl fmt::Display for TableUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cql, keyspace, table, .. } = self;
        write!(f, "cassandra://{}/{keyspace}.{table}", cql.contact_points.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::OPTIONS;

    fn error(text: &str) -> String {
        TableUrl::parse(text).unwrap_err().to_string()
    }

    #[test]
    fn url_names_a_table() {
        let url = TableUrl::parse(
            "cassandra://ann:s3cret@h1:9043,h2/Shop.Orders?local_dc=dc1&consistency=local_quorum\
             &ca=/tls/ca.pem&request_timeout=9s&threads=2",
        )
        .unwrap();
        assert_eq!((url.keyspace(), url.table()), ("Shop", "Orders"));
        assert_eq!(url.cql.local_datacenter.as_deref(), Some("dc1"));
        assert_eq!(url.to_string(), "cassandra://h1:9043,h2/Shop.Orders");
        assert!(!format!("{url:?}").contains("s3cret"));
    }

    #[test]
    fn malformed_url_is_explained() {
        for (url, why) in [
            ("cassandra://h/shop", "a table is missing"),
            ("cassandra://h/shop.", "a table is missing"),
            ("cassandra://h/.orders", "a table is missing"),
            ("cassandra://h", "a keyspace is missing"),
            ("postgres://h/shop.orders", "cassandra://"),
            ("cassandra://h/shop.orders?consistency=one", "would miss"),
            ("cassandra://ann:s3cret@h/shop.orders?colour=red", "unknown option"),
        ] {
            let error = error(url);
            assert!(error.contains(why) && !error.contains("s3cret"), "{url}: {error}");
        }
    }

    #[test]
    fn database_options_are_refused_for_tables() {
        let error = error("cassandra://h/shop.orders?replication=1");
        assert!(error.contains("unknown option \"replication\""), "{error}");
        for (name, what) in OPTIONS {
            assert_eq!(error.contains(what), OPTIONS_OF_REACH.contains(name), "{name}: {error}");
        }
    }
}
