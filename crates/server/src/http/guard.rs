//! Decides whether a request for the dashboard may come from a page of another site.
//!
//! | attack | guard |
//! | --- | --- |
//! | DNS rebinding: another site's name is made to lead to this address | `Host` is a known name |
//! | a form or script of another site sends a POST with the user's cookie | `Content-Type` is JSON, `Origin` is this site, `Sec-Fetch-Site` is `same-origin` |
//!
//! Browsers send `Origin` with every POST. Programs need not.

use std::net::IpAddr;

use hyper::header::{CONTENT_TYPE, HOST, HeaderMap, HeaderName, ORIGIN};
use hyper::http::uri::Authority;

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Names by which browsers may reach the dashboard.
#[derive(Clone, Debug, Default)]
pub(super) struct Hosts(Vec<String>);

impl Hosts {
    /// Creates the list from the names of the settings. `localhost`, addresses of this machine's loopback and
    /// the address of the connection itself are known without.
    pub(super) fn new(names: &[String]) -> Self {
        Self(names.iter().map(|name| name.to_ascii_lowercase()).collect())
    }

    /// Checks the `Host` of a request that has arrived at an address of this machine.
    ///
    /// # Errors
    ///
    /// The reason why the request is refused.
    pub(super) fn check(&self, headers: &HeaderMap, local: IpAddr) -> Result<(), String> {
        let Some(host) = only(headers, &HOST) else {
            return Err("the request needs one Host header".to_owned());
        };
        let known = host.parse::<Authority>().is_ok_and(|host| self.knows(host.host(), local));
        if known {
            return Ok(());
        }
        Err(format!(
            "this server does not know itself by the name {host:?}: use localhost or its address, or \
             add the name to server.http_hosts"
        ))
    }

    fn knows(&self, host: &str, local: IpAddr) -> bool {
        let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
        if let Ok(address) = bare.parse::<IpAddr>() {
            let address = address.to_canonical();
            return address.is_loopback()
                || address == local.to_canonical()
                || self.0.iter().any(|name| name == bare);
        }
        let name = bare.trim_end_matches('.').to_ascii_lowercase();
        name == "localhost" || self.0.contains(&name)
    }
}

/// Checks that a POST comes from the dashboard, or from no page at all.
///
/// # Errors
///
/// The reason why the request is refused.
pub(super) fn check_post(headers: &HeaderMap) -> Result<(), &'static str> {
    let essence = only(headers, &CONTENT_TYPE).and_then(|given| given.split(';').next());
    if !essence.is_some_and(|given| given.trim().eq_ignore_ascii_case("application/json")) {
        return Err("the request should have the header Content-Type: application/json");
    }
    let foreign = "the request comes from a page of another site";
    if headers.contains_key(SEC_FETCH_SITE) && only(headers, &SEC_FETCH_SITE) != Some("same-origin")
    {
        return Err(foreign);
    }
    if headers.contains_key(ORIGIN) {
        let origin = only(headers, &ORIGIN).and_then(|origin| origin.split_once("://"));
        let host = only(headers, &HOST);
        let is_same = origin
            .zip(host)
            .is_some_and(|((_, authority), host)| authority.eq_ignore_ascii_case(host));
        if !is_same {
            return Err(foreign);
        }
    }
    Ok(())
}

/// Returns the value of a header that a request has once.
fn only<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value)
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    fn headers(given: &[(&str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in given {
            let name: HeaderName = name.parse().unwrap();
            headers.append(name, HeaderValue::from_str(value).unwrap());
        }
        headers
    }

    #[test]
    fn only_known_hosts_are_answered() {
        let hosts = Hosts::new(&["DB1.example.com".to_owned(), "203.0.113.7".to_owned()]);
        let local: IpAddr = "10.0.0.9".parse().unwrap();
        let check = |host: &str| hosts.check(&headers(&[("host", host)]), local);
        for known in [
            "localhost",
            "LOCALHOST:9180",
            "localhost.:1",
            "127.0.0.1:9180",
            "127.8.0.1",
            "[::1]:9180",
            "10.0.0.9:9180",
            "db1.example.com:443",
            "Db1.Example.com",
            "203.0.113.7",
        ] {
            check(known).unwrap();
        }
        for foreign in [
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "10.0.0.8",
            "[::2]",
            "x@evil.example",
            "db1.example.com.evil.example",
            "",
            "a b",
        ] {
            assert!(check(foreign).is_err(), "{foreign}");
        }
        let error = check("evil.example").unwrap_err();
        assert!(error.contains("server.http_hosts"), "{error}");
        assert!(hosts.check(&headers(&[]), local).is_err());
        let two = headers(&[("host", "localhost"), ("host", "evil.example")]);
        assert!(hosts.check(&two, local).is_err(), "two names");
    }

    #[test]
    fn posts_of_other_sites_are_refused() {
        let json = ("content-type", "application/json; charset=utf-8");
        let host = ("host", "localhost:9180");
        let check = |more: &[(&str, &str)]| check_post(&headers(&[&[host, json], more].concat()));
        check(&[]).unwrap();
        check(&[("origin", "http://localhost:9180"), ("sec-fetch-site", "same-origin")]).unwrap();
        for foreign in [
            &[("origin", "http://evil.example")][..],
            &[("origin", "http://localhost:9181")],
            &[("origin", "null")],
            &[("origin", "http://localhost:9180"), ("origin", "http://evil.example")],
            &[("sec-fetch-site", "cross-site")],
            &[("sec-fetch-site", "same-site")],
            &[("sec-fetch-site", "none")],
        ] {
            assert_eq!(check(foreign), Err("the request comes from a page of another site"));
        }
        for simple in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"] {
            let form = headers(&[host, ("content-type", simple)]);
            assert!(check_post(&form).is_err(), "{simple}");
        }
        assert!(check_post(&headers(&[host])).is_err(), "no type");
    }
}
