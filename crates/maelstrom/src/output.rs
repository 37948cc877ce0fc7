//! The messages that a node sends.

use crate::message::Message;

/// Takes the messages that a node sends.
pub trait Output: Send + Sync + 'static {
    /// Sends a message.
    fn send(&self, message: Message);
}
