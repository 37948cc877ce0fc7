//! What a node says about itself.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use carnet::Uuid;

use super::peers;

/// The version of Cassandra that drivers take the server for, and Carnet's own.
///
/// cqlsh compares what stands before the last dash with the version it was built for.
pub const RELEASE_VERSION: &str = concat!("5.0.0-carnet", env!("CARGO_PKG_VERSION"));
/// The version of CQL.
pub const CQL_VERSION: &str = "3.4.7";
/// The latest version of the native protocol.
pub const NATIVE_PROTOCOL_VERSION: &str = "5";
/// How partitions are ordered, in the name that drivers derive tokens by.
pub const PARTITIONER: &str = "org.apache.cassandra.dht.Murmur3Partitioner";
/// The one token of a ring of one node: it owns everything up to here, which is all there is.
pub const TOKEN: &str = "-9223372036854775808";

/// What a node says about itself.
#[derive(Clone)]
pub struct NodeInfo {
    /// The name of the cluster.
    pub cluster_name: String,
    /// The data centre.
    pub data_center: String,
    /// The rack in it.
    pub rack: String,
    /// Names the node for good.
    pub host_id: Uuid,
    /// Where clients reach the node.
    pub address: IpAddr,
    /// The port of the native protocol there. It also stands for Cassandra's port between nodes,
    /// which Carnet has not.
    pub port: u16,
    /// Its tokens, as texts in the order of texts.
    pub tokens: Vec<String>,
    /// Seconds from 1970 to the start of the server.
    pub started_secs: i32,
    /// Who is connected; `None` where nobody can be.
    pub clients: Option<Arc<dyn ClientList>>,
}

impl NodeInfo {
    /// Describes a node on its own machine: 127.0.0.1:9042 in `datacenter1`, `rack1`.
    #[must_use]
    pub fn local(host_id: Uuid) -> Self {
        Self {
            cluster_name: "Carnet".into(),
            data_center: "datacenter1".into(),
            rack: "rack1".into(),
            host_id,
            address: Ipv4Addr::LOCALHOST.into(),
            port: 9042,
            tokens: vec![TOKEN.to_owned()],
            started_secs: 0,
            clients: None,
        }
    }

    /// Describes the node as one of several servers of a database, each with tokens of its own.
    #[must_use]
    pub fn among_others(self) -> Self {
        Self { tokens: peers::tokens(self.host_id), ..self }
    }
}

/// Knows who is connected.
pub trait ClientList: Send + Sync {
    /// Lists the connections of this moment, in any order.
    fn clients(&self) -> Vec<Client>;
}

/// How far the start of a connection has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionStage {
    /// The client has not sent STARTUP.
    Establishing,
    /// The client is asked for its password.
    Authenticating,
    /// The client may run statements.
    Ready,
}

impl ConnectionStage {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Establishing => "establishing",
            Self::Authenticating => "authenticating",
            Self::Ready => "ready",
        }
    }
}

/// A connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Client {
    /// Where it comes from.
    pub address: SocketAddr,
    /// Who it is; `None` without authentication.
    pub username: Option<String>,
    /// How far its start has come.
    pub stage: ConnectionStage,
    /// The version of the native protocol it speaks.
    pub protocol_version: u8,
    /// What it said of itself at its start, `DRIVER_NAME` and `DRIVER_VERSION` among it.
    pub options: BTreeMap<String, String>,
    /// How many requests it made.
    pub request_count: u64,
}
