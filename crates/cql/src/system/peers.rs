//! Servers of one database: how they announce themselves to each other, and what each knows of the
//! others.
//!
//! An announcement is an object in JSON, so that servers of different versions understand what they
//! have in common:
//!
//! ```text
//! {"cql":{"host_id":"…","address":"10.0.0.9","port":9042,
//!         "data_center":"datacenter1","rack":"rack1","started":1700000000}}
//! ```

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use carnet::base::murmur3;
use carnet::{Bytes, Uuid};
use serde::{Deserialize, Serialize};

use super::node::NodeInfo;

/// Servers of one database have so many tokens each, Cassandra's number: drivers that route by token
/// spread partitions about evenly over them.
const TOKENS: u8 = 16;

/// Another server of the same database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Names it for good.
    pub host_id: Uuid,
    /// Where clients reach it.
    pub address: SocketAddr,
    /// Its data centre.
    pub data_center: String,
    /// The rack in it.
    pub rack: String,
}

#[derive(Serialize, Deserialize)]
struct Announcement {
    /// What other processes announce has another name.
    cql: Server,
}

#[derive(Serialize, Deserialize)]
struct Server {
    host_id: String,
    address: IpAddr,
    port: u16,
    data_center: String,
    rack: String,
    /// Seconds from 1970 to its start.
    started: i32,
}

impl NodeInfo {
    /// Says of the node what the other servers of its database are to know.
    #[must_use]
    pub fn announcement(&self) -> Bytes {
        let server = Server {
            host_id: self.host_id.to_string(),
            address: self.address,
            port: self.port,
            data_center: self.data_center.clone(),
            rack: self.rack.clone(),
            started: self.started_secs,
        };
        let text = serde_json::to_vec(&Announcement { cql: server });
        text.expect("texts and numbers can be written as JSON").into()
    }

    /// Reads what the other servers announce, in the order of their addresses. What is no
    /// announcement of a server is passed over; of two at one address the later one lives.
    #[must_use]
    pub fn peers(&self, announced: &[Bytes]) -> Vec<Peer> {
        let own = SocketAddr::new(self.address, self.port);
        let mut peers: Vec<(i32, Peer)> =
            announced.iter().filter_map(|text| Peer::of(text)).collect();
        peers.sort_by_key(|(started, peer)| (*started, peer.host_id));
        let peers = peers.into_iter().map(|(_, peer)| peer);
        let others = peers.filter(|peer| peer.host_id != self.host_id && peer.address != own);
        let by_address: BTreeMap<_, _> = others.map(|peer| (peer.address, peer)).collect();
        by_address.into_values().collect()
    }
}

impl Peer {
    /// Reads an announcement; returns when the server started, too.
    fn of(text: &[u8]) -> Option<(i32, Self)> {
        let Announcement { cql } = serde_json::from_slice(text).ok()?;
        let Server { host_id, address, port, data_center, rack, started } = cql;
        let host_id = Uuid::parse_str(&host_id).ok()?;
        let address = SocketAddr::new(address, port);
        Some((started, Self { host_id, address, data_center, rack }))
    }

    /// The tokens it has among the servers of its database.
    #[must_use]
    pub fn tokens(&self) -> Vec<String> {
        tokens(self.host_id)
    }
}

/// The tokens of a server among others, as texts in the order of texts. They follow from its id, so
/// that all agree on them and nothing has to be stored.
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
    fn a_server_knows_the_others_and_not_itself() {
        let nodes = [node(3, 9043), node(1, 9042), node(2, 9044)];
        let announced: Vec<Bytes> = nodes.iter().map(NodeInfo::announcement).collect();
        let peers = nodes[1].peers(&announced);
        let known: Vec<_> = peers.iter().map(|peer| (peer.host_id, peer.address.port())).collect();
        assert_eq!(known, [(Uuid::from_u128(3), 9043), (Uuid::from_u128(2), 9044)]);
        assert_eq!((&*peers[0].data_center, &*peers[0].rack), ("datacenter1", "rack1"));
    }

    #[test]
    fn a_server_that_came_back_is_there_once_and_never_its_own_peer() {
        // Its last life is not forgotten yet, and a copy of this one has the same address.
        let now = NodeInfo { started_secs: 7, ..node(2, 9043) };
        let lives = [now, node(3, 9043), node(4, 9042)];
        let announced: Vec<Bytes> = lives.iter().map(NodeInfo::announcement).collect();
        let peers = node(1, 9042).peers(&announced);
        let ids: Vec<Uuid> = peers.iter().map(|peer| peer.host_id).collect();
        assert_eq!(ids, [Uuid::from_u128(2)]);
    }

    #[test]
    fn what_others_announce_is_passed_over() {
        let later = r#"{"cql":{"host_id":"00000000-0000-0000-0000-000000000005","address":"::1",
            "port":1,"data_center":"d","rack":"r","started":9,"colour":"blue"},"more":[]}"#;
        let others = ["", "{}", "\u{1}", r#"{"cql":{}}"#, r#"{"cql":{"host_id":"x"}}"#, later];
        let announced: Vec<Bytes> = others.map(|text| text.to_owned().into()).into();
        let peers = node(1, 9042).peers(&announced);
        assert_eq!(peers.len(), 1);
        assert_eq!(peers[0].address, "[::1]:1".parse().unwrap());
    }

    #[test]
    fn tokens_are_distinct_sorted_as_texts_and_the_same_for_all() {
        let all: Vec<String> = (0..8).flat_map(|id| tokens(Uuid::from_u128(id))).collect();
        let distinct: std::collections::BTreeSet<_> = all.iter().collect();
        assert_eq!(distinct.len(), 8 * usize::from(TOKENS));
        assert!(all[..usize::from(TOKENS)].is_sorted());
    }
}
