//! What happens beside a connection, to the connections that registered for it.

use std::net::SocketAddr;

use tokio::sync::broadcast;

use crate::protocol::types::{EventType, SchemaChange};
use crate::protocol::writer::Writer;

/// How many events a connection may be behind before it is closed. A driver that connects again
/// reads the whole schema and all servers, so it misses nothing.
const BEHIND_MAX: usize = 1024;

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// The schema changed.
    Schema(SchemaChange),
    /// A server came to the database, or left it.
    Topology {
        /// Whether it came.
        is_new: bool,
        /// Where clients reach it.
        address: SocketAddr,
    },
    /// A server takes connections, or does not any more.
    Status {
        /// Whether it does.
        is_up: bool,
        /// Where clients reach it.
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

    /// Writes `<event_type><what happened>`.
    pub(crate) fn put(&self, out: &mut Writer) {
        out.string(self.event_type().name());
        let (word, address) = match self {
            Self::Schema(change) => return change.put(out),
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

/// Where events are told. Cheap to clone.
///
/// The server tells of schema changes that its own statements make and of what its backend hears
/// from elsewhere; whoever changes the schema on another way (the library beside the server) tells
/// that here too.
#[derive(Clone, Debug)]
pub struct Events(broadcast::Sender<Event>);

impl Events {
    pub(crate) fn new() -> Self {
        Self(broadcast::Sender::new(BEHIND_MAX))
    }

    /// Tells every connection that registered for events of its type.
    pub fn publish(&self, event: Event) {
        // An error says that nobody has registered.
        let _ = self.0.send(event);
    }

    pub(crate) fn subscribe(&self) -> broadcast::Receiver<Event> {
        self.0.subscribe()
    }
}
