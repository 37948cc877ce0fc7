//! The value that binds a handshake to its TLS connection.

/// Bytes that only the two ends of a TLS connection know; `None` without TLS.
pub(super) type Binding = Option<[u8; 32]>;
