//! Protection and parts of the HTTP port.

use std::fmt;
use std::net::SocketAddr;

use carnet_base::{Error, Result};
use hyper::header::{AUTHORIZATION, HeaderMap};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::exposure::is_loopback;

/// Minimum length of a token in bytes.
const TOKEN_LEN_MIN: usize = 16;

/// Token that clients of the HTTP port show. Only its hash is kept.
#[derive(Clone)]
pub struct HttpToken([u8; 32]);

impl HttpToken {
    /// Creates a token from its text; space around it does not count.
    ///
    /// # Errors
    ///
    /// Invalid, if it is too short, or cannot be part of a header.
    pub fn new(text: &str) -> Result<Self> {
        let token = text.trim();
        if token.len() < TOKEN_LEN_MIN || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(Error::invalid(format!(
                "the token for HTTP should be one word of {TOKEN_LEN_MIN} ASCII characters or more, \
                 such as `openssl rand -hex 32` prints"
            )));
        }
        Ok(Self(hash(token.as_bytes())))
    }

    /// Returns `true` if the headers of a request have the token. The time does not depend on the place
    /// where a wrong one differs.
    fn is_shown(&self, headers: &HeaderMap) -> bool {
        bearer(headers).is_some_and(|shown| hash(shown).ct_eq(&self.0).into())
    }
}

/// Without the hash: a short token could be guessed from it.
impl fmt::Debug for HttpToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpToken").finish_non_exhaustive()
    }
}

fn hash(token: &[u8]) -> [u8; 32] {
    Sha256::digest(token).into()
}

/// Returns the token of the header `Authorization: Bearer TOKEN`.
fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    headers.get_all(AUTHORIZATION).iter().find_map(|value| {
        let (scheme, token) = value.as_bytes().trim_ascii().split_at_checked(b"Bearer ".len())?;
        scheme.eq_ignore_ascii_case(b"Bearer ").then(|| token.trim_ascii())
    })
}

/// Part of the dashboard that the HTTP port has. Health and metrics are always there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dashboard {
    /// Every page, and the console.
    #[default]
    Full,
    /// All pages but the console: only statements of the pages run.
    WithoutConsole,
    /// No page, no log-in and no statement.
    Off,
}

/// Protection and parts of the HTTP port.
pub(crate) struct Monitoring {
    /// Whether connections are over TLS.
    pub(crate) over_tls: bool,
    /// Token that a request must show.
    token: Option<HttpToken>,
    /// Names by which browsers reach the dashboard, beside the usual ones.
    pub(crate) hosts: Vec<String>,
    pub(crate) dashboard: Dashboard,
}

impl Monitoring {
    /// On loopback the port is as plain as without certificates.
    pub(crate) fn new(
        http: Option<SocketAddr>,
        has_tls: bool,
        token: Option<HttpToken>,
        (hosts, dashboard): (Vec<String>, Dashboard),
    ) -> Self {
        let is_exposed = http.is_some_and(|http| !is_loopback(http));
        Self { over_tls: has_tls && is_exposed, token, hosts, dashboard }
    }

    /// Returns `true` if requests must show a token.
    pub(crate) const fn has_token(&self) -> bool {
        self.token.is_some()
    }

    /// Returns `true` if the headers of a request have the token, or none is required.
    pub(crate) fn admits(&self, headers: &HeaderMap) -> bool {
        self.token.as_ref().is_none_or(|token| token.is_shown(headers))
    }
}

#[cfg(test)]
mod tests {
    use hyper::header::{HeaderName, HeaderValue};

    use super::*;

    const TOKEN: &str = "0123456789abcdef";

    #[test]
    fn token_is_found_in_its_header() {
        let token = HttpToken::new(&format!("{TOKEN}\n")).unwrap();
        let request = |name: &str, value: &str| {
            let mut headers = HeaderMap::new();
            let name: HeaderName = name.parse().unwrap();
            headers.insert(name, HeaderValue::from_str(value).unwrap());
            headers
        };
        for right in ["Bearer", "bearer", " BEARER "] {
            let shown = request("Authorization", &format!("{right} {TOKEN}"));
            assert!(token.is_shown(&shown), "{right}");
        }
        for wrong in [
            "Bearer".to_owned(),
            "Bearer ".into(),
            format!("Basic {TOKEN}"),
            format!("Bearer {TOKEN}0"),
            format!("Bearer {}", &TOKEN[1..]),
        ] {
            assert!(!token.is_shown(&request("Authorization", &wrong)), "{wrong}");
        }
        assert!(!token.is_shown(&request("X", &format!("Bearer {TOKEN}"))));
        assert!(!token.is_shown(&HeaderMap::new()));
    }

    #[test]
    fn tls_is_for_addresses_beyond_loopback() {
        let over_tls = |http: &str, has_tls| {
            Monitoring::new(Some(http.parse().unwrap()), has_tls, None, Default::default()).over_tls
        };
        assert!(over_tls("0.0.0.0:1", true) && over_tls("10.0.0.1:1", true));
        assert!(!over_tls("127.0.0.1:1", true) && !over_tls("[::1]:1", true));
        assert!(!over_tls("0.0.0.0:1", false));
    }

    #[test]
    fn weak_tokens_are_refused() {
        for weak in ["", "0123456789abcde", "0123456789 abcdef", "0123456789abcdé"] {
            let error = HttpToken::new(weak).unwrap_err().to_string();
            assert!(error.contains("16 ASCII characters"), "{error}");
        }
        assert!(!format!("{:?}", HttpToken::new(TOKEN).unwrap()).contains("0123"));
    }
}
