//! The server: a port that speaks CQL's native protocol, and one that tells how it is doing.
//!
//! ```text
//!   clients ──▶ listener ──▶ connection ──▶ Backend ──▶ statements, transactions, the store
//!                              │   ▲
//!                bytes ▶ FrameDecoder ▶ Request ▶ one task each ▶ Response ▶ FrameEncoder ▶ bytes
//!                              │
//!                  Connection: the state machine that decides what a request may be now
//!   monitors ─▶ http: /livez /readyz /metrics
//! ```
//!
//! | room | what it holds |
//! | --- | --- |
//! | [`protocol`] | bytes to requests, responses to bytes; no I/O |
//! | [`backend`] | what runs statements: a trait, so that the protocol is tested without CQL |
//! | `executor` | the backend that runs CQL |
//! | [`failure`] | how a statement fails, and which of the protocol's errors that is |
//! | `connection` | a state machine without I/O, and the driver that moves its bytes |
//! | `long` | threads for statements that take long, which run in turns |
//! | [`auth`] | users, password hashes, SASL PLAIN |
//! | [`clients`] | the list of connections |
//! | [`events`] | what happens beside a connection, to those that registered for it |
//! | [`listener`] | the ports, the limits, the drain |
//! | [`http`], [`metrics`] | health and figures |
//!
//! # Invariants
//!
//! * **A client can hurt its own connection only.** Whatever breaks the protocol ends that
//!   connection with an error; a backend that panics fails that request.
//! * **Memory is bounded** by connections × buffers, plus one budget for the bytes of all requests
//!   in flight, charged as they arrive. What does not fit is refused ("overloaded"), or left in the
//!   kernel until it does: a connection whose answers are not read, or that has too many requests
//!   under way, is not read from.
//! * **One address holds a share**, by default half, of the connections, the bytes of requests and
//!   the log-ins under way, so that it cannot shut out the others.
//! * **Silence has an end**: before log-in, within a request as a whole, while answers wait, and
//!   between requests. Refusals are logged at a limited rate.
//! * **Requests of one connection run side by side** and are answered as they finish, each with its
//!   stream's number. A client that needs an order waits for the answer.
//! * **A request is answered once.** One that is under way when the server drains is answered;
//!   one whose client has gone is dropped.
//! * **Nothing but loopback without passwords.** The server refuses to listen elsewhere.
//!
//! # Deliberately absent
//!
//! TLS (put a proxy before it for now, and raise the limits per address: clients share the proxy's),
//! roles and permissions, tracing, per-user limits.

pub mod auth;
pub mod backend;
pub mod clients;
mod connection;
pub mod disk_figures;
pub mod events;
mod executor;
pub mod failure;
mod hashing;
pub mod http;
pub mod listener;
mod long;
pub mod metrics;
mod others;
mod process_figures;
pub mod protocol;
mod refusals;
mod shed_figures;
mod wait_figures;

pub use auth::{Authenticator, hash_password};
pub use backend::{Answer, Backend, Client, Outcome};
pub use clients::Clients;
pub use events::{Event, Events};
pub use executor::CqlBackend;
pub use failure::{Failure, FailureKind};
pub use listener::{Config, Limits, Server};
pub use metrics::Metrics;
pub use protocol::request::{
    Batch, BatchItem, BatchKind, BatchStatement, QueryParams, Request, Statement,
};
pub use protocol::response::{Prepared, Rows};
pub use protocol::types::{
    BoundValue, BoundValues, ChangeTarget, ChangeType, ColumnSpec, ColumnType, Columns,
    Consistency, SchemaChange,
};
