//! Answers to monitors: health and metrics.

use hyper::StatusCode;

use super::answer::{Answer, text, with_body};
use super::site::Site;
use crate::backend::Backend;
use crate::metrics::append_memory;
use crate::{audit_figures, process_figures, shed_figures};

/// Answers `/livez`.
pub(super) fn livez() -> Answer {
    text(StatusCode::OK, "ok")
}

/// Answers `/readyz`.
pub(super) fn readyz<B: Backend>(site: &Site<B>) -> Answer {
    if site.is_draining() {
        return text(StatusCode::SERVICE_UNAVAILABLE, "draining");
    }
    match site.shared.backend.readiness() {
        Ok(line) => text(StatusCode::OK, line),
        Err(failure) => text(StatusCode::SERVICE_UNAVAILABLE, failure.message),
    }
}

/// Answers `/metrics`.
pub(super) fn metrics<B: Backend>(site: &Site<B>) -> Answer {
    let shared = &site.shared;
    let mut body = shared.metrics.render(shared.budget.used());
    let mut memory = vec![
        ("requests", shared.budget.used()),
        ("answers", shared.answers.used()),
        ("connections", shared.connections.used()),
    ];
    memory.extend(shared.backend.memory());
    append_memory(&mut body, &memory);
    process_figures::append(&mut body);
    shed_figures::append(&mut body, &shared.metrics, shared.backend.admission());
    audit_figures::append(&mut body, shared.audit.as_deref());
    shared.backend.append_metrics(&mut body);
    let content_type = "text/plain; version=0.0.4; charset=utf-8";
    with_body(StatusCode::OK, content_type, body.into())
}
