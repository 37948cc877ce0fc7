//! Handshakes: bounded in number, and with their signatures on threads beside those of statements.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::thread::available_parallelism;

use carnet_base::AddressLimit;
use rustls::server::Acceptor;
use rustls::{AlertDescription, CertificateError, ServerConfig};
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::task;
use tokio_rustls::LazyConfigAcceptor;
use tokio_rustls::server::TlsStream;

/// Maximum number of handshakes in progress.
pub(crate) const HANDSHAKES_MAX: usize = 512;
/// Maximum number of these from one address.
pub(crate) const HANDSHAKES_PER_ADDRESS_MAX: usize = 16;
/// First byte of every handshake: the type of its record.
pub(crate) const HANDSHAKE_RECORD: u8 = 0x16;

/// Places for handshakes. A handshake waits until it has one of its address and one in all.
pub(crate) struct Handshakes {
    all: Semaphore,
    by_address: Arc<AddressLimit<Arc<Semaphore>>>,
    signatures: Arc<Semaphore>,
}

/// Reason for the end of a handshake.
#[derive(Debug)]
pub(crate) enum HandshakeFailure {
    /// The client closed the connection before its first byte, as load balancers do that check a port.
    Silent,
    /// The client began with this byte, which no handshake begins with. It is not read yet.
    Plaintext { first: u8, stream: TcpStream },
    /// The handshake failed.
    Failed(io::Error),
}

impl Handshakes {
    pub(crate) fn new() -> Self {
        // Half of the processors, so that a flood of handshakes leaves the rest to statements.
        let signatures_max = available_parallelism().map_or(1, |all| all.get().div_ceil(2));
        Self {
            all: Semaphore::new(HANDSHAKES_MAX),
            // The number of connections per address is limited elsewhere.
            by_address: AddressLimit::new(usize::MAX),
            signatures: Arc::new(Semaphore::new(signatures_max)),
        }
    }

    /// Runs the server's side of a handshake. The caller sets the deadline.
    ///
    /// # Errors
    ///
    /// The handshake's failure; an alert was sent to the client if it speaks TLS.
    pub(crate) async fn accept(
        &self,
        config: Arc<ServerConfig>,
        stream: TcpStream,
        address: IpAddr,
    ) -> Result<TlsStream<TcpStream>, HandshakeFailure> {
        // A client that sends nothing needs no place yet.
        let mut first = [0];
        match stream.peek(&mut first).await {
            Ok(0) => return Err(HandshakeFailure::Silent),
            Ok(_) if first[0] != HANDSHAKE_RECORD => {
                return Err(HandshakeFailure::Plaintext { first: first[0], stream });
            }
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
        let of_address = || Arc::new(Semaphore::new(HANDSHAKES_PER_ADDRESS_MAX));
        let by_address = self.by_address.enter(address, of_address).ok_or_else(closed)?;
        let _of_address = acquire(by_address.shared()).await?;
        let _of_all = acquire(&self.all).await?;
        let hello = LazyConfigAcceptor::new(Acceptor::default(), stream).await?;
        // The thread has the permit: a client that disconnects does not free it.
        let signature = Arc::clone(&self.signatures).acquire_owned().await;
        let signature = signature.map_err(|_| closed())?;
        let signed = task::spawn_blocking(move || {
            let _signature = signature;
            hello.into_stream(config)
        });
        Ok(signed.await.map_err(io::Error::other)?.await?)
    }
}

#[cfg(test)]
impl Handshakes {
    /// Returns the number of handshakes in progress.
    pub(super) fn in_progress(&self) -> usize {
        HANDSHAKES_MAX - self.all.available_permits()
    }

    /// Returns the number of further signatures that may be made at the same time.
    pub(super) fn signatures_free(&self) -> usize {
        self.signatures.available_permits()
    }
}

impl HandshakeFailure {
    /// Returns the message for the log, with a remedy for the usual reasons.
    pub(crate) fn explain(error: &io::Error) -> String {
        let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<rustls::Error>());
        let remedy = match cause {
            Some(rustls::Error::NoCertificatesPresented) => {
                "the client shows no certificate, and tls.clients is \"required\""
            }
            Some(rustls::Error::InvalidCertificate(CertificateError::Revoked)) => {
                "the client's certificate is revoked"
            }
            Some(rustls::Error::InvalidCertificate(_)) => {
                "the client's certificate is not accepted: an authority in tls.client_ca must have \
                 signed it, and it must be in force"
            }
            Some(rustls::Error::AlertReceived(
                AlertDescription::UnknownCA
                | AlertDescription::BadCertificate
                | AlertDescription::CertificateUnknown
                | AlertDescription::CertificateExpired,
            )) => {
                "the client does not accept the server's certificate: give the client the authority \
                 that signed it, and check its names and its end"
            }
            Some(rustls::Error::PeerIncompatible(_)) => {
                "the client offers no common version or cipher: TLS 1.2 and 1.3 are supported"
            }
            _ => return error.to_string(),
        };
        format!("{remedy} ({error})")
    }
}

impl From<io::Error> for HandshakeFailure {
    fn from(error: io::Error) -> Self {
        Self::Failed(error)
    }
}

async fn acquire(places: &Semaphore) -> io::Result<SemaphorePermit<'_>> {
    places.acquire().await.map_err(|_| closed())
}

/// Returns the error of a semaphore that is closed, which never happens.
fn closed() -> io::Error {
    io::Error::other("the server ends")
}
