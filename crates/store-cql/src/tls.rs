//! Encrypted connections to the cluster's nodes.
//!
//! The driver calls every node by its IP address, so a certificate must have it as a subject
//! alternative name, unless names are not checked. Without the check, any holder of a certificate
//! of the authority passes for a node, as in clusters with one certificate for all nodes.

use std::path::Path;
use std::sync::Arc;

use carnet_base::{Error, Result};
use carnet_store::pem;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, SignatureScheme};

use crate::options::TlsFiles;

/// Reads the files, and returns the TLS configuration for the driver's connections.
///
/// # Errors
///
/// `Unavailable` if a file cannot be read; `Invalid` if its content is not of the expected kind.
pub fn client_config(files: &TlsFiles) -> Result<Arc<ClientConfig>> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let roots = pem::authorities(&pem::read(&files.ca)?, &name(&files.ca))?;
    let verifier =
        WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
            .build()
            .map_err(|error| unusable(&files.ca, error))?;
    let verifier: Arc<dyn ServerCertVerifier> = match files.checks_names {
        true => verifier,
        false => Arc::new(Nameless(verifier)),
    };
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| unusable(&files.ca, error))?
        .dangerous()
        .with_custom_certificate_verifier(verifier);
    let config = match &files.identity {
        Some((certificate, key)) => {
            let private = pem::private_key(&pem::read(key)?, &name(key))?;
            let chain = pem::certificates(&pem::read(certificate)?, &name(certificate))?;
            config
                .with_client_auth_cert(chain, private)
                .map_err(|error| unusable(certificate, error))?
        }
        None => config.with_no_client_auth(),
    };
    Ok(Arc::new(config))
}

fn unusable(path: &Path, error: impl std::error::Error + Send + Sync + 'static) -> Error {
    pem::unusable(&name(path), error)
}

fn name(path: &Path) -> String {
    path.display().to_string()
}

/// Requires a chain to the authority, for any name in the certificate.
#[derive(Debug)]
struct Nameless(Arc<WebPkiServerVerifier>);

impl ServerCertVerifier for Nameless {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        // The name is checked last, after everything else.
        match self.0.verify_server_cert(certificate, chain, name, ocsp, now) {
            Err(rustls::Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}

#[cfg(test)]
mod tests;
