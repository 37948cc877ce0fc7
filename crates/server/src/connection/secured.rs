//! Bytes of a connection over TLS.
//!
//! Records are read from the socket like the bytes of a plain connection, so that the kernel tells
//! when they arrived. A record can be decrypted only when it is complete: its bytes count as arrived with
//! its last one. The record's beginning, at most 18 KiB, waits in the session.
//!
//! Answers are encrypted one record at a time, and the next record only after the socket has taken
//! the last one. The bytes of a record leave the caller's buffer when the whole record has left, so
//! that unsent bytes are counted as they are on a plain connection.

use std::io::{self, BufRead, Write};
use std::sync::Mutex;

use bytes::{Buf, BytesMut};
use carnet_base::lock;
use carnet_cql::system::ClientTls;
use rustls::{ProtocolVersion, ServerConnection};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

use super::receive::{Received, receive_with};
use crate::tls::identities;

/// Maximum number of bytes of one record.
const RECORD_LEN_MAX: usize = 16 << 10;

/// A connection over TLS after its handshake. One task uses it; its reading and its writing half
/// share the session.
pub(super) struct Secured {
    tcp: TcpStream,
    session: Mutex<Session>,
}

struct Session {
    tls: ServerConnection,
    /// Number of bytes at the front of the caller's buffer whose record is not sent completely.
    encrypted: usize,
    /// Whether the client has ended its direction of the connection.
    is_ended: bool,
}

impl Secured {
    pub(super) fn new(stream: TlsStream<TcpStream>) -> Self {
        let (tcp, tls) = stream.into_inner();
        let session = Mutex::new(Session { tls, encrypted: 0, is_ended: false });
        Self { tcp, session }
    }

    /// Returns the version and cipher suite.
    pub(super) fn tls(&self) -> ClientTls {
        let session = lock(&self.session);
        let version = match session.tls.protocol_version() {
            Some(ProtocolVersion::TLSv1_2) => "TLSv1.2",
            _ => "TLSv1.3",
        };
        let suite = session.tls.negotiated_cipher_suite().map(|suite| suite.suite());
        let name = suite.and_then(|suite| suite.as_str()).unwrap_or_default();
        // rustls adds the version to the registered name.
        ClientTls { version, cipher_suite: name.replacen("TLS13_", "TLS_", 1) }
    }

    /// Returns the identities in the client's certificate; none without one.
    pub(super) fn identities(&self) -> Vec<String> {
        let session = lock(&self.session);
        let certificate = session.tls.peer_certificates().and_then(|chain| chain.first());
        certificate.map(|certificate| identities(certificate)).unwrap_or_default()
    }

    /// Returns the socket.
    pub(super) const fn tcp(&self) -> &TcpStream {
        &self.tcp
    }

    /// Returns the socket, for bytes that are not decrypted.
    pub(super) const fn tcp_mut(&mut self) -> &mut TcpStream {
        &mut self.tcp
    }

    /// Reads available bytes; see [`receive`](super::receive::receive).
    pub(super) async fn receive(&self, inbox: &mut BytesMut) -> io::Result<Received> {
        // The first request may have come with the end of the handshake.
        let mut received = Received { len: 0, stamp: None, is_full: true };
        received.len = lock(&self.session).decrypt(&[], inbox)?;
        while received.len == 0 && !self.is_ended() {
            let mut len = 0;
            let read = receive_with(&self.tcp, |bytes| {
                let decrypted = lock(&self.session).decrypt(bytes, inbox);
                len = decrypted.inspect_err(|_| drop(self.flush()))?;
                Ok(())
            });
            let read = read.await?;
            if read.len == 0 {
                return Ok(read);
            }
            // The client may have asked for new keys. What does not leave now goes before the next answer.
            drop(self.flush());
            received = Received { len, ..read };
            tokio::task::coop::consume_budget().await;
        }
        Ok(received)
    }

    /// Sends bytes from the front of the buffer, and removes them. It can be cancelled without a loss.
    pub(super) async fn send(&self, out: &mut BytesMut) -> io::Result<usize> {
        loop {
            match self.try_send(out) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                sent => return sent,
            }
            self.tcp.writable().await?;
        }
    }

    /// Sends bytes if the socket takes a whole record now.
    ///
    /// # Errors
    ///
    /// `WouldBlock` if it takes less; the next call goes on with the record.
    pub(super) fn try_send(&self, out: &mut BytesMut) -> io::Result<usize> {
        self.flush()?;
        let mut session = lock(&self.session);
        if session.encrypted == 0 {
            let record = &out[..out.len().min(RECORD_LEN_MAX)];
            session.encrypted = session.tls.writer().write(record)?;
            session.flush(&self.tcp)?;
        }
        let sent = std::mem::take(&mut session.encrypted);
        out.advance(sent);
        Ok(sent)
    }

    /// Tells the client that no more bytes follow, and ends the sending direction.
    pub(super) async fn shutdown(&mut self) -> io::Result<()> {
        lock(&self.session).tls.send_close_notify();
        while let Err(error) = self.flush() {
            if error.kind() != io::ErrorKind::WouldBlock {
                return Err(error);
            }
            self.tcp.writable().await?;
        }
        self.tcp.shutdown().await
    }

    fn is_ended(&self) -> bool {
        lock(&self.session).is_ended
    }

    fn flush(&self) -> io::Result<()> {
        lock(&self.session).flush(&self.tcp)
    }
}

impl Session {
    /// Takes bytes of records, appends the decrypted ones, and returns their number.
    fn decrypt(&mut self, mut records: &[u8], inbox: &mut BytesMut) -> io::Result<usize> {
        let before = inbox.len();
        self.take_decrypted(inbox)?;
        while !records.is_empty() && !self.is_ended {
            self.tls.read_tls(&mut records)?;
            let processed = self.tls.process_new_packets();
            processed.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
            self.take_decrypted(inbox)?;
        }
        Ok(inbox.len() - before)
    }

    fn take_decrypted(&mut self, inbox: &mut BytesMut) -> io::Result<()> {
        let mut reader = self.tls.reader();
        loop {
            match reader.fill_buf() {
                Ok([]) => {
                    self.is_ended = true;
                    return Ok(());
                }
                Ok(bytes) => {
                    let len = bytes.len();
                    inbox.extend_from_slice(bytes);
                    reader.consume(len);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }

    /// Sends encrypted bytes until none is left.
    fn flush(&mut self, tcp: &TcpStream) -> io::Result<()> {
        while self.tls.wants_write() {
            self.tls.write_tls(&mut Socket(tcp))?;
        }
        Ok(())
    }
}

/// A socket as `rustls` writes to it.
struct Socket<'a>(&'a TcpStream);

impl Write for Socket<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write(bytes)
    }

    fn write_vectored(&mut self, slices: &[io::IoSlice<'_>]) -> io::Result<usize> {
        self.0.try_write_vectored(slices)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
