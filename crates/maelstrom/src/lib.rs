//! A node for [Maelstrom](https://github.com/jepsen-io/maelstrom), the workbench that teaches
//! distributed systems by breaking them: the Datomic transactor of its last chapter, built from
//! [`carnet_tree`].
//!
//! # Problem
//!
//! A node reads JSON messages from standard input, one per line, and writes messages to standard
//! output. It gets transactions from clients, and keeps data in two services: `lww-kv`, which is
//! only eventually consistent, and `lin-kv`, which is linearizable. The clients of all nodes
//! together must observe strictly serializable transactions, with few messages and short delays.
//!
//! ```text
//!   client ── txn ──► receive ─► request ─► execute ──► Tree ─┬─ nodes ─► lww-kv    immutable
//!      ▲                          (pure)                      └─ root  ─► lin-kv    compare-and-set
//!      └──── txn_ok, or error with a code ◄─┘                     │
//!                                                                 └─ "root is now …" ─► other nodes
//! ```
//!
//! The tree implements the transactions, and its documentation explains them; this crate connects
//! it to the protocol.
//!
//! # The hint
//!
//! If two nodes are equally busy, each finds that the other has moved the root, and has to read the
//! root first: a request and an answer for each batch. So a node that moves the root sends it to
//! the other nodes, in one message without an answer. The message is only a hint: the
//! compare-and-set still decides. A hint that is lost, late or cut off by a partition costs the
//! request and the answer that it would have saved. With more than a few nodes, hints cost more
//! messages than they save, and are not sent.
//!
//! # Invariants
//!
//! * Only messages are written to standard output; logs go through `tracing`.
//! * An error's code is definite only if it is certain that the transaction did not, and will not,
//!   take effect ([`Code`]).
//! * A message of a peer can make a transaction slower, never wrong.
//! * For any input: a message is answered, or logged and dropped; nothing panics, and at most
//!   [`LINE_BYTES_MAX`] of a line is kept.
//! * Time, randomness and threads are arguments ([`Node::new`]), so that a simulator can run many
//!   nodes from one seed. [`run()`] gives a node the real ones.
//!
//! # Deliberately absent
//!
//! State of a node itself: it can be killed at any moment. A leader: any node may move the root.

mod code;
mod execute;
mod line;
mod message;
mod node;
mod options;
mod output;
mod request;
mod rpc;
mod run;
mod services;
mod tasks;

pub use carnet_tree::{Shape, ThreadTimer, Timer, Wait};
pub use code::Code;
pub use line::LINE_BYTES_MAX;
pub use message::{Message, MessageId};
pub use node::{Node, Work};
pub use options::Options;
pub use output::Output;
pub use request::{Op, Refusal, WorkloadRequest};
pub use run::run;
pub use tasks::{Notify, Tasks};
