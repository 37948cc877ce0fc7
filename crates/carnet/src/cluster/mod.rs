//! Databases over a cluster: their URLs, and opening them.
//!
//! ```text
//!   Db::open("cassandra://…") ──▶ url    parses it         pure (with reach, peers, url_options)
//!                             ──▶ open   connects, listens
//!                             ──▶ store  ClusterLog, as a trait object
//!                             ──▶ figures counts of requests, and health
//!                             ──▶ backup begins and ends backups by the cluster's tools
//!   carnet import             ──▶ table  an existing table of the cluster, read-only
//! ```
//!
//! `docs/cassandra.md` is the guide for operators of the cluster. [`crate::Builder::open_cluster`]
//! accepts any other cluster and network, such as [`MemoryCluster`] and [`LocalNetwork`] in tests.

mod any_backup;
pub mod backup;
mod figures;
mod open;
mod peers;
mod reach;
mod store;
mod table;
mod url;
mod url_options;

pub use carnet_sequencer::sweep::SweepStatus;
pub use carnet_sequencer::{
    Address, FORWARD_BYTES_MAX, ForwardHandler, Forwarding, Handler, LeaseOptions, LocalNetwork,
    Options as SequencerOptions, Security, Status, TcpNetwork, Transport, Unanswered,
};
pub use carnet_store::cluster::{Cluster, MemoryCluster};
pub use carnet_store_cql::{
    ForeignCluster, ForeignPage, ForeignPosition, ForeignRow, ForeignScan, ForeignTable, Nodes,
    Requests, TlsFiles as DriverTlsFiles, client_config as driver_tls, statements,
};
pub use figures::ClusterFigures;
pub(crate) use open::{Settings, connect, environment, open};
pub use peers::{PeerTls, Peers, Secret};
pub(crate) use store::ClusterStore;
pub use table::TableUrl;
pub use url::ClusterUrl;
pub use url_options::OPTIONS;
