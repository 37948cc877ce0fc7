//! Options of a cluster's URL, and the decoding of its parts.

use std::fmt;
use std::time::Duration;

use carnet_base::{Error, Result};

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
    ("keepalive", "silence after which a node of the cluster is left (1s)"),
    ("request_timeout", "timeout of a request to the cluster (4s)"),
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
    ("leader_timeout", "timeout of a call that finds no leader (4500ms)"),
    ("sweep", "pause between garbage collections (1m), or never"),
    (
        "cell_cache",
        "memory for the cache of cells read or written by this process (64MiB), or none",
    ),
    ("encoding", "commit-table encoding of a new database: v3 (the default) or v2"),
];

pub(super) fn wrong(why: impl fmt::Display) -> Error {
    Error::invalid(format!("the cluster's URL: {why}"))
}

/// The options of a URL that were not used yet.
pub(super) struct Given(Vec<(String, String)>);

impl Given {
    pub(super) fn parse(query: &str) -> Result<Self> {
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

    pub(super) fn take(&mut self, name: &str) -> Option<String> {
        debug_assert!(OPTIONS.iter().any(|(known, _)| *known == name), "{name} is not listed");
        let at = self.0.iter().position(|(known, _)| known == name)?;
        Some(self.0.swap_remove(at).1)
    }

    pub(super) fn flag(&mut self, name: &str) -> Result<Option<bool>> {
        match self.take(name).as_deref() {
            None => Ok(None),
            Some("false") => Ok(Some(false)),
            Some("true") => Ok(Some(true)),
            Some(other) => Err(wrong(format!("{name} {other:?}: true or false"))),
        }
    }

    pub(super) fn duration(&mut self, name: &str) -> Result<Option<Duration>> {
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
    pub(super) fn duration_or(&mut self, name: &str, zero: &str) -> Result<Option<Duration>> {
        if self.0.iter().any(|(known, value)| known == name && value == zero) {
            self.take(name);
            return Ok(Some(Duration::ZERO));
        }
        self.duration(name)
    }

    /// Takes a size in bytes; the word `zero` stands for zero.
    pub(super) fn bytes_or(&mut self, name: &str, zero: &str) -> Result<Option<usize>> {
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

/// Decodes a percent-encoded text.
pub(super) fn decoded(text: &str) -> Result<String> {
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
