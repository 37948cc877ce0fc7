//! The server: a CQL port with Cassandra's native protocol, and an HTTP port for monitoring and the dashboard.
//!
//! ```text
//!   clients ──▶ listener ──▶ connection ──▶ Backend ──▶ statements, transactions, the store
//!                              │   ▲
//!                bytes ▶ FrameDecoder ▶ Request ▶ one task each ▶ Response ▶ FrameEncoder ▶ bytes
//!                              │
//!                  Connection: the state machine that decides what a request may be now
//!   monitors, browsers ─▶ http: /livez /readyz /metrics, the dashboard
//! ```
//!
//! | module | contents |
//! | --- | --- |
//! | [`protocol`] | decoding of requests, encoding of responses; no I/O |
//! | [`backend`] | trait of the component that runs statements, so that the protocol is tested without CQL |
//! | `executor` | the backend that runs CQL |
//! | [`failure`] | failures of statements, and their error codes |
//! | `connection` | a state machine without I/O, and the driver that moves its bytes |
//! | `long` | threads for long statements, which run in turns |
//! | [`auth`] | users, password hashes, SASL PLAIN |
//! | [`clients`] | list of connections |
//! | [`events`] | events for the connections that registered for them |
//! | [`listener`] | ports, limits, drain |
//! | [`exposure`] | protection that ports beyond loopback need |
//! | [`tls`] | certificates, their reload, handshakes |
//! | `http`, [`metrics`] | health, metrics and the dashboard |
//!
//! # Invariants
//!
//! * **A client can harm only its own connection.** A protocol violation ends that connection with
//!   an error; a panic in the backend fails that request.
//! * **Memory is bounded** by connections × buffers, plus one budget for the bytes of all requests
//!   in progress, charged as they arrive. Requests that do not fit are refused ("overloaded"), or
//!   stay in the kernel: a connection whose answers are not read, or that has too many requests in
//!   progress, is not read from.
//! * **One address holds a share**, by default half, of the connections, the bytes of requests and
//!   the log-ins in progress, so that it cannot lock out other addresses.
//! * **Idle time is limited**: before log-in, its TLS handshake included, within a request as a whole, while answers wait, and
//!   between requests. Refusals are logged at a limited rate.
//! * **Requests of one connection run concurrently** and are answered as they finish, each with its
//!   stream's number. A client that needs an order waits for the answer.
//! * **A request is answered once.** A drain answers the requests in progress; the requests of a
//!   disconnected client are dropped.
//! * **Without passwords and TLS only loopback.** The server refuses to listen on other addresses; a
//!   setting permits passwords in clear.
//!
//! # Deliberately absent
//!
//! Roles and permissions, per-user limits, resumption of TLS sessions.

mod accept;
mod accounts;
pub mod audit;
mod audit_figures;
pub mod auth;
pub mod backend;
mod backup_figures;
pub mod clients;
mod cluster_figures;
mod commit_figures;
mod connection;
pub mod descriptors;
mod disk_figures;
mod duration_figures;
pub mod events;
mod executor;
pub mod exposure;
pub mod failure;
#[cfg(test)]
mod failure_docs;
mod first_superuser;
mod forwarded;
mod hashing;
mod http;
mod in_progress;
mod limited_log;
mod limits;
pub mod listener;
mod long;
pub mod metrics;
mod monitoring;
mod open_figures;
mod others;
mod process_figures;
pub mod protocol;
mod shed_figures;
mod storage_figures;
mod table_figures;
pub mod tls;
mod users;
mod wait_figures;

pub use audit::{Audit, ChangeLog, Destination, Filter};
pub use auth::Authenticator;
pub use backend::{Arrival, Backend, Client, StatementResult, User};
pub use carnet::passwords::hash as hash_password;
pub use clients::Clients;
pub use events::Events;
pub use executor::CqlBackend;
pub use exposure::Exposure;
pub use failure::{Failure, FailureKind};
pub use first_superuser::make_first_superuser;
pub use limits::Limits;
pub use listener::{Config, Drain, Server};
pub use metrics::Metrics;
pub use monitoring::{Dashboard, HttpToken};
pub use protocol::event::Event;
pub use protocol::request::ProtocolRequest;
pub use protocol::response::Prepared;
pub use protocol::statement::{Batch, BatchItem, BatchStatement, QueryParams, Statement};
pub use protocol::types::Consistency;
pub use tls::{ClientCertificates, Tls, TlsFiles};
pub use users::Users;
