//! The part of a URL that says how a cluster is reached.

use std::path::PathBuf;

use carnet_base::Result;
use carnet_store_cql::{CqlOptions, Credentials, Quorum, Replication, TlsFiles};

use super::url_options::{Given, decoded, wrong};

/// Scheme of a cluster's URL.
pub(super) const SCHEME: &str = "cassandra://";

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
        let mut given = Given::parse(query)?;
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
    if let Some(keepalive) = given.duration("keepalive")? {
        cql.keepalive = keepalive;
    }
    if let Some(timeout) = given.duration("request_timeout")? {
        cql.request_timeout = timeout;
    }
    if let Some(text) = given.take("threads") {
        cql.threads =
            text.parse().map_err(|_| wrong(format!("threads {text:?} is not a number")))?;
    }
    Ok(())
}

pub(super) fn replication(text: &str) -> Result<Replication> {
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
