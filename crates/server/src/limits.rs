//! Limits of a server.

use std::time::Duration;

use crate::accounts::AccountLimits;

/// Estimated bytes of a connection without requests and answers: its buffers and its task.
const CONNECTION_BYTES: usize = 48 << 10;
/// Estimated bytes of a TLS session: a record in each direction, and keys.
const TLS_BYTES: usize = 48 << 10;

/// Returns the estimated bytes of a connection without requests and answers.
pub(crate) const fn connection_bytes(has_tls: bool) -> usize {
    if has_tls { CONNECTION_BYTES + TLS_BYTES } else { CONNECTION_BYTES }
}

/// Limits of a server. The defaults suit a machine with a few GiB.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Maximum number of CQL connections; more are closed at once. Each may hold
    /// [`unsent_bytes_max`](Self::unsent_bytes_max) of answers. At most as many as fit into half of
    /// [`memory_bytes_max`](Self::memory_bytes_max). Default: 4096.
    pub connections_max: usize,
    /// Maximum number of CQL connections from one address, or one /64 network of IPv6; more are
    /// closed at once. Default: half of [`connections_max`](Self::connections_max).
    pub connections_per_address_max: Option<usize>,
    /// Maximum number of CQL connections of one user; further log-ins are refused. Default: no limit.
    pub connections_per_user_max: Option<usize>,
    /// Maximum number of requests per second of one user, or of one address if clients do not log in;
    /// further ones wait unread. Default: no limit.
    pub requests_per_client_max: Option<u32>,
    /// Maximum length of a request's body, in bytes, compressed and uncompressed. A longer body
    /// ends the connection. Default: 16 MiB, the same as Cassandra's.
    pub body_bytes_max: usize,
    /// Maximum bytes of all requests that have arrived and are not answered yet, on all
    /// connections. Further requests wait unread for up to 5 s, and are refused then. A higher limit admits more large
    /// requests; a lower one saves memory. Default: 256 MiB.
    pub request_bytes_max: usize,
    /// Maximum bytes of requests from one address. Default: half of
    /// [`request_bytes_max`](Self::request_bytes_max), and at least one request of maximum length.
    pub request_bytes_per_address_max: Option<usize>,
    /// Maximum number of statements in progress per connection; more stay unread. Default: 1024.
    pub requests_per_connection_max: usize,
    /// Maximum bytes of answers that wait to be sent on one connection; above it, nothing is read
    /// from the connection. Default: 1 MiB.
    pub unsent_bytes_max: usize,
    /// Maximum bytes of requests, answers and connections together. While they are used up,
    /// requests wait, and connections are closed at once. Default: 512 MiB.
    pub memory_bytes_max: usize,
    /// Maximum bytes of all answers that are being made or wait to be sent. While
    /// 64 KiB of it are not free, queries are refused as overloaded; one answer may have half of it. At most half of
    /// [`memory_bytes_max`](Self::memory_bytes_max). Default: 128 MiB.
    pub answer_bytes_max: usize,
    /// Timeout for a client's log-in, with its TLS handshake. Default: 10 s.
    pub greeting_timeout: Duration,
    /// Maximum time for which a client may stop in the middle of a request, or not read its
    /// answers. Default: 30 s.
    pub stall_timeout: Duration,
    /// Maximum time for the arrival of a request, in addition to one second for each 64 KiB of it.
    /// Default: 30 s.
    pub frame_timeout: Duration,
    /// Maximum idle time of a client between requests; zero for no limit. Drivers send a heartbeat
    /// every 30 s. Default: 10 min.
    pub idle_timeout: Duration,
    /// Maximum wait of a drain for requests in progress, before it cuts them off; zero for no wait.
    /// Default: 10 s.
    pub drain_timeout: Duration,
    /// Interval at which the files of certificates are checked for changes. Default: 10 s.
    pub certificate_interval: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections_max: 4096,
            connections_per_address_max: None,
            connections_per_user_max: None,
            requests_per_client_max: None,
            body_bytes_max: 16 << 20,
            request_bytes_max: 256 << 20,
            request_bytes_per_address_max: None,
            requests_per_connection_max: 1024,
            unsent_bytes_max: 1 << 20,
            memory_bytes_max: 512 << 20,
            answer_bytes_max: 128 << 20,
            greeting_timeout: Duration::from_secs(10),
            stall_timeout: Duration::from_secs(30),
            frame_timeout: Duration::from_secs(30),
            idle_timeout: Duration::from_secs(600),
            drain_timeout: Duration::from_secs(10),
            certificate_interval: Duration::from_secs(10),
        }
    }
}

impl Limits {
    /// Returns the maximum number of connections per address.
    pub(crate) fn connections_per_address(&self) -> usize {
        self.connections_per_address_max.unwrap_or_else(|| half(self.connections_max))
    }

    /// Returns the limits of what the connections of one user share.
    pub(crate) const fn accounts(&self) -> AccountLimits {
        AccountLimits {
            connections_max: self.connections_per_user_max,
            requests_per_second_max: self.requests_per_client_max,
        }
    }

    /// Divides this memory among requests, answers and connections: requests and answers may each
    /// have at most half, and a request of maximum length fits.
    #[must_use]
    pub fn of_memory(memory_bytes_max: usize) -> Self {
        let default = Self::default();
        let requests = half(memory_bytes_max).max(default.body_bytes_max).min(memory_bytes_max);
        Self {
            memory_bytes_max,
            request_bytes_max: requests,
            answer_bytes_max: half(memory_bytes_max),
            ..default
        }
    }

    /// Returns the maximum bytes of connections. Idle ones leave the other half to requests and
    /// answers.
    pub(crate) const fn connection_bytes(&self) -> usize {
        half(self.memory_bytes_max)
    }

    /// Lowers the number of connections to as many as fit into their memory, if each takes this number of
    /// bytes. Returns `true` if it was higher.
    pub(crate) fn fit_connections(&mut self, bytes: usize) -> bool {
        let room = (self.connection_bytes() / bytes).max(1);
        let is_lower = room < self.connections_max;
        self.connections_max = self.connections_max.min(room);
        is_lower
    }

    /// Returns the maximum bytes of answers.
    pub(crate) fn answer_bytes(&self) -> usize {
        self.answer_bytes_max.min(half(self.memory_bytes_max))
    }

    /// Returns the maximum bytes of requests per address.
    pub(crate) fn request_bytes_per_address(&self) -> usize {
        self.request_bytes_per_address_max.unwrap_or_else(|| {
            half(self.request_bytes_max).max(self.body_bytes_max).min(self.request_bytes_max)
        })
    }
}

const fn half(of: usize) -> usize {
    of.div_ceil(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One address may have half of them, so that it leaves a quarter to the connections of others.
    #[test]
    fn connections_leave_half_of_the_memory() {
        let mut limits = Limits::of_memory(80 << 20);
        assert!(limits.fit_connections(CONNECTION_BYTES));
        assert_eq!((limits.connections_max, limits.connections_per_address()), (853, 427));
        assert!(limits.connections_max * CONNECTION_BYTES <= 40 << 20);
        assert!(!limits.fit_connections(CONNECTION_BYTES));
        assert!(limits.fit_connections(connection_bytes(true)), "TLS takes more memory");
        assert_eq!(limits.connections_max, 426);
        let mut large = Limits::of_memory(1 << 30);
        assert!(!large.fit_connections(CONNECTION_BYTES));
        assert_eq!(large.connections_max, Limits::default().connections_max);
    }
}
