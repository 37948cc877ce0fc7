//! Carnet's cluster traits over stock Cassandra and ScyllaDB.
//!
//! # The problem
//!
//! `carnet_store::cluster` defines the operations that the commit protocol needs, and their faults.
//! This crate implements them in CQL for a stock cluster: no fork, no plug-in, no ordered
//! partitioner.
//!
//! ```text
//!   ClusterCells   cells_N     INSERT … USING TIMESTAMP n, one row for each version
//!                              SELECT … ver <= ? GROUP BY pk, ck: one row for each cell
//!   CommitRows     commits3    BEGIN BATCH
//!                                UPDATE … SET epoch = e WHERE row = r IF epoch = e
//!                                INSERT … IF NOT EXISTS, n of them
//!                              APPLY BATCH: one Paxos round, all or nothing
//!   Registers      registers   UPDATE … IF value = ?, read at SERIAL
//! ```
//!
//! | file | decides | tested |
//! | --- | --- | --- |
//! | `statement`, `schema` | every text that is sent | as text |
//! | `answer` | the meaning of a conditional batch's rows, Cassandra's and ScyllaDB's | rows of each, random rows |
//! | `fault` | the certainty after an error of the driver | error by error |
//! | `health` | whether the cluster counts as away | request by request |
//! | `partition` | the stored key of a partition | key by key |
//! | `span` | the tokens and partitions of a range | against the range itself |
//! | `cells`, `load`, `commit_rows`, `restored`, `registers`, `scan`, `foreign` | – they act | on a real Cassandra |
//!
//! # Invariants
//!
//! * The stored data of a cell follows from statement numbers, never from a clock.
//! * A write is one attempt, and reports how certain its outcome is. A read, which has no effect, may
//!   be sent to two nodes.
//! * No request waits for a node that hangs longer than one and a half keepalive times.
//! * A conditional write is *failed* only if no phase of it can have begun.
//! * The tables belong to the database. No other program writes to them, and the database itself
//!   never writes without the fence.
//!
//! # Deliberately absent
//!
//! Retries of writes, and caches. Writing to existing tables: `foreign` only reads them, to copy them.

mod answer;
mod cells;
mod cluster;
mod commit_rows;
mod fault;
mod foreign;
mod health;
mod load;
mod loads;
mod options;
mod partition;
mod registers;
mod request_settings;
mod requests;
mod restored;
mod scan;
mod schema;
mod session;
mod span;
mod statement;
mod timing;
mod tls;

pub use cluster::CqlCluster;
pub use foreign::{
    ForeignCluster, ForeignPage, ForeignPosition, ForeignRow, ForeignScan, ForeignTable,
};
pub use options::{CqlOptions, Credentials, Quorum, Replication, TlsFiles};
pub use requests::{Nodes, RequestCounters, Requests};
pub use statement::statements;
pub use tls::client_config;
