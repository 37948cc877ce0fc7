//! Parser of `cassandra://user:password@host:9042,host2/keyspace?option=value&…`, without I/O.
//!
//! Names, passwords and values are percent-decoded after the URL is split, so that they may contain
//! `/`, `@` or `&`. [`OPTIONS`](crate::cluster::OPTIONS) describes each option.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use carnet_base::{Encoding, Result};
use carnet_sequencer::{LeaseOptions, Options};
use carnet_store_cql::CqlOptions;

use super::peers::{Peers, peers};
use super::reach::{Reach, SCHEME, replication};
use super::url_options::{Given, decoded, wrong};

/// A database over a cluster, named by a URL. Its `Display` form omits secrets.
#[derive(Clone, Debug)]
pub struct ClusterUrl {
    /// Options for connecting to the cluster, without a password that is stored in a file.
    pub cql: CqlOptions,
    /// File with the password.
    pub password_file: Option<PathBuf>,
    /// Connections to other processes; `None` if this process is alone.
    pub peers: Option<Peers>,
    /// Options of the election, and the commit-table encoding of a new database.
    pub sequencer: Options,
}

impl fmt::Display for ClusterUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CqlOptions { contact_points, keyspace, .. } = &self.cql;
        write!(f, "{SCHEME}{}/{keyspace}", contact_points.join(","))
    }
}

impl ClusterUrl {
    /// Returns `true` if a text has the scheme of a cluster URL; it may still be malformed.
    #[must_use]
    pub fn is_one(text: &str) -> bool {
        text.starts_with(SCHEME)
    }

    /// Returns `true` if a text, which may be malformed, has a password or a secret itself, rather than
    /// the name of a file with it.
    #[must_use]
    pub fn has_secret(text: &str) -> bool {
        let (address, query) = text.split_once('?').unwrap_or((text, ""));
        let address = address.split_once("://").map_or(address, |(_, address)| address);
        let has_password = address.rsplit_once('@').is_some_and(|(user, _)| user.contains(':'));
        let is_secret = |option: &str| {
            let name = option.split('=').next().unwrap_or_default();
            decoded(name).is_ok_and(|name| name == "secret")
        };
        has_password || query.split('&').any(is_secret)
    }

    /// Parses a URL.
    ///
    /// # Errors
    ///
    /// `Invalid` with the reason, which never contains a password.
    pub fn parse(text: &str) -> Result<Self> {
        let (mut url, mut given) = Reach::parse(text)?;
        url.cql.replication = match given.take("replication") {
            Some(text) => replication(&text)?,
            None => url.cql.replication,
        };
        let Reach { cql, password_file } = url;
        let peers = peers(&mut given)?;
        let sequencer = sequencer(&mut given)?;
        given.nothing_left(|_| true)?;
        cql.check()?;
        Ok(Self { cql, password_file, peers, sequencer })
    }
}

impl ClusterUrl {
    /// Returns a sentence for each timeout that is not shorter than the next one outward: the wait
    /// for a node, a request, the leader, and a statement if it has one; and for a lease that is not
    /// shorter than the wait for the leader.
    #[must_use]
    pub fn misordered_timeouts(&self, statement: Option<Duration>) -> Vec<String> {
        let mut timeouts = vec![
            ("keepalive", self.cql.keepalive),
            ("request_timeout", self.cql.request_timeout),
            ("leader_timeout", self.sequencer.leader_timeout),
        ];
        timeouts.extend(statement.map(|timeout| ("limits.statement_timeout", timeout)));
        let misordered = |pair: &[(&str, Duration)]| match pair {
            [(inner, short), (outer, long)] if short >= long => Some(format!(
                "{inner} of {short:?} is not shorter than {outer} of {long:?}: {outer} ends before a \
                 failure within it is known"
            )),
            _ => None,
        };
        let lease = [("lease", self.sequencer.lease.timeout), timeouts[2]];
        timeouts.windows(2).chain([&lease[..]]).filter_map(misordered).collect()
    }
}

fn sequencer(given: &mut Given) -> Result<Options> {
    let mut options = Options::default();
    if let Some(timeout) = given.duration("lease")? {
        let renew_every = timeout / 4;
        options.lease = LeaseOptions { timeout, renew_every, ..options.lease };
    }
    if let Some(timeout) = given.duration("leader_timeout")? {
        options.leader_timeout = timeout;
    }
    if let Some(every) = given.duration_or("sweep", "never")? {
        options.sweep.every = every;
    }
    if let Some(bytes) = given.bytes_or("cell_cache", "none")? {
        options.cell_cache_bytes = bytes;
    }
    if let Some(text) = given.take("encoding") {
        options.encoding = match &*text {
            "v3" => Encoding::V3,
            "v2" => Encoding::V2,
            _ => return Err(wrong(format!("encoding {text:?}: v3 or v2"))),
        };
    }
    Ok(options)
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use carnet_base::{Rng, SeededRng};
    use carnet_store_cql::{Quorum, Replication};

    use super::super::peers::{PeerTls, Secret};
    use super::super::url_options::OPTIONS;
    use super::*;

    fn error(text: &str) -> String {
        ClusterUrl::parse(text).unwrap_err().to_string()
    }

    #[test]
    fn secrets_in_urls_are_found() {
        for text in [
            "cassandra://ann:s3cret@h/ks",
            "cassandra://ann:@h/ks.t?colour=red",
            "cassandra://h/ks?listen=127.0.0.1:0&secret=x",
            "cassandra://h/ks?s%65cret=x",
            "ann:s3cret@h/ks",
        ] {
            assert!(ClusterUrl::has_secret(text), "{text}");
        }
        for text in
            ["cassandra://ann@h:1,[::1]:2/ks?password_file=f&secret_file=g", "cassandra://h", ""]
        {
            assert!(!ClusterUrl::has_secret(text), "{text}");
        }
    }

    #[test]
    fn url_sets_every_option() {
        let url = ClusterUrl::parse(
            "cassandra://ann:a%2Fb%40c@h1:9043,h2,[::1]:1/bank?local_dc=dc1&consistency=local_quorum\
             &replication=dc1:3,dc2:2&ca=/tls/ca.pem&cert=/tls/c.pem&key=/tls/k.pem&check_names=false\
             &keepalive=700ms&request_timeout=9s&threads=2&listen=0.0.0.0:7000&advertise=here:7000\
             &secret_file=/etc/s&peer_ca=/p/ca&peer_cert=/p/c&peer_key=/p/k&lease=4s&leader_timeout=250ms&sweep=90s\
             &cell_cache=3MiB&encoding=v2",
        )
        .unwrap();
        let CqlOptions { contact_points, keyspace, credentials, .. } = &url.cql;
        assert_eq!(contact_points, &["h1:9043", "h2", "[::1]:1"]);
        assert_eq!(keyspace, "bank");
        let credentials = credentials.as_ref().unwrap();
        assert_eq!((&*credentials.user, &*credentials.password), ("ann", "a/b@c"));
        assert_eq!(url.cql.local_datacenter.as_deref(), Some("dc1"));
        assert_eq!(url.cql.quorum, Quorum::OfLocalDatacenter);
        let each = vec![("dc1".to_owned(), 3), ("dc2".to_owned(), 2)];
        assert_eq!(url.cql.replication, Replication::Datacenters(each));
        let tls = url.cql.tls.as_ref().unwrap();
        assert_eq!((tls.ca.as_path(), tls.checks_names), (Path::new("/tls/ca.pem"), false));
        assert_eq!(tls.identity, Some(("/tls/c.pem".into(), "/tls/k.pem".into())));
        assert_eq!((url.cql.request_timeout, url.cql.threads), (Duration::from_secs(9), 2));
        assert_eq!(url.cql.keepalive, Duration::from_millis(700));
        let peers = url.peers.as_ref().unwrap();
        assert_eq!(peers.listen, "0.0.0.0:7000".parse().unwrap());
        assert_eq!(peers.advertise.as_deref(), Some("here:7000"));
        assert_eq!(peers.secret, Some(Secret::File("/etc/s".into())));
        let (cert, key, ca) = ("/p/c".into(), "/p/k".into(), Some("/p/ca".into()));
        assert_eq!(peers.tls, Some(PeerTls { cert, key, ca }));
        assert_eq!(url.sequencer.lease.timeout, Duration::from_secs(4));
        assert_eq!(url.sequencer.lease.renew_every, Duration::from_secs(1));
        assert_eq!(url.sequencer.leader_timeout, Duration::from_millis(250));
        assert_eq!(url.sequencer.sweep.every, Duration::from_secs(90));
        assert_eq!(url.sequencer.cell_cache_bytes, 3 << 20);
        let none = ClusterUrl::parse("cassandra://h/ks?cell_cache=none").unwrap();
        assert_eq!(none.sequencer.cell_cache_bytes, 0);
        let never = ClusterUrl::parse("cassandra://h/ks?sweep=never").unwrap();
        assert_eq!(never.sequencer.sweep.every, Duration::ZERO);
        assert_eq!(url.sequencer.encoding, Encoding::V2);
        assert_eq!(url.to_string(), "cassandra://h1:9043,h2,[::1]:1/bank");
    }

    #[test]
    fn timeouts_have_an_order() {
        let misordered = |url: &str, statement| {
            ClusterUrl::parse(url).unwrap().misordered_timeouts(statement).len()
        };
        let statement = Some(Duration::from_secs(5));
        assert_eq!(misordered("cassandra://h/ks", statement), 0);
        assert_eq!(misordered("cassandra://h/ks?request_timeout=6s", statement), 1);
        assert_eq!(misordered("cassandra://h/ks?keepalive=1m&leader_timeout=60m", statement), 2);
        assert_eq!(misordered("cassandra://h/ks?keepalive=1m&leader_timeout=60m", None), 1);
        assert_eq!(misordered("cassandra://h/ks?lease=10s", statement), 1);
    }

    #[test]
    fn short_url_uses_defaults() {
        let url = ClusterUrl::parse("cassandra://127.0.0.1/ks").unwrap();
        assert_eq!(url.cql, CqlOptions::new(vec!["127.0.0.1".into()], "ks"));
        assert_eq!(url.peers, None);
    }

    #[test]
    fn unknown_option_error_lists_all_options() {
        let error = error("cassandra://h/ks?colour=red");
        assert!(error.contains("\"colour\""), "{error}");
        for (name, what) in OPTIONS {
            assert!(error.contains(name) && error.contains(what), "{name} in {error}");
        }
    }

    #[test]
    fn malformed_url_is_explained() {
        for (url, why) in [
            ("cassandra://h", "a keyspace is missing"),
            ("cassandra:///ks", "not a host"),
            ("cassandra://h,/ks", "not a host"),
            ("cassandra://::1/ks", "brackets"),
            ("cassandra://h:70000/ks", "port"),
            ("cassandra://h/Ks", "keyspace"),
            ("cassandra://h/a%zz", "hex digits"),
            ("cassandra://h/a%f", "hex digits"),
            ("cassandra://h/%ff", "UTF-8"),
            ("cassandra://ann@h/ks", "needs a password"),
            ("cassandra://ann:x@h/ks?password_file=f", "needs a password"),
            ("cassandra://h/ks?password_file=f", "needs a user"),
            ("cassandra://h/ks?threads", "no value"),
            ("cassandra://h/ks?threads=", "empty"),
            ("cassandra://h/ks?threads=two", "not a number"),
            ("cassandra://h/ks?threads=0", "must not be 0"),
            ("cassandra://h/ks?lease=1s&lease=2s", "twice"),
            ("cassandra://h/ks?lease=1h", "not a time"),
            ("cassandra://h/ks?cell_cache=64", "neither a size"),
            ("cassandra://h/ks?cell_cache=0MiB", "neither a size"),
            ("cassandra://h/ks?cell_cache=99999999999999999999GiB", "neither a size"),
            ("cassandra://h/ks?lease=0s", "not a time"),
            ("cassandra://h/ks?leader_timeout=99999999999999999999s", "not a time"),
            ("cassandra://h/ks?leader_timeout=5000000000m", "maximum of 30 days"),
            ("cassandra://h/ks?lease=43201m", "maximum of 30 days"),
            ("cassandra://h/ks?consistency=one", "would miss"),
            ("cassandra://h/ks?consistency=local_quorum", "local_dc"),
            ("cassandra://h/ks?replication=dc1:x", "dc1:3,dc2:3"),
            ("cassandra://h/ks?replication=0", "must not be 0"),
            ("cassandra://h/ks?encoding=v1", "v3 or v2"),
            ("cassandra://h/ks?cert=c&ca=a", "belong together"),
            ("cassandra://h/ks?cert=c&key=k", "need ca"),
            ("cassandra://h/ks?check_names=false", "need ca"),
            ("cassandra://h/ks?secret=x", "need listen"),
            ("cassandra://h/ks?listen=10.0.0.1:1", "needs secret_file"),
            ("cassandra://h/ks?peer_cert=c&peer_key=k", "need listen"),
            ("cassandra://h/ks?listen=10.0.0.1:1&peer_cert=c&secret=x", "belong together"),
            ("cassandra://h/ks?listen=10.0.0.1:1&peer_ca=c&secret=x", "belong together"),
            ("cassandra://h/ks?listen=10.0.0.1:1&peer_cert=c&peer_key=k", "accepts every client"),
            ("cassandra://h/ks?listen=here:1&secret=x", "not an ip:port"),
            ("cassandra://h/ks?listen=10.0.0.1:1&insecure=true", "loopback"),
            ("cassandra://h/ks?listen=127.0.0.1:1&insecure=yes", "true or false"),
            ("cassandra://h/ks?listen=127.0.0.1:1&insecure=true&secret=x", "contradicts"),
            ("cassandra://h/ks?listen=127.0.0.1:1&secret_file=f&secret=x", "not both"),
            ("cassandra://h/ks?listen=0.0.0.0:1&secret=x", "advertise"),
        ] {
            let error = error(url);
            assert!(error.contains(why), "{url}: {error}");
        }
    }

    #[test]
    fn secrets_are_not_shown() {
        let url = "cassandra://ann:s3cret@h/ks?listen=127.0.0.1:1&secret=hush";
        let read = ClusterUrl::parse(url).unwrap();
        for shown in [read.to_string(), format!("{read:?}"), error(&format!("{url}&x=y"))] {
            assert!(!shown.contains("s3cret") && !shown.contains("hush"), "{shown}");
        }
    }

    #[test]
    fn mutated_urls_never_panic() {
        let good = "cassandra://a:b@h:1,[::1]:2/ks?listen=1.1.1.1:1&secret=%41&replication=d:1";
        for seed in 0..20_000 {
            let mut rng = SeededRng::new(seed);
            let mut bytes = good.as_bytes().to_vec();
            for _ in 0..rng.below(6) {
                let at = usize::try_from(rng.below(bytes.len() as u64)).unwrap();
                bytes[at] = b":/@?&=%,[]0aZ"[usize::try_from(rng.below(13)).unwrap()];
            }
            // Some of the texts are valid.
            let _ = ClusterUrl::parse(std::str::from_utf8(&bytes).unwrap());
        }
    }
}
