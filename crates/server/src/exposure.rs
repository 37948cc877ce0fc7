//! Protection that ports need beyond loopback, where other machines reach them.
//!
//! | port | beyond loopback it needs |
//! | --- | --- |
//! | CQL | users, and TLS unless passwords in clear are permitted |
//! | HTTP | a token, and TLS unless passwords in clear are permitted |

use std::net::SocketAddr;

use carnet_base::{Error, Result};

/// Addresses of a server's ports, and their protection.
#[derive(Clone, Copy, Debug)]
pub struct Exposure {
    /// Address for CQL.
    pub listen: SocketAddr,
    /// Address for HTTP.
    pub http: Option<SocketAddr>,
    /// Whether clients log in.
    pub has_users: bool,
    /// Whether there is a certificate.
    pub has_tls: bool,
    /// Whether clients of HTTP show a token.
    pub has_http_token: bool,
    /// Whether passwords may cross the network in clear.
    pub insecure_plaintext: bool,
}

impl Exposure {
    /// Checks that ports which other machines reach are protected.
    ///
    /// # Errors
    ///
    /// Invalid, with the missing protection.
    pub fn check(&self) -> Result<()> {
        let is_open = |address: SocketAddr| !is_loopback(address);
        let in_clear = !self.has_tls && !self.insecure_plaintext;
        let listen = self.listen;
        if is_open(listen) && !self.has_users {
            return Err(Error::invalid(format!(
                "refusing to listen on {listen} without passwords: any client that reaches this \
                 machine could read and write the database; name a password file, or listen on \
                 127.0.0.1"
            )));
        }
        if is_open(listen) && in_clear {
            return Err(without_tls(&format!("on {listen}"), "passwords and data"));
        }
        let Some(http) = self.http.filter(|http| is_open(*http)) else { return Ok(()) };
        if !self.has_http_token {
            return Err(Error::invalid(format!(
                "refusing to listen for HTTP on {http} without a token: name a file with one \
                 (server.http_token_file, --http-token-file), or listen on 127.0.0.1"
            )));
        }
        if in_clear {
            return Err(without_tls(&format!("for HTTP on {http}"), "the token"));
        }
        Ok(())
    }
}

fn without_tls(place: &str, what: &str) -> Error {
    Error::invalid(format!(
        "refusing to listen {place} without TLS: {what} would cross the network in clear; name a \
         certificate and its key (tls.cert and tls.key, --tls-cert and --tls-key; `carnet config \
         tls-init DIR` makes some to try it), listen on 127.0.0.1, or permit it (--insecure-plaintext)"
    ))
}

/// Returns `true` if only this machine reaches an address.
pub(crate) fn is_loopback(address: SocketAddr) -> bool {
    // An IPv4 address may have the form of an IPv6 one.
    address.ip().to_canonical().is_loopback()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exposure(listen: &str, http: Option<&str>) -> Exposure {
        Exposure {
            listen: listen.parse().unwrap(),
            http: http.map(|http| http.parse().unwrap()),
            has_users: false,
            has_tls: false,
            has_http_token: false,
            insecure_plaintext: false,
        }
    }

    fn refusal(exposure: Exposure) -> String {
        exposure.check().unwrap_err().to_string()
    }

    #[test]
    fn loopback_needs_no_protection() {
        for address in ["127.0.0.1:1", "127.8.0.1:1", "[::1]:1", "[::ffff:127.0.0.1]:1"] {
            exposure(address, Some(address)).check().unwrap();
        }
    }

    #[test]
    fn cql_beyond_loopback_needs_users_and_tls() {
        for address in ["0.0.0.0:1", "[::]:1", "192.0.2.1:1", "[::ffff:192.0.2.1]:1"] {
            let open = exposure(address, None);
            assert!(refusal(open).contains("without passwords"));
            assert!(refusal(Exposure { has_tls: true, ..open }).contains("without passwords"));
            let with_users = Exposure { has_users: true, ..open };
            let error = refusal(with_users);
            assert!(error.contains(&format!("on {address} without TLS")), "{error}");
            assert!(error.contains("tls-init") && error.contains("--insecure-plaintext"));
            Exposure { has_tls: true, ..with_users }.check().unwrap();
            Exposure { insecure_plaintext: true, ..with_users }.check().unwrap();
        }
    }

    #[test]
    fn http_beyond_loopback_needs_a_token_and_tls() {
        let open = exposure("127.0.0.1:1", Some("0.0.0.0:1"));
        for protected in
            [Exposure { has_tls: true, ..open }, Exposure { insecure_plaintext: true, ..open }]
        {
            assert!(refusal(protected).contains("without a token"));
            Exposure { has_http_token: true, ..protected }.check().unwrap();
        }
        let in_clear = Exposure { has_http_token: true, ..open };
        assert!(refusal(in_clear).contains("HTTP on 0.0.0.0:1 without TLS"));
    }
}
