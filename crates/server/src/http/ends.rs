//! Both ends of a connection.

use std::net::{IpAddr, SocketAddr};

/// Addresses of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ends {
    pub(super) peer: SocketAddr,
    /// Address of this machine that the client has reached.
    pub(super) local: IpAddr,
    /// Whether the connection is over TLS.
    pub(super) over_tls: bool,
}
