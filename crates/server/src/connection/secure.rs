//! The TLS handshake of a connection, and the answer to clients that begin without one.

#![expect(clippy::disallowed_methods, reason = "its tasks run on the runtime")]

use std::io;
use std::net::SocketAddr;

use bytes::BytesMut;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};
use tracing::debug;

use super::secured::Secured;
use super::shared::Shared;
use super::statement::encode;
use super::stream::Stream;
use crate::protocol::Version;
use crate::protocol::encoder::Encoding;
use crate::protocol::error::{ErrorCode, ErrorResponse};
use crate::protocol::response::{Notes, Response};
use crate::tls::HandshakeFailure;

/// Answer to a client without TLS.
const TLS_REQUIRED: &str = "this server's port requires TLS: switch TLS (SSL) on in the driver, with the authority of the \
     server's certificate; nothing was done";
/// Log line for it.
const PLAINTEXT: &str = "the client speaks no TLS, which this port requires: switch TLS on in the driver (docs/security.md)";

/// Runs the handshake if connections are over TLS. Returns `None` if the connection has ended.
pub(super) async fn secure<B>(
    shared: &Shared<B>,
    stream: TcpStream,
    peer: SocketAddr,
    deadline: Instant,
    mut drain: watch::Receiver<bool>,
) -> Option<Stream> {
    let Some(tls) = &shared.tls else { return Some(Stream::Plain(stream)) };
    let _in_progress = shared.metrics.tls_handshakes.enter();
    let handshake = shared.handshakes.accept(tls.drivers(), stream, peer.ip());
    let in_time = async {
        tokio::select! {
            handshake = timeout_at(deadline, handshake) => Some(handshake),
            // A client that has not logged in yet loses nothing.
            () = async { drop(drain.wait_for(|drains| *drains).await) } => None,
        }
    };
    let failure = match in_time.await? {
        Ok(Ok(stream)) => return Some(Stream::Secured(Box::new(Secured::new(stream)))),
        Ok(Err(failure)) => failure,
        Err(_) => io::Error::new(io::ErrorKind::TimedOut, "it took too long").into(),
    };
    match failure {
        HandshakeFailure::Silent => debug!(%peer, "closed before its first byte"),
        HandshakeFailure::Plaintext { first, stream } => {
            shared.metrics.tls_handshakes_failed.add(1);
            shared.log.connection(peer, PLAINTEXT);
            refuse(shared, stream, first).await;
        }
        HandshakeFailure::Failed(error) => {
            shared.metrics.tls_handshakes_failed.add(1);
            shared.log.handshake(peer, HandshakeFailure::explain(&error));
        }
    }
    None
}

/// Answers a request without TLS by an error, if it has a version of the protocol.
async fn refuse<B>(shared: &Shared<B>, mut stream: TcpStream, first: u8) {
    let known = Version::from_number(first);
    let Some(version) = known.or(is_version(first).then_some(Version::HIGHEST)) else { return };
    let mut request = BytesMut::with_capacity(64);
    if stream.read_buf(&mut request).await.is_err() {
        return;
    }
    let number = match request.get(2..4) {
        Some(&[high, low]) if known.is_some() => i16::from_be_bytes([high, low]),
        _ => 0,
    };
    let response = Response::Error(ErrorResponse::plain(ErrorCode::Protocol, TLS_REQUIRED));
    let encoding = Encoding { version, lz4: false };
    let frame = encode(&shared.metrics, encoding, number, response, Notes::default());
    // The socket of a new connection has room for a short answer.
    if stream.writable().await.is_ok() && stream.try_write(&frame).is_ok() {
        Stream::Plain(stream).linger().await;
    }
}

/// Returns `true` if this is a version of the protocol, supported or not: those of Cassandra, and two
/// of DSE that drivers try first.
const fn is_version(first: u8) -> bool {
    matches!(first, 1..=6 | 0x41 | 0x42)
}
