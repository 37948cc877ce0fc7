//! HTTP port: health and metrics for monitors, and the dashboard for people.
//!
//! | path | 200 | otherwise |
//! | --- | --- | --- |
//! | `/livez` | the process answers | |
//! | `/readyz` | statements can run | 503 with the cause: draining, or why the store takes no writes |
//! | `/metrics` | metrics in Prometheus' text format | |
//! | `/`, `/assets/…` | the dashboard's page and its parts, which are in the binary | 404 if it is off |
//! | `/api/session`, `/api/login`, `/api/logout` | log-in of the dashboard | 401, 403, 503 |
//! | `/api/query` | the result of a CQL statement, or its error, as JSON | 400, 401, 403, 413, 503 |
//!
//! The text of a 200 from `/readyz` is `ok`, or names damage that does not prevent statements.
//!
//! Beyond loopback connections are over TLS, and a monitor shows a token as `Authorization: Bearer
//! TOKEN`; otherwise the answer is 401. A dashboard shows the cookie of its session instead.
//!
//! ```text
//!   listener ─▶ connection ─▶ route ─┬▶ monitors      /livez /readyz /metrics
//!               TLS, hyper           ├▶ assets        the page
//!                                    └▶ guard ─┬▶ login ─▶ sessions
//!                                              └▶ query ─▶ admission ─▶ backend ─▶ rows as JSON
//! ```
//!
//! # Invariants, each with a test that fails without it
//!
//! * **Bounded by anyone.** The head of a request is limited in bytes and time, so is its body, and so is the
//!   time for which a client does not read its answer. The number of connections is limited, and one address
//!   may have half of them; further ones are closed at once.
//! * **The dashboard has the rights of its user**, by the path of every CQL client: the log-in, permissions,
//!   service levels, the audit log, timeouts and the memory of answers. A session ends with its user, and with
//!   the password by which it began.
//! * **Without the console only statements of pages run**: they read the server's own tables, and end statements
//!   and transactions.
//! * **Pages of other sites cannot use it.** The names of the `Host` header are known ones, so that no other
//!   name leads here (DNS rebinding). A POST has the type JSON and comes from this site. The cookie is sent
//!   by this site only, and no page may frame this one. Scripts and styles come from files of this server only.
//! * **Monitors wait for no statement**: this service has a separate thread, and statements run on the
//!   server's threads.

mod answer;
mod assets;
mod body;
mod connection;
mod ends;
mod guard;
mod login;
mod monitors;
mod page_statement;
mod progress;
mod query;
mod route;
mod rows;
mod service;
mod sessions;
mod site;

pub(crate) use service::HttpService;
