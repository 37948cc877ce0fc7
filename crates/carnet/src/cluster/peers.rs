//! The part of a URL that says how other processes of the database reach this one.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use carnet_base::Result;

use super::url_options::{Given, wrong};

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

/// Takes the options for other processes; `None` if this process is alone.
pub(super) fn peers(given: &mut Given) -> Result<Option<Peers>> {
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
