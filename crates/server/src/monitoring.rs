//! Protection of the HTTP port for monitoring.

use std::fmt;
use std::net::SocketAddr;

use carnet_base::{Error, Result};
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

    /// Returns `true` if the header of a request has the token. The time does not depend on the place
    /// where a wrong one differs.
    fn is_shown(&self, head: &[u8]) -> bool {
        bearer(head).is_some_and(|shown| hash(shown).ct_eq(&self.0).into())
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
fn bearer(head: &[u8]) -> Option<&[u8]> {
    head.split(|byte| *byte == b'\n').skip(1).find_map(|line| {
        let colon = line.iter().position(|byte| *byte == b':')?;
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        let (scheme, token) = value.split_at_checked(b"Bearer ".len())?;
        let is_bearer =
            name.eq_ignore_ascii_case(b"Authorization") && scheme.eq_ignore_ascii_case(b"Bearer ");
        is_bearer.then(|| token.trim_ascii())
    })
}

/// Protection of the HTTP port.
pub(crate) struct Monitoring {
    /// Whether connections are over TLS.
    pub(crate) over_tls: bool,
    /// Token that a request must show.
    token: Option<HttpToken>,
}

impl Monitoring {
    /// On loopback the port is as plain as without certificates.
    pub(crate) fn new(http: Option<SocketAddr>, has_tls: bool, token: Option<HttpToken>) -> Self {
        let is_exposed = http.is_some_and(|http| !is_loopback(http));
        Self { over_tls: has_tls && is_exposed, token }
    }

    /// Returns `true` if the header of a request has the token, or none is required.
    pub(crate) fn admits(&self, head: &[u8]) -> bool {
        self.token.as_ref().is_none_or(|token| token.is_shown(head))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "0123456789abcdef";

    #[test]
    fn token_is_found_in_its_header() {
        let token = HttpToken::new(&format!("{TOKEN}\n")).unwrap();
        let request = |header: &str| format!("GET / HTTP/1.1\r\nHost: x\r\n{header}\r\n\r\n");
        for right in ["Authorization: Bearer", "authorization:bearer", "AUTHORIZATION:  BEARER "] {
            assert!(token.is_shown(request(&format!("{right} {TOKEN}")).as_bytes()), "{right}");
        }
        for wrong in [
            String::new(),
            "Authorization: Bearer".into(),
            "Authorization: Bearer ".into(),
            format!("Authorization: Basic {TOKEN}"),
            format!("Authorization: Bearer {TOKEN}0"),
            format!("Authorization: Bearer {}", &TOKEN[1..]),
            format!("X: Bearer {TOKEN}"),
        ] {
            assert!(!token.is_shown(request(&wrong).as_bytes()), "{wrong}");
        }
        let line = format!("Authorization: Bearer {TOKEN} HTTP/1.1\r\n\r\n");
        assert!(!token.is_shown(line.as_bytes()), "the first line is no header");
    }

    #[test]
    fn tls_is_for_addresses_beyond_loopback() {
        let over_tls = |http: &str, has_tls| {
            Monitoring::new(Some(http.parse().unwrap()), has_tls, None).over_tls
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
