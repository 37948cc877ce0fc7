//! The promises of the cluster traits, tested on a real Cassandra that the whole binary shares.
//!
//! `scripts/cassandra run` starts it, and stops it with this process, however the process ends.
//! `CARNET_CASSANDRA=host:port` names a node that runs already, `CARNET_CASSANDRA_PID` its process.
//! The tests need a process to themselves: a node takes gigabytes, and they kill and pause it.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod cells;
mod commit_rows;
mod conformance;
mod faults;
mod keyspace;
mod many;
mod node;
mod registers;
mod restored;
mod schema;
mod tls;
