//! The control door: how another program asks the process that has a database open.
//!
//! A directory belongs to one process. `carnet backup`, `carnet compact` and `carnet migrate`
//! have to reach that process, be it a server, `carnet stress` or anybody's own program, and be it
//! on a machine where no port is free. So the door is a socket of the file system in the directory
//! itself, `CONTROL`: whoever may write to it may ask, which is the user that opened the database.
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
//! `protocol` is lines to requests and back, bounded and without I/O; `socket` is where a socket
//! lies; `door` is the owner's side, `client` the other. A request is one connection.
//! Answers come as fast as they are read; a client that goes away does not end what it has asked
//! for.
//!
//! # Why it is off by default in the library
//!
//! It starts a thread and makes a file. A program that embeds a database and is the only one to
//! administer it needs neither; [`Builder::control`](crate::Builder::control) asks for them.
//!
//! # Invariants
//!
//! 1. A socket is only ever made by whoever holds the directory's lock: one that is there before
//!    is left over, and is replaced.
//! 2. There is no moment at which somebody else may connect: the socket is made in a directory
//!    that nobody else may enter, and moved when its permissions are 0600.
//! 3. What a client sends is bounded, in bytes and in time until it is sent, and so are clients.
//! 4. The door is closed before its database: no request is begun after, and one that is under way
//!    is given up or waited for.

mod client;
mod door;
mod protocol;
mod socket;
#[cfg(test)]
mod tests;

pub use client::{ask, carry_out};
pub(crate) use door::{Door, Owner};
pub use protocol::{Done, Request};
