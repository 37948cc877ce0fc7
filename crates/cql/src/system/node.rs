//! Description of a node.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use carnet::Uuid;

/// Version of Cassandra that drivers see, followed by Carnet's own version.
///
/// cqlsh compares the part before the last dash with the version it was built for.
pub const RELEASE_VERSION: &str = concat!("5.0.0-carnet", env!("CARGO_PKG_VERSION"));
/// Version of CQL.
pub const CQL_VERSION: &str = "3.4.7";
/// Latest version of the native protocol.
pub const NATIVE_PROTOCOL_VERSION: &str = "5";
/// Partitioner, by whose name drivers compute tokens.
pub const PARTITIONER: &str = "org.apache.cassandra.dht.Murmur3Partitioner";
/// Only token of a ring of one node: it owns the whole ring.
pub const TOKEN: &str = "-9223372036854775808";

/// Default name of the data centre, Cassandra's.
pub const DATA_CENTER: &str = "datacenter1";

/// Description of a node.
#[derive(Clone)]
pub struct NodeInfo {
    /// Name of the cluster.
    pub cluster_name: String,
    /// Name of the data centre.
    pub data_center: String,
    /// Name of the rack.
    pub rack: String,
    /// Permanent id of the node.
    pub host_id: Uuid,
    /// Address at which clients reach the node.
    pub address: IpAddr,
    /// Port of the native protocol. It also stands for Cassandra's storage port, which Carnet does
    /// not have.
    pub port: u16,
    /// Tokens of the node as texts, sorted as texts.
    pub tokens: Vec<String>,
    /// Seconds from 1970 to the start of the server.
    pub started_secs: i32,
    /// Source of the connected clients; `None` for a node without connections.
    pub clients: Option<Arc<dyn ClientList>>,
}

impl NodeInfo {
    /// Describes a node on the local machine: 127.0.0.1:9042 in `datacenter1`, `rack1`.
    #[must_use]
    pub fn local(host_id: Uuid) -> Self {
        Self {
            cluster_name: "Carnet".into(),
            data_center: DATA_CENTER.into(),
            rack: "rack1".into(),
            host_id,
            address: Ipv4Addr::LOCALHOST.into(),
            port: 9042,
            tokens: vec![TOKEN.to_owned()],
            started_secs: 0,
            clients: None,
        }
    }

    /// Names the data centre of the node.
    #[must_use]
    pub fn in_data_center(self, name: impl Into<String>) -> Self {
        Self { data_center: name.into(), ..self }
    }
}

/// Source of the connected clients.
pub trait ClientList: Send + Sync {
    /// Lists the current connections, in any order.
    fn clients(&self) -> Vec<Client>;
}

/// Stage of a connection's start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionStage {
    /// The client has not sent STARTUP.
    Establishing,
    /// The server waits for the client's password.
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

/// Connection of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Client {
    /// Address and port of the client.
    pub address: SocketAddr,
    /// User name; `None` without authentication.
    pub username: Option<String>,
    /// Stage of its start.
    pub stage: ConnectionStage,
    /// Version of the native protocol in use.
    pub protocol_version: u8,
    /// Options of its STARTUP, including `DRIVER_NAME` and `DRIVER_VERSION`.
    pub options: BTreeMap<String, String>,
    /// Number of its requests.
    pub request_count: u64,
    /// Encryption of the connection; `None` if it is plain.
    pub tls: Option<ClientTls>,
}

/// Encryption of a client's connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientTls {
    /// Version, such as `TLSv1.3`.
    pub version: &'static str,
    /// Cipher suite by its registered name.
    pub cipher_suite: String,
}
