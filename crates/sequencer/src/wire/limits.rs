//! How much a process takes on for others, and how long it waits for them.

use std::time::Duration;

use super::codec::FRAME_BYTES_MAX;

/// Limits of the wire. They are part of the protocol: both ends of a connection count what is
/// under way by the same rule, so that who keeps them is never cut off.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Requests under way on a connection, each until its answer has come.
    pub(super) requests_max: usize,
    /// The bytes of their frames.
    pub(super) request_bytes_max: usize,
    /// Bytes of answers that wait to be written.
    pub(super) answer_bytes_max: usize,
    /// Connections of others that were let in.
    pub(super) connections_max: usize,
    /// Connections of others that have not said yet who they are.
    pub(super) greetings_max: usize,
    /// Those of them that one address may have.
    pub(super) greetings_per_address_max: usize,
    /// How long connecting and greeting may take.
    pub(super) greeting_timeout: Duration,
    /// Whoever was not heard of for that long is asked whether he is there.
    pub(super) ping_every: Duration,
    /// Who was not heard of for so many of those is gone.
    pub(super) pings_lost_max: u32,
    /// A connection that nobody called on for so many of those is closed.
    pub(super) pings_unused_max: u32,
    /// Clients who do not even ping for so long are gone.
    pub(super) client_silence_max: Duration,
    /// The first wait before a connection is tried again, doubled each time.
    pub(super) retry_min: Duration,
    /// The longest.
    pub(super) retry_max: Duration,
    /// Connections that fail so often while nobody calls are not tried again.
    pub(super) retries_unused_max: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            requests_max: 1 << 14,
            request_bytes_max: 2 * FRAME_BYTES_MAX,
            answer_bytes_max: FRAME_BYTES_MAX,
            connections_max: 1024,
            greetings_max: 128,
            greetings_per_address_max: 64,
            greeting_timeout: Duration::from_secs(2),
            ping_every: Duration::from_millis(250),
            pings_lost_max: 4,
            pings_unused_max: 240,
            client_silence_max: Duration::from_secs(10),
            retry_min: Duration::from_millis(10),
            retry_max: Duration::from_millis(500),
            retries_unused_max: 10,
        }
    }
}
