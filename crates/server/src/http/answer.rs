//! Answers of the HTTP port, with the headers that protect a browser.

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{
    ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName,
    HeaderValue, REFERRER_POLICY, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use hyper::{Response, StatusCode};

/// Answer to a request.
pub(super) type Answer = Response<Full<Bytes>>;

/// Scripts, styles, pictures and requests of this server only, nothing inline, and no frame around.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
                      connect-src 'self'; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'; require-trusted-types-for 'script'; \
                      trusted-types 'none'";

/// Headers of every answer.
const PROTECTION: [(HeaderName, &str); 6] = [
    (CONTENT_SECURITY_POLICY, POLICY),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (X_FRAME_OPTIONS, "DENY"),
    (REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
];

const TEXT: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";

/// Creates an answer with a body.
pub(super) fn with_body(status: StatusCode, content_type: &'static str, body: Bytes) -> Answer {
    let mut answer = Response::new(Full::new(body));
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    for (name, value) in PROTECTION {
        headers.insert(name, HeaderValue::from_static(value));
    }
    answer
}

/// Creates an answer of one line of text, after which the connection is closed.
pub(super) fn text(status: StatusCode, line: impl AsRef<str>) -> Answer {
    closing(with_body(status, TEXT, format!("{}\n", line.as_ref()).into()))
}

/// Creates an answer to a program.
pub(super) fn json(status: StatusCode, body: impl Into<Bytes>) -> Answer {
    with_body(status, JSON, body.into())
}

/// Creates an answer that says why a request of a program was refused.
pub(super) fn refusal(status: StatusCode, why: &str) -> Answer {
    let body = serde_json::json!({ "error": { "kind": "refused", "message": why } });
    json(status, body.to_string())
}

/// Closes the connection after an answer: monitors need no more than one.
pub(super) fn closing(mut answer: Answer) -> Answer {
    answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    answer
}

/// Creates the answer to a request without the token.
pub(super) fn unauthorized() -> Answer {
    let line = "show the server's token in the header: Authorization: Bearer TOKEN";
    let mut answer = text(StatusCode::UNAUTHORIZED, line);
    answer.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    answer
}

/// Creates the answer to a request with another method than these.
pub(super) fn wrong_method(allowed: &'static str) -> Answer {
    let mut answer = text(StatusCode::METHOD_NOT_ALLOWED, format!("use {allowed}"));
    let allowed = allowed.replace(" or", ",");
    if let Ok(allowed) = HeaderValue::from_str(&allowed) {
        answer.headers_mut().insert(ALLOW, allowed);
    }
    answer
}
