//! Stream of a connection: plain, or over TLS.

#![expect(clippy::disallowed_methods, reason = "its tasks run on the runtime")]

use std::io;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use carnet_cql::system::ClientTls;
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest, Ready};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::time::timeout;

use super::receive::{Received, receive};
use super::secured::Secured;

/// Maximum time, and number of bytes, that the server reads after its last answer.
const LINGER: Duration = Duration::from_secs(1);
const LINGER_BYTES: usize = 1 << 20;
/// Buffer for these bytes.
const LINGER_READ_LEN: usize = 16 << 10;

/// Stream of a connection.
pub(super) enum Stream {
    /// Bytes as they are.
    Plain(TcpStream),
    /// Bytes over TLS.
    Secured(Box<Secured>),
}

/// Reading half of a stream.
pub(super) enum Reader<'a> {
    /// Of a plain stream.
    Plain(ReadHalf<'a>),
    /// Of a stream over TLS.
    Secured(&'a Secured),
}

/// Writing half of a stream.
pub(super) enum Writer<'a> {
    /// Of a plain stream.
    Plain(WriteHalf<'a>),
    /// Of a stream over TLS.
    Secured(&'a Secured),
}

impl Stream {
    /// Returns the halves, which one task uses concurrently.
    pub(super) fn split(&mut self) -> (Reader<'_>, Writer<'_>) {
        match self {
            Self::Plain(stream) => {
                let (reader, writer) = stream.split();
                (Reader::Plain(reader), Writer::Plain(writer))
            }
            Self::Secured(stream) => (Reader::Secured(stream), Writer::Secured(stream)),
        }
    }

    /// Returns the connection's encryption; `None` if it is plain.
    pub(super) fn tls(&self) -> Option<ClientTls> {
        match self {
            Self::Plain(_) => None,
            Self::Secured(stream) => Some(stream.tls()),
        }
    }

    /// Returns the identities in the client's certificate; none without one.
    pub(super) fn identities(&self) -> Vec<String> {
        match self {
            Self::Plain(_) => Vec::new(),
            Self::Secured(stream) => stream.identities(),
        }
    }

    /// Shuts the sending side down, and reads the client's remaining bytes.
    pub(super) async fn linger(mut self) {
        // The outcome no longer matters.
        let _ = timeout(LINGER, self.drain()).await;
    }

    async fn drain(&mut self) -> io::Result<()> {
        // The remaining bytes need not be decrypted.
        let tcp = match self {
            Self::Plain(tcp) => {
                tcp.shutdown().await?;
                tcp
            }
            Self::Secured(stream) => {
                stream.shutdown().await?;
                stream.tcp_mut()
            }
        };
        let mut thrown_away = BytesMut::with_capacity(LINGER_READ_LEN);
        let mut left = LINGER_BYTES;
        while left > 0 {
            thrown_away.clear();
            match tcp.read_buf(&mut thrown_away).await? {
                0 => break,
                read => left = left.saturating_sub(read),
            }
        }
        Ok(())
    }
}

impl Reader<'_> {
    /// Reads available bytes; see [`receive`].
    pub(super) async fn receive(&self, inbox: &mut BytesMut) -> io::Result<Received> {
        match self {
            Self::Plain(reader) => receive(reader.as_ref(), inbox).await,
            Self::Secured(stream) => stream.receive(inbox).await,
        }
    }

    /// Waits until the socket has bytes, or its end.
    pub(super) async fn ready(&self) -> io::Result<Ready> {
        match self {
            Self::Plain(reader) => reader.ready(Interest::READABLE).await,
            Self::Secured(stream) => stream.tcp().ready(Interest::READABLE).await,
        }
    }
}

impl Writer<'_> {
    /// Sends bytes from the front of the buffer, and removes them. It can be cancelled without a loss.
    pub(super) async fn send(&mut self, out: &mut BytesMut) -> io::Result<usize> {
        match self {
            Self::Plain(writer) => writer.write_buf(out).await,
            Self::Secured(stream) => stream.send(out).await,
        }
    }

    /// Sends bytes that the socket takes now.
    ///
    /// # Errors
    ///
    /// `WouldBlock` if it takes none.
    pub(super) fn try_send(&self, out: &mut BytesMut) -> io::Result<usize> {
        match self {
            Self::Plain(writer) => {
                let len = writer.try_write(out)?;
                out.advance(len);
                Ok(len)
            }
            Self::Secured(stream) => stream.try_send(out),
        }
    }
}
