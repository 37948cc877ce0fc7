//! Publisher of events for the connections that registered for them.

use tokio::sync::broadcast;

use crate::protocol::event::Event;

/// Maximum number of events that a connection may lag behind before it is closed. A driver that
/// reconnects reads the whole schema and all servers, so it misses nothing.
const BEHIND_MAX: usize = 1024;

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
