//! TLS certificates and their verification.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

use carnet_base::Result;
use carnet_store::pem;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::version::TLS13;
use rustls::{
    ClientConfig, ConnectionCommon, DigitallySignedStruct, ServerConfig, SignatureScheme,
};
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, TlsConnector, TlsStream};

use super::binding::Binding;
use super::refusal::Refusal;

/// The certificate of a process, and the authority it trusts. Only TLS 1.3 is supported.
#[derive(Clone)]
pub struct Tls {
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
    has_authority: bool,
}

impl Tls {
    /// Reads a certificate with its chain, its private key, and the certificates of the authority
    /// that signs those of all processes, each in PEM.
    ///
    /// With an authority, each side of a connection must show a certificate that the authority
    /// signed, and a server must show one for the name by which it is called. Without an authority,
    /// certificates encrypt and prove nothing; a shared secret proves identity.
    ///
    /// # Errors
    ///
    /// `Unavailable` if a file cannot be read; `Invalid` if its content is not of the expected
    /// kind.
    pub fn from_files(certificate: &Path, key: &Path, authority: Option<&Path>) -> Result<Self> {
        let authority = authority.map(pem::read).transpose()?;
        Self::from_pem(&pem::read(certificate)?, &pem::read(key)?, authority.as_deref())
    }

    /// Like [`Tls::from_files`], but takes the contents of the files.
    ///
    /// # Errors
    ///
    /// `Invalid` if a content is not of the expected kind.
    pub fn from_pem(certificate: &[u8], key: &[u8], authority: Option<&[u8]>) -> Result<Self> {
        let chain = pem::certificates(certificate, "the certificate")?;
        let key = pem::private_key(key, "the private key")?;
        let provider = Arc::new(aws_lc_rs::default_provider());
        let authority = authority
            .map(|roots| pem::authorities(roots, "the authority"))
            .transpose()?
            .map(Arc::new);
        let wrong = |e: rustls::Error| pem::unusable("the certificate and key", e);

        let server = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&TLS13])
            .map_err(wrong)?;
        let server = match &authority {
            Some(roots) => {
                let (roots, provider) = (Arc::clone(roots), Arc::clone(&provider));
                let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider).build();
                server.with_client_cert_verifier(
                    verifier.map_err(|e| pem::unusable("the authority", e))?,
                )
            }
            None => server.with_no_client_auth(),
        };
        let server = server.with_single_cert(chain.clone(), key.clone_key()).map_err(wrong)?;

        let client = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&TLS13])
            .map_err(wrong)?;
        let has_authority = authority.is_some();
        let client = match authority {
            Some(roots) => client.with_root_certificates(roots),
            None => {
                client.dangerous().with_custom_certificate_verifier(Arc::new(Unproved(provider)))
            }
        };
        let client = client.with_client_auth_cert(chain, key).map_err(wrong)?;
        Ok(Self { client: Arc::new(client), server: Arc::new(server), has_authority })
    }

    pub(super) const fn has_authority(&self) -> bool {
        self.has_authority
    }

    pub(super) async fn connect(
        &self,
        stream: TcpStream,
        host: &str,
    ) -> Result<(TlsStream<TcpStream>, Binding), Refusal> {
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| Refusal::Tls(format!("{host} is not a valid name for a certificate")))?;
        let connector = TlsConnector::from(Arc::clone(&self.client));
        let stream = connector.connect(name, stream).await.map_err(|e| refused(&e))?;
        let binding = binding(stream.get_ref().1)?;
        Ok((stream.into(), binding))
    }

    pub(super) async fn accept(
        &self,
        stream: TcpStream,
    ) -> Result<(TlsStream<TcpStream>, Binding), Refusal> {
        let acceptor = TlsAcceptor::from(Arc::clone(&self.server));
        let stream = acceptor.accept(stream).await.map_err(|e| refused(&e))?;
        let binding = binding(stream.get_ref().1)?;
        Ok((stream.into(), binding))
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("has_authority", &self.has_authority).finish_non_exhaustive()
    }
}

fn refused(error: &io::Error) -> Refusal {
    Refusal::Tls(error.to_string())
}

/// Returns the channel binding of RFC 9266, which only the two ends of the connection know.
fn binding<T>(connection: &ConnectionCommon<T>) -> Result<Binding, Refusal> {
    connection
        .export_keying_material([0; 32], b"EXPORTER-Channel-Binding", Some(&[]))
        .map(Some)
        .map_err(|e| Refusal::Tls(e.to_string()))
}

/// Accepts every certificate whose key the other side has: the shared secret, bound to the
/// connection, proves identity.
#[derive(Debug)]
struct Unproved(Arc<CryptoProvider>);

impl ServerCertVerifier for Unproved {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(rustls::Error::General("only TLS 1.3 is spoken".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests;
