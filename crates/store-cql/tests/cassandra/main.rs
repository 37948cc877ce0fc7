//! What the cluster traits promise, on a real Cassandra that the whole binary shares.
//!
//! `scripts/cassandra run` starts it and ends it with this process, however that ends.
//! `CARNET_CASSANDRA=host:port` names one that runs already, `CARNET_CASSANDRA_PID` its process.
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
