//! Events for the connections that registered for them.

use std::net::SocketAddr;

use carnet_cql::result::SchemaChange;
use tokio::sync::broadcast;

use crate::protocol::types::{EventType, put_change};
use crate::protocol::writer::Writer;

/// Maximum number of events that a connection may lag behind before it is closed. A driver that
/// reconnects reads the whole schema and all servers, so it misses nothing.
const BEHIND_MAX: usize = 1024;

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

/// Publisher of events. Cheap to clone.
///
/// The server publishes events from its backend, and schema changes of its own statements that the
/// backend does not report. Code that changes the schema of a single server in another way (the
/// library in the server's process) must publish the change here too.
#[derive(Clone, Debug)]
pub struct Events(broadcast::Sender<Event>);

impl Events {
    pub(crate) fn new() -> Self {
        Self(broadcast::Sender::new(BEHIND_MAX))
    }

    /// Sends an event to every connection that registered for its type.
    pub fn publish(&self, event: Event) {
        // An error means that no connection has registered.
        let _ = self.0.send(event);
    }

    pub(crate) fn subscribe(&self) -> broadcast::Receiver<Event> {
        self.0.subscribe()
    }
}
