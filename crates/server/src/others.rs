//! What the other servers of a database do, as this one's clients are to hear of it.

use carnet::{Isolation, Uuid};
use carnet_cql::Executor;
use carnet_cql::system::{self, Peer, SchemaDigest};

use crate::events::Event;
use crate::executor::schema_change;

/// What was seen of them last.
#[derive(Default)]
pub(crate) struct Others {
    peers: Vec<Peer>,
    schema: Option<(Uuid, SchemaDigest)>,
}

impl Others {
    /// Looks again; returns what happened since.
    ///
    /// Changes of schema that this server's own statements made are among it: their clients have
    /// heard of them already, which costs a refresh; telling them apart could cost one that is
    /// needed.
    pub(crate) async fn look(&mut self, executor: &Executor) -> Vec<Event> {
        let mut events = self.look_at_servers(executor.peers());
        match self.look_at_schema(executor).await {
            Ok(changes) => events.extend(changes),
            // The cluster is away; what has changed is seen when it is back.
            Err(error) => tracing::debug!(%error, "the schema cannot be looked at"),
        }
        events
    }

    fn look_at_servers(&mut self, now: Vec<Peer>) -> Vec<Event> {
        let before = std::mem::replace(&mut self.peers, now);
        let is_in = |peers: &[Peer], peer: &Peer| peers.iter().any(|p| p.address == peer.address);
        let gone = before.iter().filter(|peer| !is_in(&self.peers, peer));
        let gone = gone.flat_map(|Peer { address, .. }| {
            let address = *address;
            [Event::Status { is_up: false, address }, Event::Topology { is_new: false, address }]
        });
        let new = self.peers.iter().filter(|peer| !is_in(&before, peer));
        let new = new.flat_map(|Peer { address, .. }| {
            let address = *address;
            [Event::Topology { is_new: true, address }, Event::Status { is_up: true, address }]
        });
        gone.chain(new).collect()
    }

    async fn look_at_schema(&mut self, executor: &Executor) -> carnet::Result<Vec<Event>> {
        // Not strict: that would be a conditional read of the cluster every second.
        let options = executor.db().transaction().isolation(Isolation::Serializable);
        let tx = options.snapshot_async(None).await?;
        let version = system::schema_version(&tx).await?;
        if self.schema.as_ref().is_some_and(|(known, _)| *known == version) {
            return Ok(Vec::new());
        }
        let digest = SchemaDigest::read(&tx).await?;
        let before = self.schema.replace((version, digest.clone()));
        let changes = before.map_or_else(Vec::new, |(_, before)| digest.changes_since(&before));
        Ok(changes.into_iter().map(|change| Event::Schema(schema_change(change))).collect())
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;

    fn peer(port: u16) -> Peer {
        let address = SocketAddr::from(([10, 0, 0, 1], port));
        let (data_center, rack) = ("datacenter1".into(), "rack1".into());
        Peer { host_id: Uuid::from_u128(port.into()), address, data_center, rack }
    }

    #[test]
    fn servers_that_come_and_go_are_told_once_each() {
        let (one, two) = (peer(1), peer(2));
        let mut others = Others::default();
        let new = |peer: &Peer| {
            let address = peer.address;
            [Event::Topology { is_new: true, address }, Event::Status { is_up: true, address }]
        };
        let gone = |peer: &Peer| {
            let address = peer.address;
            [Event::Status { is_up: false, address }, Event::Topology { is_new: false, address }]
        };
        assert_eq!(others.look_at_servers(vec![one.clone()]), new(&one));
        assert_eq!(others.look_at_servers(vec![one.clone()]), []);
        let both = others.look_at_servers(vec![two.clone()]);
        assert_eq!(both, [gone(&one), new(&two)].concat());
        assert_eq!(others.look_at_servers(Vec::new()), gone(&two));
    }
}
