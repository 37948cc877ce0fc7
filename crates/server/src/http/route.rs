//! Decides which part of the service answers a request.

use hyper::body::Incoming;
use hyper::{Method, Request, StatusCode};

use super::answer::{Answer, text, unauthorized, wrong_method};
use super::monitors;
use super::site::Site;
use crate::backend::Backend;

/// Answers a request.
pub(super) fn route<B: Backend>(site: &Site<B>, request: &Request<Incoming>) -> Answer {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return wrong_method();
    }
    if !site.shared.monitoring.admits(request.headers()) {
        return unauthorized();
    }
    match request.uri().path() {
        "/livez" => monitors::livez(),
        "/readyz" => monitors::readyz(site),
        "/metrics" => monitors::metrics(site),
        _ => text(StatusCode::NOT_FOUND, "there are /livez, /readyz and /metrics"),
    }
}
