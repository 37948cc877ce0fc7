//! Answers to monitors: health and metrics.

use hyper::StatusCode;

use super::answer::{Answer, closing, text, with_body};
use super::site::Site;
use crate::backend::Backend;
use crate::metrics::append_memory;
use crate::{audit_figures, process_figures, shed_figures};

/// Answers `/livez`: the process runs.
pub(super) fn livez() -> Answer {
    text(StatusCode::OK, "ok")
}

/// Answers `/readyz`: whether statements can run.
pub(super) fn readyz<B: Backend>(site: &Site<B>) -> Answer {
    if site.is_draining() {
        return text(StatusCode::SERVICE_UNAVAILABLE, "draining");
    }
    match site.shared.backend.readiness() {
        Ok(line) => text(StatusCode::OK, line),
        Err(failure) => text(StatusCode::SERVICE_UNAVAILABLE, failure.message),
    }
}

/// Answers `/metrics`. The connection of a dashboard stays open for its next request.
pub(super) fn metrics<B: Backend>(site: &Site<B>, stays_open: bool) -> Answer {
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
    let answer = with_body(StatusCode::OK, content_type, body.into());
    if stays_open { answer } else { closing(answer) }
}
