//! Parser of `cassandra://user:password@host:9042,host2/keyspace?option=value&…`, without I/O.
//!
//! Names, passwords and values are percent-decoded after the URL is split, so that they may contain
//! `/`, `@` or `&`. [`OPTIONS`] describes each option.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use carnet_base::{Encoding, Error, Result};
use carnet_sequencer::{LeaseOptions, Options};
use carnet_store_cql::{CqlOptions, Credentials, Quorum, Replication, TlsFiles};

/// Maximum of a time option, 30 days. Each is a timeout or an interval.
const TIME_MILLIS_MAX: u64 = 30 * 86_400_000;

/// All options of a cluster URL, with their descriptions.
pub const OPTIONS: &[(&str, &str)] = &[
    ("local_dc", "datacenter whose nodes are preferred"),
    ("consistency", "quorum (the default), or local_quorum if all processes set the same local_dc"),
    ("replication", "replication of a new keyspace: 3, or dc1:3,dc2:3"),
    ("password_file", "file with the password, instead of a password in the URL"),
    ("ca", "TLS to the cluster: PEM file with the authorities of its nodes"),
    ("cert", "TLS to the cluster: PEM file with this client's certificate; needs key"),
    ("key", "TLS to the cluster: PEM file with this client's private key; needs cert"),
    ("check_names", "false: certificates of nodes need not contain their IP addresses"),
    ("request_timeout", "timeout of a request to the cluster (12s)"),
    ("threads", "number of threads for requests to the cluster (1)"),
    (
        "listen",
        "ip:port to listen on for other processes of this database; without it there are none",
    ),
    ("advertise", "host:port that other processes connect to, if it differs from listen"),
    ("secret", "shared secret of the processes of this database"),
    ("secret_file", "file with the secret"),
    ("peer_cert", "TLS between processes: PEM file with this one's certificate; needs peer_key"),
    ("peer_key", "TLS between processes: PEM file with this one's private key; needs peer_cert"),
    (
        "peer_ca",
        "TLS between processes: PEM file with the authority of all certificates; makes secret optional",
    ),
    ("insecure", "true: other processes need no secret; only on a loopback address"),
    ("lease", "silence after which a leader is replaced (1s)"),
    ("patience", "timeout of a call that finds no leader (10s)"),
    ("sweep", "pause between garbage collections (1m), or never"),
    (
        "cell_cache",
        "memory for the cache of cells read or written by this process (64MiB), or none",
    ),
    ("encoding", "commit-table encoding of a new database: v3 (the default) or v2"),
];

const SCHEME: &str = "cassandra://";

/// A secret or a password: in the URL, or in a file that is read on use.
#[derive(Clone, PartialEq, Eq)]
pub enum Secret {
    /// The secret itself.
    Text(String),
    /// Path of the file. Surrounding white space in the file is ignored.
    File(PathBuf),
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(_) => f.write_str("Text(…)"),
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
        }
    }
}

/// How the other processes of the database reach this one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peers {
    /// Address to listen on.
    pub listen: SocketAddr,
    /// Address that other processes connect to, if it differs from `listen`.
    pub advertise: Option<String>,
    /// Secret that other processes must present. Without it and without TLS every connection is
    /// accepted, which needs `insecure=true`.
    pub secret: Option<Secret>,
    /// TLS files; connections are not encrypted if `None`.
    pub tls: Option<PeerTls>,
}

/// PEM files for encrypted connections between processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerTls {
    /// Certificate of this process.
    pub cert: PathBuf,
    /// Private key of this process.
    pub key: PathBuf,
    /// Authority that signed the certificates of all processes.
    pub ca: Option<PathBuf>,
}

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

/// Common part of database and table URLs: the connection to the cluster.
pub(super) struct Reach {
    /// Options for the cluster; the URL's path is the keyspace.
    pub(super) cql: CqlOptions,
    pub(super) password_file: Option<PathBuf>,
}

impl Reach {
    /// Parses a URL; also returns the options that it did not use.
    pub(super) fn parse(text: &str) -> Result<(Self, Given)> {
        let rest =
            text.strip_prefix(SCHEME).ok_or_else(|| wrong("it must begin with cassandra://"))?;
        let (rest, query) = match rest.split_once('?') {
            Some((rest, query)) => (rest, query),
            None => (rest, ""),
        };
        let (user, rest) = match rest.rsplit_once('@') {
            Some((user, rest)) => (Some(user), rest),
            None => (None, rest),
        };
        let (hosts, keyspace) = rest
            .split_once('/')
            .ok_or_else(|| wrong("a keyspace is missing: cassandra://host/keyspace"))?;
        let hosts = hosts.split(',').map(host).collect::<Result<Vec<_>>>()?;
        let mut cql = CqlOptions::new(hosts, decoded(keyspace)?);
        let mut given = Given::of(query)?;
        let password_file = given.take("password_file").map(PathBuf::from);
        cql.credentials =
            user.map(|user| credentials(user, password_file.is_some())).transpose()?;
        if password_file.is_some() && cql.credentials.is_none() {
            return Err(wrong("password_file needs a user: cassandra://user@host/…"));
        }
        cql_options(&mut cql, &mut given)?;
        Ok((Self { cql, password_file }, given))
    }
}

pub(super) fn wrong(why: impl fmt::Display) -> Error {
    Error::invalid(format!("the cluster's URL: {why}"))
}

/// Parses `host`, `host:port` or `[ipv6]:port`.
fn host(text: &str) -> Result<String> {
    let text = decoded(text)?;
    let (name, port) = match text.rsplit_once(':') {
        // An IPv6 address without a port has colons only inside its brackets.
        Some((name, port)) if !port.ends_with(']') => (name, Some(port)),
        _ => (&*text, None),
    };
    let is_bare = name.contains(':') && !(name.starts_with('[') && name.ends_with(']'));
    if name.is_empty() || is_bare {
        return Err(wrong(format!("{text:?} is not a host; write an IPv6 address in brackets")));
    }
    if port.is_some_and(|port| port.parse::<u16>().is_err()) {
        return Err(wrong(format!("{text:?} has a port that is not between 0 and 65535")));
    }
    Ok(text)
}

fn credentials(text: &str, has_file: bool) -> Result<Credentials> {
    let (user, password) = match text.split_once(':') {
        Some((user, password)) => (user, Some(password)),
        None => (text, None),
    };
    if password.is_some() == has_file {
        let why = "a user needs a password, either in the URL or in password_file";
        return Err(wrong(why));
    }
    let password = password.map(decoded).transpose()?.unwrap_or_default();
    Ok(Credentials { user: decoded(user)?, password })
}

fn cql_options(cql: &mut CqlOptions, given: &mut Given) -> Result<()> {
    cql.local_datacenter = given.take("local_dc");
    if let Some(text) = given.take("consistency") {
        cql.quorum = match &*text {
            "quorum" => Quorum::OfAll,
            "local_quorum" => Quorum::OfLocalDatacenter,
            _ => {
                return Err(wrong(format!(
                    "consistency {text:?}: quorum or local_quorum; with less, a read would miss \
                     committed data"
                )));
            }
        };
    }
    let identity = match (given.take("cert"), given.take("key")) {
        (Some(cert), Some(key)) => Some((cert.into(), key.into())),
        (None, None) => None,
        _ => return Err(wrong("cert and key belong together")),
    };
    let checks_names = given.flag("check_names")?;
    cql.tls = match given.take("ca") {
        Some(ca) => {
            let checks_names = checks_names.unwrap_or(true);
            Some(TlsFiles { ca: ca.into(), checks_names, identity })
        }
        None if identity.is_some() || checks_names.is_some() => {
            return Err(wrong("cert, key and check_names need ca"));
        }
        None => None,
    };
    if let Some(timeout) = given.duration("request_timeout")? {
        cql.request_timeout = timeout;
    }
    if let Some(text) = given.take("threads") {
        cql.threads =
            text.parse().map_err(|_| wrong(format!("threads {text:?} is not a number")))?;
    }
    Ok(())
}

fn replication(text: &str) -> Result<Replication> {
    let factor = |text: &str| {
        text.parse().map_err(|_| wrong(format!("replication {text:?}: 3, or dc1:3,dc2:3")))
    };
    if !text.contains(':') {
        return Ok(Replication::EveryDatacenter(factor(text)?));
    }
    let each = text.split(',').map(|part| {
        let (name, count) = part.rsplit_once(':').unwrap_or((part, ""));
        Ok((name.to_owned(), factor(count)?))
    });
    Ok(Replication::Datacenters(each.collect::<Result<_>>()?))
}

fn peers(given: &mut Given) -> Result<Option<Peers>> {
    let listen = given.take("listen");
    let advertise = given.take("advertise");
    let secret = match (given.take("secret"), given.take("secret_file")) {
        (Some(_), Some(_)) => return Err(wrong("give secret or secret_file, not both")),
        (Some(text), None) => Some(Secret::Text(text)),
        (None, file) => file.map(|file| Secret::File(file.into())),
    };
    let is_insecure = given.flag("insecure")?.unwrap_or(false);
    let tls = peer_tls(given)?;
    let Some(listen) = listen else {
        if advertise.is_some() || secret.is_some() || tls.is_some() || is_insecure {
            let why = "advertise, secret, insecure and TLS between processes need listen=ip:port";
            return Err(wrong(why));
        }
        return Ok(None);
    };
    let listen: SocketAddr = listen
        .parse()
        .map_err(|_| wrong(format!("listen {listen:?} is not an ip:port such as 10.0.0.1:9044")))?;
    let has_authority = tls.as_ref().is_some_and(|tls| tls.ca.is_some());
    match (secret.is_some() || tls.is_some(), is_insecure) {
        (true, true) => return Err(wrong("insecure contradicts a secret and TLS")),
        (true, false) if secret.is_none() && !has_authority => {
            return Err(wrong("TLS without peer_ca accepts every client: set peer_ca or a secret"));
        }
        (false, false) => {
            return Err(wrong("listen needs secret_file=FILE, or secret=…"));
        }
        (false, true) if !listen.ip().is_loopback() => {
            return Err(wrong(format!(
                "insecure needs a loopback address: any client that reaches {listen} could write"
            )));
        }
        _ => {}
    }
    if listen.ip().is_unspecified() && advertise.is_none() {
        return Err(wrong(format!(
            "listen={listen} means every address; set advertise=host:port to the one that others reach"
        )));
    }
    Ok(Some(Peers { listen, advertise, secret, tls }))
}

fn peer_tls(given: &mut Given) -> Result<Option<PeerTls>> {
    let ca = given.take("peer_ca").map(PathBuf::from);
    match (given.take("peer_cert"), given.take("peer_key")) {
        (Some(cert), Some(key)) => Ok(Some(PeerTls { cert: cert.into(), key: key.into(), ca })),
        (None, None) if ca.is_none() => Ok(None),
        _ => Err(wrong("peer_cert and peer_key belong together, and peer_ca to both")),
    }
}

fn sequencer(given: &mut Given) -> Result<Options> {
    let mut options = Options::default();
    if let Some(timeout) = given.duration("lease")? {
        let renew_every = timeout / 4;
        options.lease = LeaseOptions { timeout, renew_every, ..options.lease };
    }
    if let Some(patience) = given.duration("patience")? {
        options.leader_timeout = patience;
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

/// The options of a URL that were not used yet.
pub(super) struct Given(Vec<(String, String)>);

impl Given {
    fn of(query: &str) -> Result<Self> {
        let mut given: Vec<(String, String)> = Vec::new();
        for part in query.split('&').filter(|part| !part.is_empty()) {
            let (name, value) = part
                .split_once('=')
                .ok_or_else(|| wrong(format!("option {part:?} has no value: name=value")))?;
            if given.iter().any(|(known, _)| known == name) {
                return Err(wrong(format!("option {name} is given twice")));
            }
            let value = decoded(value)?;
            if value.is_empty() {
                return Err(wrong(format!("option {name} is empty")));
            }
            given.push((name.to_owned(), value));
        }
        Ok(Self(given))
    }

    fn take(&mut self, name: &str) -> Option<String> {
        debug_assert!(OPTIONS.iter().any(|(known, _)| *known == name), "{name} is not listed");
        let at = self.0.iter().position(|(known, _)| known == name)?;
        Some(self.0.swap_remove(at).1)
    }

    fn flag(&mut self, name: &str) -> Result<Option<bool>> {
        match self.take(name).as_deref() {
            None => Ok(None),
            Some("false") => Ok(Some(false)),
            Some("true") => Ok(Some(true)),
            Some(other) => Err(wrong(format!("{name} {other:?}: true or false"))),
        }
    }

    fn duration(&mut self, name: &str) -> Result<Option<Duration>> {
        let Some(text) = self.take(name) else { return Ok(None) };
        let unit = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (number, unit) = text.split_at(unit);
        let millis = match unit {
            "ms" => Some(1),
            "s" => Some(1_000),
            "m" => Some(60_000),
            _ => None,
        };
        let number: Option<u64> = number.parse().ok();
        let millis = number.zip(millis).and_then(|(number, unit)| number.checked_mul(unit));
        match millis {
            Some(millis @ 1..=TIME_MILLIS_MAX) => Ok(Some(Duration::from_millis(millis))),
            Some(1..) => {
                Err(wrong(format!("{name} {text:?} is longer than the maximum of 30 days")))
            }
            _ => Err(wrong(format!("{name} {text:?} is not a time such as 250ms, 10s or 2m"))),
        }
    }

    /// Like [`Given::duration`], but the word `zero` stands for zero.
    fn duration_or(&mut self, name: &str, zero: &str) -> Result<Option<Duration>> {
        if self.0.iter().any(|(known, value)| known == name && value == zero) {
            self.take(name);
            return Ok(Some(Duration::ZERO));
        }
        self.duration(name)
    }

    /// Takes a size in bytes; the word `zero` stands for zero.
    fn bytes_or(&mut self, name: &str, zero: &str) -> Result<Option<usize>> {
        let Some(text) = self.take(name) else { return Ok(None) };
        if text == zero {
            return Ok(Some(0));
        }
        let units = [("KiB", 10), ("MiB", 20), ("GiB", 30)];
        let bytes = units.into_iter().find_map(|(unit, shift)| {
            let number: usize = text.strip_suffix(unit)?.parse().ok()?;
            number.checked_mul(1 << shift).filter(|bytes| *bytes > 0)
        });
        match bytes {
            Some(bytes) => Ok(Some(bytes)),
            None => {
                Err(wrong(format!("{name} {text:?} is neither a size such as 64MiB nor {zero}")))
            }
        }
    }

    /// Fails if an unknown option is left, and lists the known ones.
    pub(super) fn nothing_left(&self, is_one: impl Fn(&str) -> bool) -> Result<()> {
        let Some((name, _)) = self.0.first() else { return Ok(()) };
        let mut message = format!("unknown option {name:?}. The options are:");
        for (name, what) in OPTIONS.iter().filter(|(name, _)| is_one(name)) {
            message.push_str(&format!("\n  {name:16} {what}"));
        }
        Err(wrong(message))
    }
}

fn decoded(text: &str) -> Result<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        if *first != b'%' {
            bytes.push(*first);
            rest = behind;
            continue;
        }
        let byte = behind
            .get(..2)
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()))
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        // The text around it may be a password, so that the error must not show it.
        let byte = byte.ok_or_else(|| wrong("a % is not followed by two hex digits"))?;
        bytes.push(byte);
        rest = &behind[2..];
    }
    String::from_utf8(bytes).map_err(|_| wrong("percent-encoded bytes are not UTF-8"))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use carnet_base::{Rng, SeededRng};

    use super::*;

    fn error(text: &str) -> String {
        ClusterUrl::parse(text).unwrap_err().to_string()
    }

    #[test]
    fn url_sets_every_option() {
        let url = ClusterUrl::parse(
            "cassandra://ann:a%2Fb%40c@h1:9043,h2,[::1]:1/bank?local_dc=dc1&consistency=local_quorum\
             &replication=dc1:3,dc2:2&ca=/tls/ca.pem&cert=/tls/c.pem&key=/tls/k.pem&check_names=false\
             &request_timeout=9s&threads=2&listen=0.0.0.0:7000&advertise=here:7000\
             &secret_file=/etc/s&peer_ca=/p/ca&peer_cert=/p/c&peer_key=/p/k&lease=4s&patience=250ms&sweep=90s\
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
            ("cassandra://h/ks?patience=99999999999999999999s", "not a time"),
            ("cassandra://h/ks?patience=5000000000m", "maximum of 30 days"),
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
