//! Files of certificates and keys, and the TLS configurations that they make.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use carnet::pem;
use carnet_base::{Error, Result};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::version::{TLS12, TLS13};
use rustls::{ServerConfig, SupportedProtocolVersion};

const VERSIONS: &[&SupportedProtocolVersion] = &[&TLS13, &TLS12];

/// Whether drivers show certificates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientCertificates {
    /// Drivers are not asked for one.
    #[default]
    None,
    /// A driver may connect without one; if it shows one, the authority must have signed it.
    Optional,
    /// Each driver must show one that the authority signed.
    Required,
}

/// Files for TLS, each in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The server's certificate, followed by the intermediate ones of its chain.
    pub certificate: PathBuf,
    /// The certificate's private key.
    pub key: PathBuf,
    /// Certificates of the authorities that sign the certificates of drivers.
    pub client_authority: Option<PathBuf>,
    /// Lists of the drivers' certificates that the authorities have revoked.
    pub client_revocations: Option<PathBuf>,
    /// Whether drivers show certificates.
    pub clients: ClientCertificates,
}

/// Configurations for handshakes.
#[derive(Clone)]
pub(super) struct Configs {
    /// Configuration for CQL.
    pub(super) drivers: Arc<ServerConfig>,
    /// For HTTP: its clients show a token, and no certificate.
    pub(super) monitors: Arc<ServerConfig>,
}

impl TlsFiles {
    /// Returns the files' paths.
    pub(super) fn paths(&self) -> impl Iterator<Item = &Path> {
        let optional = [&self.client_authority, &self.client_revocations];
        let optional = optional.into_iter().flatten();
        [&self.certificate, &self.key].into_iter().chain(optional).map(PathBuf::as_path)
    }

    /// Reads the files.
    ///
    /// # Errors
    ///
    /// `Unavailable` if a file cannot be read; `Invalid` if its content is not of the expected kind,
    /// or if a file is missing or has no effect.
    pub(super) fn load(&self) -> Result<Configs> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let chain = pem::certificates(&pem::read(&self.certificate)?, &name(&self.certificate))?;
        let key = pem::private_key(&pem::read(&self.key)?, &name(&self.key))?;
        let drivers = self.config(&provider, self.verifier(&provider)?, &chain, &key)?;
        let monitors = self.config(&provider, WebPkiClientVerifier::no_client_auth(), &chain, &key);
        Ok(Configs { drivers, monitors: monitors? })
    }

    fn config(
        &self,
        provider: &Arc<CryptoProvider>,
        verifier: Arc<dyn ClientCertVerifier>,
        chain: &[CertificateDer<'static>],
        key: &PrivateKeyDer<'static>,
    ) -> Result<Arc<ServerConfig>> {
        let unusable = |error| {
            let (certificate, key) = (self.certificate.display(), self.key.display());
            pem::unusable(&format!("{certificate} with the key {key}"), error)
        };
        let mut config = ServerConfig::builder_with_provider(Arc::clone(provider))
            .with_protocol_versions(VERSIONS)
            .map_err(unusable)?
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain.to_vec(), key.clone_key())
            .map_err(unusable)?;
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(Arc::new(config))
    }

    fn verifier(&self, provider: &Arc<CryptoProvider>) -> Result<Arc<dyn ClientCertVerifier>> {
        let is_optional = match (self.clients, &self.client_authority, &self.client_revocations) {
            (ClientCertificates::None, None, None) => {
                return Ok(WebPkiClientVerifier::no_client_auth());
            }
            (ClientCertificates::None, ..) => return Err(no_effect()),
            (clients, ..) => clients == ClientCertificates::Optional,
        };
        let authority = self.client_authority.as_deref().ok_or_else(no_authority)?;
        let roots = Arc::new(pem::authorities(&pem::read(authority)?, &name(authority))?);
        let mut builder = WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(provider));
        let mut source = authority;
        if let Some(revocations) = &self.client_revocations {
            builder = builder.with_crls(revocation_lists(revocations)?);
            source = revocations;
        }
        if is_optional {
            builder = builder.allow_unauthenticated();
        }
        builder.build().map_err(|error| pem::unusable(&name(source), error))
    }
}

/// Reads lists of revoked certificates.
fn revocation_lists(path: &Path) -> Result<Vec<CertificateRevocationListDer<'static>>> {
    let text = pem::read(path)?;
    let lists: std::result::Result<Vec<_>, _> =
        CertificateRevocationListDer::pem_slice_iter(&text).collect();
    let lists = lists.map_err(|error| pem::unusable(&name(path), error))?;
    if lists.is_empty() {
        let path = path.display();
        return Err(Error::invalid(format!(
            "cannot use {path} for TLS: it holds no list of revoked certificates in PEM format"
        )));
    }
    Ok(lists)
}

fn no_effect() -> Error {
    Error::invalid(
        "client_ca and client_crl have no effect while drivers show no certificates: \
         set tls.clients to \"optional\" or \"required\", or leave them out",
    )
}

fn no_authority() -> Error {
    Error::invalid(
        "drivers show certificates, and no authority is named that signs them: \
         set tls.client_ca (--tls-client-ca)",
    )
}

fn name(path: &Path) -> String {
    path.display().to_string()
}
