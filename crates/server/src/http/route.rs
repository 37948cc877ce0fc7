//! Decides which part of the service answers a request.

use std::sync::Arc;

use hyper::body::Incoming;
use hyper::{Method, Request, StatusCode};

use super::answer::{Answer, json, refusal, text, unauthorized, wrong_method};
use super::assets;
use super::ends::Ends;
use super::guard::check_post;
use super::site::Site;
use super::{login, monitors, query};
use crate::backend::Backend;
use crate::monitoring::Dashboard;

const NOT_FOUND: &str = "there are /livez, /readyz and /metrics, and the dashboard at /";
const OFF: &str =
    "the dashboard is off (server.http_dashboard = false); there are /livez, /readyz and /metrics";

/// Answers a request.
pub(super) async fn route<B: Backend>(
    site: &Arc<Site<B>>,
    request: Request<Incoming>,
    ends: Ends,
) -> Answer {
    let path = request.uri().path();
    if path == "/" || path.starts_with("/assets/") || path.starts_with("/api/") {
        if site.shared.monitoring.dashboard == Dashboard::Off {
            return text(StatusCode::NOT_FOUND, OFF);
        }
        if let Err(why) = site.hosts.check(request.headers(), ends.local) {
            return refusal(StatusCode::MISDIRECTED_REQUEST, &why);
        }
        return dashboard(site, request, ends).await;
    }
    monitor(site, &request, ends)
}

/// Answers a monitor, which shows the token; a dashboard shows its session.
fn monitor<B: Backend>(site: &Site<B>, request: &Request<Incoming>, ends: Ends) -> Answer {
    if !is_read(request.method()) {
        return wrong_method("GET or HEAD");
    }
    let (headers, path) = (request.headers(), request.uri().path());
    let of_session = path == "/metrics" && login::find(site, headers, ends).is_some();
    if !of_session && !site.shared.monitoring.admits(headers) {
        return unauthorized();
    }
    match path {
        "/livez" => monitors::livez(),
        "/readyz" => monitors::readyz(site),
        "/metrics" => monitors::metrics(site, of_session),
        _ => text(StatusCode::NOT_FOUND, NOT_FOUND),
    }
}

/// Answers a request of the dashboard, whose host is known.
async fn dashboard<B: Backend>(
    site: &Arc<Site<B>>,
    request: Request<Incoming>,
    ends: Ends,
) -> Answer {
    let (parts, body) = request.into_parts();
    let (headers, path) = (&parts.headers, parts.uri.path());
    let is_post = matches!(path, "/api/login" | "/api/logout" | "/api/query");
    if !is_post {
        return match path {
            _ if !is_read(&parts.method) => wrong_method("GET or HEAD"),
            "/api/session" => login::session(site, headers, ends),
            _ => assets::find(path, headers)
                .unwrap_or_else(|| text(StatusCode::NOT_FOUND, NOT_FOUND)),
        };
    }
    if parts.method != Method::POST {
        return wrong_method("POST");
    }
    if let Err(why) = check_post(headers) {
        return refusal(StatusCode::FORBIDDEN, why);
    }
    match path {
        "/api/login" => login::login(site, headers, body, ends).await,
        "/api/logout" => login::logout(site, headers, ends),
        "/api/query" => query::query(site, headers, body, ends).await,
        _ => json(StatusCode::NOT_FOUND, "{}"),
    }
}

fn is_read(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD)
}
