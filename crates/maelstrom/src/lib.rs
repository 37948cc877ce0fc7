//! A node for [Maelstrom](https://github.com/jepsen-io/maelstrom), the workbench that teaches
//! distributed systems by breaking them: the Datomic transactor of its last chapter, built from
//! [`carnet_tree`].
//!
//! # Problem
//!
//! A node reads JSON messages from standard input, one a line, and writes others to standard
//! output. It gets transactions from clients, and has two services to keep data in: `lww-kv`, which
//! is only eventually consistent, and `lin-kv`, which is linearizable. Clients of all nodes together
//! must see strictly serializable transactions; messages and time are to be few.
//!
//! ```text
//!   client ── txn ──► receive ─► request ─► execute ──► Tree ─┬─ nodes ─► lww-kv    immutable
//!      ▲                          (pure)                      └─ root  ─► lin-kv    compare-and-set
//!      └──── txn_ok, or error with a code ◄─┘                     │
//!                                                                 └─ "root is now …" ─► other nodes
//! ```
//!
//! The tree does the work, and says how; this crate carries it over the protocol.
//!
//! # The hint
//!
//! Two nodes that are equally busy find their cached root moved by the other one each time, and
//! have to read it first: a request and an answer for each batch. So whoever moved the root tells
//! the others, in one message that nobody answers. It is a hint: the compare-and-set decides as
//! before, and one that is lost, late or cut off by a partition costs what it would have saved.
//! With more than a few nodes it costs more messages than it saves, and is left out.
//!
//! # Invariants
//!
//! * Nothing but messages is written to standard output; logs go through `tracing`.
//! * An error's code is definite only where it is certain that the transaction did not, and will
//!   not, take effect ([`Code`]).
//! * What a peer sends can make a transaction slower, never wrong.
//! * Whatever bytes come in: a message is answered, or logged and dropped; nothing panics, and no
//!   more than [`LINE_BYTES_MAX`] of a line is kept.
//! * Time, randomness and threads come from outside ([`Node::new`]), so that a simulator can run
//!   many nodes by one seed. [`run`] gives a node the real ones.
//!
//! # Deliberately absent
//!
//! State of a node's own: it can be killed at any moment. A leader: any node may move the root.

mod code;
mod execute;
mod line;
mod message;
mod node;
mod options;
mod request;
mod rpc;
mod run;
mod services;
mod tasks;

pub use carnet_tree::{Shape, ThreadTimer, Timer, Wait};
pub use code::Code;
pub use line::LINE_BYTES_MAX;
pub use message::{Message, MessageId};
pub use node::{Node, Output, Work};
pub use options::Options;
pub use request::{Op, Refusal, Request};
pub use run::run;
pub use tasks::{Notify, Tasks};
