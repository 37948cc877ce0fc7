//! Control socket: requests of other programs to the process that has a database open.
//!
//! A directory belongs to one process. `carnet backup`, `carnet compact` and `carnet migrate` have
//! to reach that process, which may be a server, `carnet stress` or any embedding program, even on
//! a machine without a free port. So the control server listens on a Unix socket in the directory
//! itself, `CONTROL`. A client needs write permission for it, which only the user that opened the
//! database has.
//!
//! ```text
//!  carnet backup DIR DEST ──▶ opens DIR itself
//!        │ it is in use
//!        └──▶ DIR/CONTROL ◀── thread "carnet-control" of the owner
//!               {"version":1,"request":{"backup":{"dest":"/backups"}}}        one line, one request
//!               {"progress":{"bytes":65536,"bytes_total":1048576}}             any number of these
//!               {"done":{"backup":{…}}}   or   {"failed":{"kind":"invalid","message":"…"}}
//! ```
//!
//! `protocol` encodes and decodes the lines, bounded and without I/O; `socket` creates and finds
//! the socket; `server` and `client` are the two sides. Each connection carries one request.
//! Progress is sent as fast as the client reads it; a request runs on when its client goes away.
//!
//! # Why it is off by default in the library
//!
//! It needs a thread and a file. A program that embeds a database and is the only one to administer
//! it needs neither; [`Builder::control`](crate::Builder::control) turns it on.
//!
//! # Invariants
//!
//! 1. Only the holder of the directory's lock creates a socket: an existing one is left over from a
//!    killed process, and is replaced.
//! 2. At no time can another user connect: the socket is created in a temporary directory with mode
//!    0700, and moved after its own mode is 0600.
//! 3. Requests are bounded in bytes and in time to receive them; the number of clients is bounded
//!    too.
//! 4. The socket is closed before its database: no request begins afterwards, and a running one is
//!    aborted or waited for.

mod client;
mod peer;
mod protocol;
mod server;
mod socket;
#[cfg(test)]
mod tests;

pub(crate) use client::{ask, refusal_of_owner};
pub use protocol::{ControlRequest, Done};
pub(crate) use server::{ControlServer, Owner};
