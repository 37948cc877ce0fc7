//! HTTP port for monitoring: `/livez`, `/readyz`, `/metrics`.
//!
//! | path | 200 | otherwise |
//! | --- | --- | --- |
//! | `/livez` | the process answers | |
//! | `/readyz` | statements can run | 503 with the cause: draining, or why the store takes no writes |
//! | `/metrics` | metrics in Prometheus' text format | |
//!
//! The text of a 200 from `/readyz` is `ok`, or names damage that does not prevent statements.
//!
//! Beyond loopback connections are over TLS, and a request shows a token as `Authorization: Bearer
//! TOKEN`; otherwise the answer is 401.
//!
//! Hyper speaks HTTP/1.1. The head of a request is limited in bytes and time, and so are the time for
//! which a client does not read its answer, and the number of connections, of which one address may
//! have half; further ones are closed at once.

mod answer;
mod connection;
mod monitors;
mod progress;
mod route;
mod service;
mod site;

pub(crate) use service::HttpService;
