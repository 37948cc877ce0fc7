//! Answers of the HTTP port.

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{ALLOW, CONNECTION, CONTENT_TYPE, HeaderValue, WWW_AUTHENTICATE};
use hyper::{Response, StatusCode};

/// Answer to a request.
pub(super) type Answer = Response<Full<Bytes>>;

const TEXT: &str = "text/plain; charset=utf-8";

/// Creates an answer with a body, after which the connection is closed: monitors need no more than one.
pub(super) fn with_body(status: StatusCode, content_type: &'static str, body: Bytes) -> Answer {
    let mut answer = Response::new(Full::new(body));
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
    answer
}

/// Creates an answer of one line of text.
pub(super) fn text(status: StatusCode, line: impl AsRef<str>) -> Answer {
    with_body(status, TEXT, format!("{}\n", line.as_ref()).into())
}

/// Creates the answer to a request without the token.
pub(super) fn unauthorized() -> Answer {
    let line = "show the server's token in the header: Authorization: Bearer TOKEN";
    let mut answer = text(StatusCode::UNAUTHORIZED, line);
    answer.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    answer
}

/// Creates the answer to a request with a method that changes something.
pub(super) fn wrong_method() -> Answer {
    let mut answer = text(StatusCode::METHOD_NOT_ALLOWED, "use GET or HEAD");
    answer.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
    answer
}
