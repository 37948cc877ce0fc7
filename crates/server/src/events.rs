//! Schema changes, to the connections that registered for them.

use tokio::sync::broadcast;

use crate::protocol::types::SchemaChange;

/// How many changes a connection may be behind before it is closed. A driver that connects again
/// reads the whole schema, so it misses nothing.
const BEHIND_MAX: usize = 1024;

/// Where schema changes are told. Cheap to clone.
///
/// The server tells those that its own statements make; whoever changes the schema on another way
/// (the library beside the server) tells them here too.
#[derive(Clone, Debug)]
pub struct SchemaEvents(broadcast::Sender<SchemaChange>);

impl SchemaEvents {
    pub(crate) fn new() -> Self {
        Self(broadcast::Sender::new(BEHIND_MAX))
    }

    /// Tells every registered connection.
    pub fn publish(&self, change: SchemaChange) {
        // An error says that nobody has registered.
        let _ = self.0.send(change);
    }

    pub(crate) fn subscribe(&self) -> broadcast::Receiver<SchemaChange> {
        self.0.subscribe()
    }
}
