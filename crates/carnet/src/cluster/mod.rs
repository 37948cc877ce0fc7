//! A database over a cluster: what names one, and what opens it.
//!
//! ```text
//!   Db::open("cassandra://…") ──▶ url    what it says        pure
//!                             ──▶ open   connects, listens
//!                             ──▶ store  ClusterLog, boxed   one type for all clusters
//!                             ──▶ backup what surrounds a copy of the cluster's tables
//!   carnet import             ──▶ table  a table that others own, which is only read
//! ```
//!
//! `docs/cassandra.md` is for whoever operates the cluster. [`crate::Builder::open_cluster`] takes
//! any other cluster and network, such as [`MemoryCluster`] and [`LocalNetwork`] in tests.

pub mod backup;
mod open;
mod store;
mod table;
mod url;

pub use carnet_sequencer::{
    Address, Handler, LeaseOptions, LocalNetwork, Options as SequencerOptions, TcpNetwork,
    Transport,
};
pub use carnet_store::cluster::{Cluster, MemoryCluster};
pub use carnet_store_cql::{
    ForeignCluster, ForeignPage, ForeignPosition, ForeignRow, ForeignScan, ForeignTable, Requests,
};
pub(crate) use open::{connect, doors, open};
pub(crate) use store::AnyCluster;
pub use table::TableUrl;
pub use url::{ClusterUrl, OPTIONS, PeerTls, Peers, Secret};
