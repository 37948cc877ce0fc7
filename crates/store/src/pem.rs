//! Certificates and private keys in PEM, for TLS of all kinds: from drivers, between servers and to
//! clusters.

use std::path::Path;

use carnet_base::{Error, Result};
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// Reads a file.
///
/// # Errors
///
/// `Unavailable` if it cannot be read.
pub fn read(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path)
        .map_err(|e| Error::unavailable(format!("cannot read {}", path.display())).with_source(e))
}

/// Returns the certificates of a chain; `name` stands for their source in errors.
///
/// # Errors
///
/// `Invalid` if there is none, or a wrong one.
pub fn certificates(pem: &[u8], name: &str) -> Result<Vec<CertificateDer<'static>>> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let found = found.map_err(|error| unusable(name, error))?;
    if found.is_empty() {
        return Err(Error::invalid(format!(
            "cannot use {name} for TLS: it holds no certificate in PEM format"
        )));
    }
    Ok(found)
}

/// Returns a private key; `name` stands for its source in errors.
///
/// # Errors
///
/// `Invalid` if there is none, or a wrong one.
pub fn private_key(pem: &[u8], name: &str) -> Result<PrivateKeyDer<'static>> {
    PrivateKeyDer::from_pem_slice(pem).map_err(|error| unusable(name, error))
}

/// Returns trusted authorities; `name` stands for their source in errors.
///
/// # Errors
///
/// `Invalid` if there is none, or a wrong one.
pub fn authorities(pem: &[u8], name: &str) -> Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(pem, name)? {
        roots.add(certificate).map_err(|error| unusable(name, error))?;
    }
    Ok(roots)
}

/// Returns the error of a source that TLS cannot use.
pub fn unusable(name: &str, error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::invalid(format!("cannot use {name} for TLS")).with_source(error)
}
