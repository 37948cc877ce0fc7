//! A snapshot that blocks the sweep.

use std::time::Duration;

use carnet_base::Timestamp;

use crate::message::ClientId;

/// A snapshot in use, which blocks the sweep beyond it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The process that opened it.
    pub client: ClientId,
    /// The snapshot R.
    pub read: Timestamp,
    /// The start S, for a writer.
    pub start: Option<Timestamp>,
    /// Time for which it has been in use.
    pub since: Duration,
}
