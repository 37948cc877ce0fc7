//! Events that clients can register for.

use std::net::SocketAddr;

use carnet_cql::result::SchemaChange;

use super::types::{EventType, put_change};
use super::writer::Writer;

/// Event that clients can register for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// The schema changed.
    Schema(SchemaChange),
    /// A server joined or left the database.
    Topology {
        /// Whether the server joined.
        is_new: bool,
        /// Address at which clients reach it.
        address: SocketAddr,
    },
    /// A server started or stopped taking connections.
    Status {
        /// Whether the server takes connections.
        is_up: bool,
        /// Address at which clients reach it.
        address: SocketAddr,
    },
}

impl Event {
    pub(crate) const fn event_type(&self) -> EventType {
        match self {
            Self::Schema(_) => EventType::Schema,
            Self::Topology { .. } => EventType::Topology,
            Self::Status { .. } => EventType::Status,
        }
    }

    /// Writes `<event_type>` and the event's fields.
    pub(crate) fn put(&self, out: &mut Writer) {
        out.string(self.event_type().name());
        let (word, address) = match self {
            Self::Schema(change) => return put_change(change, out),
            Self::Topology { is_new: true, address } => ("NEW_NODE", address),
            Self::Topology { is_new: false, address } => ("REMOVED_NODE", address),
            Self::Status { is_up: true, address } => ("UP", address),
            Self::Status { is_up: false, address } => ("DOWN", address),
        };
        out.string(word);
        out.address(address.ip());
        out.int(address.port().into());
    }
}
