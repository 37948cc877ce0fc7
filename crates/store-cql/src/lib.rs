//! Cassandra and ScyllaDB, as they are, behind Carnet's cluster traits.
//!
//! # The problem
//!
//! `carnet_store::cluster` says what the commit protocol asks of a cluster, and what may go wrong.
//! Here that becomes CQL for a stock cluster: no fork, no plug-in, no ordered partitioner.
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
//! | `answer` | what a conditional batch's rows mean, Cassandra's and ScyllaDB's | rows of each, random rows |
//! | `fault` | what is certain after an error of the driver | error by error |
//! | `partition` | under which key a partition is kept | key by key |
//! | `span` | which tokens and partitions a range is | against the range itself |
//! | `cells`, `load`, `commit_rows`, `restored`, `registers`, `scan`, `foreign` | – they act | on a real Cassandra |
//!
//! # Invariants
//!
//! * What replicas keep of a cell follows from statement numbers, never from a clock.
//! * Nothing is tried again here: each call is one attempt, and says what is known of it.
//! * A conditional write is *failed* only where no phase of it can have begun.
//! * Tables are the database's own. Nobody else writes to them, and never without the fence.
//!
//! # Deliberately absent
//!
//! Retries and caches. Existing tables stay what they are: `foreign` reads them, for a copy.

mod answer;
mod cells;
mod cluster;
mod commit_rows;
mod fault;
mod foreign;
mod load;
mod options;
mod partition;
mod registers;
mod requests;
mod restored;
mod scan;
mod schema;
mod session;
mod span;
mod statement;
mod tls;

pub use cluster::CqlCluster;
pub use foreign::{
    ForeignCluster, ForeignPage, ForeignPosition, ForeignRow, ForeignScan, ForeignTable,
};
pub use options::{CqlOptions, Credentials, Quorum, Replication, TlsFiles};
pub use requests::{RequestCounters, Requests};
