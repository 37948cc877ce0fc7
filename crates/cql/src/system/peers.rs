//! Servers of one database: their announcements to each other, and each server's list of the
//! others.
//!
//! An announcement is a JSON object, so that servers of different versions understand their common
//! fields:
//!
//! ```text
//! {"cql":{"host_id":"…","address":"10.0.0.9","port":9042,
//!         "data_center":"datacenter1","rack":"rack1","started":1700000000}}
//! ```

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use carnet::cluster::Address;
use carnet::{Bytes, Uuid};
use carnet_base::murmur3;
use serde::{Deserialize, Serialize};

use super::node::NodeInfo;

/// Number of tokens per server of a database, the same as Cassandra's: drivers that route by token
/// spread partitions about evenly over the servers.
const TOKENS: u8 = 16;

/// Another server of the same database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Address at which the server takes forwarded statements; `None` for a server that takes none.
    pub forward: Option<Address>,
    /// Permanent id of the server.
    pub host_id: Uuid,
    /// Address at which clients reach it.
    pub address: SocketAddr,
    /// Name of its data centre.
    pub data_center: String,
    /// Name of its rack.
    pub rack: String,
    /// Consistency of its requests to the cluster; `None` if it does not tell.
    pub consistency: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct Announcement {
    /// Announcements of other kinds of processes have other keys.
    cql: Server,
}

#[derive(Serialize, Deserialize)]
struct Server {
    host_id: String,
    address: IpAddr,
    port: u16,
    data_center: String,
    rack: String,
    /// Start in seconds since 1970.
    started: i32,
    /// Address for forwarded statements.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    forward: Option<String>,
    /// Consistency of requests to the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    consistency: Option<String>,
}

impl NodeInfo {
    /// Describes the node as one of several servers of a database, each with tokens of its own.
    #[must_use]
    pub fn among_others(self) -> Self {
        Self { tokens: tokens(self.host_id), ..self }
    }

    /// Returns the announcement of this node to the other servers of its database: also the address for forwarded
    /// statements, and the consistency of requests to the cluster.
    #[must_use]
    pub fn announcement(&self, forward: Option<&Address>, consistency: Option<&str>) -> Bytes {
        let server = Server {
            host_id: self.host_id.to_string(),
            address: self.address,
            port: self.port,
            data_center: self.data_center.clone(),
            rack: self.rack.clone(),
            started: self.started_secs,
            forward: forward.map(ToString::to_string),
            consistency: consistency.map(str::to_owned),
        };
        let text = serde_json::to_vec(&Announcement { cql: server });
        text.expect("texts and numbers can be written as JSON").into()
    }

    /// Parses the announcements of the other servers, in the order of their addresses. Other
    /// announcements are skipped; of two servers at one address, the one that started later is
    /// kept.
    #[must_use]
    pub fn peers(&self, announced: &[Bytes]) -> Vec<Peer> {
        let own = SocketAddr::new(self.address, self.port);
        let mut peers: Vec<(i32, Peer)> =
            announced.iter().filter_map(|text| Peer::parse(text)).collect();
        peers.sort_by_key(|(started, peer)| (*started, peer.host_id));
        let peers = peers.into_iter().map(|(_, peer)| peer);
        let others = peers.filter(|peer| peer.host_id != self.host_id && peer.address != own);
        let by_address: BTreeMap<_, _> = others.map(|peer| (peer.address, peer)).collect();
        by_address.into_values().collect()
    }
}

impl Peer {
    /// Parses an announcement; also returns the time of the server's start.
    fn parse(text: &[u8]) -> Option<(i32, Self)> {
        let Announcement { cql } = serde_json::from_slice(text).ok()?;
        let Server { host_id, address, port, data_center, rack, started, forward, consistency } =
            cql;
        let host_id = Uuid::parse_str(&host_id).ok()?;
        let address = SocketAddr::new(address, port);
        let forward = forward.and_then(|forward| Address::new(forward).ok());
        Some((started, Self { forward, host_id, address, data_center, rack, consistency }))
    }

    /// Returns the server's tokens among the servers of its database.
    #[must_use]
    pub fn tokens(&self) -> Vec<String> {
        tokens(self.host_id)
    }
}

/// Returns the tokens of a server among others, sorted as texts. They are derived from its id, so
/// that all servers agree on them without storing anything.
pub(super) fn tokens(host_id: Uuid) -> Vec<String> {
    let token = |number: u8| {
        let name = [&host_id.as_bytes()[..], &[number]].concat();
        murmur3::token(&name).0.to_string()
    };
    let mut tokens: Vec<String> = (0..TOKENS).map(token).collect();
    tokens.sort_unstable();
    tokens
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(id: u128, port: u16) -> NodeInfo {
        NodeInfo { port, ..NodeInfo::local(Uuid::from_u128(id)) }
    }

    #[test]
    fn server_lists_the_others_without_itself() {
        let nodes = [node(3, 9043), node(1, 9042), node(2, 9044)];
        let announced: Vec<Bytes> =
            nodes.iter().map(|node| node.announcement(None, Some("quorum"))).collect();
        let peers = nodes[1].peers(&announced);
        let known: Vec<_> = peers.iter().map(|peer| (peer.host_id, peer.address.port())).collect();
        assert_eq!(known, [(Uuid::from_u128(3), 9043), (Uuid::from_u128(2), 9044)]);
        assert_eq!((&*peers[0].data_center, &*peers[0].rack), ("datacenter1", "rack1"));
        assert_eq!(peers[0].consistency.as_deref(), Some("quorum"));
    }

    #[test]
    fn restarted_server_is_listed_once() {
        // Its previous incarnation is still announced, and a copy of this server has the same
        // address.
        let now = NodeInfo { started_secs: 7, ..node(2, 9043) };
        let lives = [now, node(3, 9043), node(4, 9042)];
        let announced: Vec<Bytes> =
            lives.iter().map(|node| node.announcement(None, None)).collect();
        let peers = node(1, 9042).peers(&announced);
        let ids: Vec<Uuid> = peers.iter().map(|peer| peer.host_id).collect();
        assert_eq!(ids, [Uuid::from_u128(2)]);
    }

    #[test]
    fn other_announcements_are_skipped() {
        let later = r#"{"cql":{"host_id":"00000000-0000-0000-0000-000000000005","address":"::1",
            "port":1,"data_center":"d","rack":"r","started":9,"colour":"blue"},"more":[]}"#;
        let others = ["", "{}", "\u{1}", r#"{"cql":{}}"#, r#"{"cql":{"host_id":"x"}}"#, later];
        let announced: Vec<Bytes> = others.map(|text| text.to_owned().into()).into();
        let peers = node(1, 9042).peers(&announced);
        assert_eq!(peers.len(), 1);
        assert_eq!(peers[0].address, "[::1]:1".parse().unwrap());
    }

    #[test]
    fn tokens_are_distinct_sorted_and_deterministic() {
        let all: Vec<String> = (0..8).flat_map(|id| tokens(Uuid::from_u128(id))).collect();
        let distinct: std::collections::BTreeSet<_> = all.iter().collect();
        assert_eq!(distinct.len(), 8 * usize::from(TOKENS));
        assert!(all[..usize::from(TOKENS)].is_sorted());
    }
}
