//! Log-in of the dashboard: by the same check of passwords, limits and logs as log-ins over CQL.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use hyper::StatusCode;
use hyper::body::Incoming;
use hyper::header::{COOKIE, HOST, HeaderMap, HeaderValue, SET_COOKIE};
use hyper::http::uri::Authority;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::Semaphore;

use super::answer::{Answer, json as answer_json, refusal};
use super::body::{Received, receive};
use super::ends::Ends;
use super::sessions::{Login, Opened, STATEMENTS_MAX};
use super::site::{Access, Site};
use crate::accounts::Owner;
use crate::auth::{Credentials, Refusal};
use crate::backend::{Backend, Client};
use crate::monitoring::Dashboard;
use crate::protocol::Version;

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Maximum length of a log-in in bytes.
const LOGIN_LEN_MAX: usize = 4 << 10;

/// Body of a log-in. Not `Debug`: passwords must not be logged.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Given {
    user: Option<String>,
    password: Option<String>,
}

/// Finds the session of a request's cookie.
pub(super) fn find<B: Backend>(
    site: &Site<B>,
    headers: &HeaderMap,
    ends: Ends,
) -> Option<Arc<Opened<B::Session>>> {
    site.sessions.find(&secret(headers, ends)?)
}

/// Answers `/api/session`: whether there is a session, and how to get one.
pub(super) fn session<B: Backend>(site: &Site<B>, headers: &HeaderMap, ends: Ends) -> Answer {
    let found = find(site, headers, ends);
    let access = site.access();
    let why = match access {
        Access::Closed(why) => Some(why),
        Access::Login | Access::Open => None,
    };
    let access = match access {
        Access::Login => "login",
        Access::Open => "open",
        Access::Closed(_) => "closed",
    };
    let body = json!({
        "version": VERSION,
        "access": access,
        "why": why,
        "console": site.shared.monitoring.dashboard == Dashboard::Full,
        "open": found.is_some(),
        "user": found.and_then(|found| found.user.clone()),
    });
    answer_json(StatusCode::OK, body.to_string())
}

/// Answers `/api/login`: begins a session, for a user's password where there are users.
pub(super) async fn login<B: Backend>(
    site: &Site<B>,
    headers: &HeaderMap,
    body: Incoming,
    ends: Ends,
) -> Answer {
    let given = match receive::<Given>(body, LOGIN_LEN_MAX, &site.shared.budget).await {
        Ok(Received { value, .. }) => value,
        Err(answer) => return answer,
    };
    if site.is_draining() {
        return refusal(StatusCode::SERVICE_UNAVAILABLE, "the server is shutting down");
    }
    let login = match site.access() {
        Access::Closed(why) => return refusal(StatusCode::FORBIDDEN, why),
        Access::Open => None,
        Access::Login => {
            let (Some(name), Some(password)) = (given.user, given.password) else {
                let why = "a log-in needs user and password";
                return refusal(StatusCode::BAD_REQUEST, why);
            };
            match verify(site, name, password, ends.peer).await {
                Ok(login) => Some(login),
                Err(refused) => return refuse(refused),
            }
        }
    };
    let name = login.as_ref().map(|login| login.proven.user.name.clone());
    let opened = open(site, login, ends.peer);
    if let Some(name) = &name {
        site.shared.logged_in(ends.peer, name, opened.as_ref().err().copied());
    }
    let opened = match opened {
        Ok(opened) => opened,
        Err(refused) => return refuse(refused),
    };
    // Log-ins of one browser replace each other.
    if let Some(earlier) = secret(headers, ends) {
        site.sessions.end(&earlier);
    }
    let Some(secret) = site.sessions.add(opened) else {
        let why = "there are too many sessions of the dashboard: try again later";
        return refusal(StatusCode::SERVICE_UNAVAILABLE, why);
    };
    let mut answer = answer_json(StatusCode::OK, json!({ "user": name }).to_string());
    set_cookie(&mut answer, headers, &secret, ends);
    answer
}

/// Answers `/api/logout`: ends the session.
pub(super) fn logout<B: Backend>(site: &Site<B>, headers: &HeaderMap, ends: Ends) -> Answer {
    if let Some(secret) = secret(headers, ends) {
        site.sessions.end(&secret);
    }
    let mut answer = answer_json(StatusCode::OK, Bytes::from_static(b"{}"));
    set_cookie(&mut answer, headers, "; Max-Age=0", ends);
    answer
}

/// Returns the secret of a request's cookie.
fn secret(headers: &HeaderMap, ends: Ends) -> Option<String> {
    let name = cookie_name(headers, ends);
    let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs =
        cookies.flat_map(|value| value.split(';')).filter_map(|one| one.split_once('='));
    let (_, secret) = pairs.find(|(given, _)| given.trim() == name)?;
    Some(secret.trim().to_owned())
}

/// Browsers send the cookies of all ports of a host to each: the name has the port. Over TLS it has the
/// prefix by which browsers take the cookie from this host alone: not from a subdomain, nor from a plain port.
fn cookie_name(headers: &HeaderMap, ends: Ends) -> String {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok());
    let port = host.and_then(|host| host.parse::<Authority>().ok()?.port_u16());
    let prefix = if ends.over_tls { "__Host-" } else { "" };
    format!("{prefix}carnet_{}", port.unwrap_or_default())
}

/// No script reads the cookie, and only pages of this site send it.
fn set_cookie(answer: &mut Answer, headers: &HeaderMap, secret: &str, ends: Ends) {
    let (name, secure) = (cookie_name(headers, ends), if ends.over_tls { "; Secure" } else { "" });
    let cookie = format!("{name}={secret}; Path=/; HttpOnly; SameSite=Strict{secure}");
    if let Ok(cookie) = HeaderValue::from_str(&cookie) {
        answer.headers_mut().insert(SET_COOKIE, cookie);
    }
}

async fn verify<B: Backend>(
    site: &Site<B>,
    name: String,
    password: String,
    peer: SocketAddr,
) -> Result<Login, Refusal> {
    let Some(authenticator) = site.shared.authenticator.as_ref().map(Arc::clone) else {
        return Err(Refusal::Wrong);
    };
    let credentials = Credentials::new(name.clone(), password.into_bytes());
    match authenticator.prove(credentials, peer.ip()).await {
        Ok(proven) => Ok(Login { authenticator, proven }),
        Err(refused) => {
            site.shared.logged_in(peer, &name, Some(refused));
            Err(refused)
        }
    }
}

fn refuse(refused: Refusal) -> Answer {
    let status = match refused {
        Refusal::Busy | Refusal::TooManyConnections => StatusCode::SERVICE_UNAVAILABLE,
        Refusal::Wrong | Refusal::NoLogin | Refusal::Shadowed => StatusCode::UNAUTHORIZED,
    };
    refusal(status, refused.why())
}

/// Opens the sessions of a user, who counts with one more connection.
fn open<B: Backend>(
    site: &Site<B>,
    login: Option<Login>,
    peer: SocketAddr,
) -> Result<Opened<B::Session>, Refusal> {
    let shared = &site.shared;
    let user = login.as_ref().map(|login| login.proven.user.clone());
    let owner = Owner::of(user.as_ref().map(|user| user.name.as_str()), peer.ip());
    let account = shared.accounts.enter(owner.clone()).ok_or(Refusal::TooManyConnections)?;
    let options = vec![
        ("DRIVER_NAME".to_owned(), "Carnet dashboard".to_owned()),
        ("DRIVER_VERSION".to_owned(), VERSION.to_owned()),
    ];
    let name = user.as_ref().map(|user| user.name.clone());
    let registration = shared.clients.register(peer, None);
    registration.ready(Version::HIGHEST, name.as_deref(), &options);
    let version = Version::HIGHEST;
    let client = Client { address: peer, user, version, options, is_watching: false };
    let watching = Client { is_watching: true, ..client.clone() };
    Ok(Opened {
        user: name,
        owner,
        console: Arc::new(shared.backend.open(client)),
        pages: Arc::new(shared.backend.open(watching)),
        account,
        registration,
        statements: Semaphore::new(STATEMENTS_MAX),
        login,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(host: &'static str, cookies: &[&'static str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(HOST, HeaderValue::from_static(host));
        for cookie in cookies {
            headers.append(COOKIE, HeaderValue::from_static(cookie));
        }
        headers
    }

    fn ends(over_tls: bool) -> Ends {
        let (peer, local) = ("127.0.0.1:1".parse().unwrap(), "127.0.0.1".parse().unwrap());
        Ends { peer, local, over_tls }
    }

    #[test]
    fn cookie_is_that_of_the_port() {
        let cookies = ["a=b; carnet_9180=one", "carnet_9181=two;carnet_0=three"];
        assert_eq!(
            secret(&headers("localhost:9180", &cookies), ends(false)).as_deref(),
            Some("one")
        );
        assert_eq!(secret(&headers("[::1]:9181", &cookies), ends(false)).as_deref(), Some("two"));
        assert_eq!(
            secret(&headers("db1.example.com", &cookies), ends(false)).as_deref(),
            Some("three")
        );
        assert_eq!(secret(&headers("localhost:9182", &cookies), ends(false)), None);
    }

    /// A cookie of the plain name may come from a subdomain, or from a plain port of this host.
    #[test]
    fn cookie_is_secure_over_tls() {
        let over_tls = |cookie| secret(&headers("localhost:1", &[cookie]), ends(true));
        assert_eq!(over_tls("__Host-carnet_1=00").as_deref(), Some("00"));
        assert_eq!(over_tls("carnet_1=00"), None);
        let set = |over_tls| {
            let mut answer = answer_json(StatusCode::OK, "");
            set_cookie(&mut answer, &headers("localhost:1", &[]), "00", ends(over_tls));
            answer.headers()[SET_COOKIE].to_str().unwrap().to_owned()
        };
        assert_eq!(set(false), "carnet_1=00; Path=/; HttpOnly; SameSite=Strict");
        assert_eq!(set(true), "__Host-carnet_1=00; Path=/; HttpOnly; SameSite=Strict; Secure");
    }
}
