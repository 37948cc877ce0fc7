//! Limits and timeouts of the wire.

use std::time::Duration;

use super::codec::FRAME_BYTES_MAX;

/// Limits of the wire. They are part of the protocol: both ends of a connection count requests in
/// flight by the same rule, so a process that keeps to them is never disconnected.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Maximum number of requests in flight on a connection; a request counts until its answer has
    /// arrived.
    pub(super) requests_max: usize,
    /// Maximum bytes of the frames of requests in flight on a connection.
    pub(super) request_bytes_max: usize,
    /// Maximum bytes of answers that wait to be written to a connection.
    pub(super) answer_bytes_max: usize,
    /// Maximum number of incoming connections that have completed the handshake.
    pub(super) connections_max: usize,
    /// Maximum number of incoming connections that have not completed the handshake.
    pub(super) greetings_max: usize,
    /// Maximum number of those from one address.
    pub(super) greetings_per_address_max: usize,
    /// Timeout for connecting and the handshake.
    pub(super) greeting_timeout: Duration,
    /// Idle time before a keep-alive ping.
    pub(super) ping_every: Duration,
    /// Number of silent ping intervals after which the other side counts as gone.
    pub(super) pings_lost_max: u32,
    /// Number of ping intervals without a call after which a connection is closed.
    pub(super) pings_unused_max: u32,
    /// Silence after which a client counts as gone, even without pings.
    pub(super) client_silence_max: Duration,
    /// First wait before a reconnect; doubled each time.
    pub(super) retry_min: Duration,
    /// Longest wait before a reconnect.
    pub(super) retry_max: Duration,
    /// Number of failed reconnects without a call after which reconnecting stops.
    pub(super) retries_unused_max: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            requests_max: 1 << 14,
            request_bytes_max: 2 * FRAME_BYTES_MAX,
            answer_bytes_max: FRAME_BYTES_MAX,
            connections_max: 1024,
            greetings_max: 512,
            greetings_per_address_max: 16,
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
