//! Authorities and certificates, and clients that use them.

use std::fs;
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use carnet_server::{ClientCertificates, TlsFiles};
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DnType, IsCa, Issuer,
    KeyIdMethod, KeyPair, KeyUsagePurpose, RevokedCertParams, SanType, SerialNumber, date_time_ymd,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use rustls::{SupportedProtocolVersion, crypto::aws_lc_rs};

/// Supported versions of TLS.
pub(crate) const VERSIONS: &[&SupportedProtocolVersion] =
    &[&rustls::version::TLS12, &rustls::version::TLS13];

/// A certificate and its key, in PEM.
#[derive(Clone)]
pub(crate) struct Identity {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

/// An authority and its signing key.
pub(crate) struct Authority {
    pub(crate) pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
        // Authorities are found by their names.
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("authority {}", COUNT.fetch_add(1, Ordering::Relaxed));
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Self { pem, issuer: Issuer::new(params, key) }
    }

    /// Signs a certificate for a name.
    pub(crate) fn sign(&self, name: &str) -> Identity {
        self.sign_params(&named(name))
    }

    /// Signs a driver's certificate with a URI.
    pub(crate) fn sign_uri(&self, uri: &str) -> Identity {
        let mut params = named("driver");
        params.subject_alt_names.push(SanType::URI(uri.try_into().unwrap()));
        self.sign_params(&params)
    }

    /// Signs a certificate that has ended.
    pub(crate) fn sign_expired(&self, name: &str) -> Identity {
        let mut params = named(name);
        params.not_before = date_time_ymd(2001, 1, 1);
        params.not_after = date_time_ymd(2002, 1, 1);
        self.sign_params(&params)
    }

    /// Signs a certificate with a serial number.
    pub(crate) fn sign_numbered(&self, name: &str, number: u64) -> Identity {
        let mut params = named(name);
        params.serial_number = Some(SerialNumber::from(number));
        self.sign_params(&params)
    }

    fn sign_params(&self, params: &CertificateParams) -> Identity {
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap().pem();
        Identity { certificate, key: key.serialize_pem() }
    }

    /// Returns a list that revokes a serial number.
    pub(crate) fn revoke(&self, number: u64) -> String {
        let revoked = RevokedCertParams {
            serial_number: SerialNumber::from(number),
            revocation_time: date_time_ymd(2024, 1, 1),
            reason_code: None,
            invalidity_date: None,
        };
        let list = CertificateRevocationListParams {
            this_update: date_time_ymd(2024, 1, 1),
            next_update: date_time_ymd(4000, 1, 1),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: vec![revoked],
            key_identifier_method: KeyIdMethod::Sha256,
        };
        list.signed_by(&self.issuer).unwrap().pem().unwrap()
    }

    /// Returns a client's configuration that trusts this authority.
    pub(crate) fn client(
        &self,
        identity: Option<&Identity>,
        versions: &[&'static SupportedProtocolVersion],
    ) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.pem.as_bytes()).unwrap()).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_protocol_versions(versions)
            .unwrap()
            .with_root_certificates(roots);
        Arc::new(match identity {
            Some(Identity { certificate, key }) => {
                let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()];
                let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
                config.with_client_auth_cert(chain, key).unwrap()
            }
            None => config.with_no_client_auth(),
        })
    }
}

/// Makes a certificate that no authority has signed.
pub(crate) fn self_signed(name: &str) -> Identity {
    let key = KeyPair::generate().unwrap();
    let certificate = named(name).self_signed(&key).unwrap().pem();
    Identity { certificate, key: key.serialize_pem() }
}

fn named(name: &str) -> CertificateParams {
    CertificateParams::new(vec![name.to_owned()]).unwrap()
}

/// Writes an identity to the files `server.crt` and `server.key` of a directory.
pub(crate) fn write(directory: &Path, identity: &Identity) -> TlsFiles {
    let files = TlsFiles {
        certificate: directory.join("server.crt"),
        key: directory.join("server.key"),
        client_authority: None,
        client_revocations: None,
        clients: ClientCertificates::None,
    };
    fs::write(&files.certificate, &identity.certificate).unwrap();
    fs::write(&files.key, &identity.key).unwrap();
    files
}

/// A client's connection over TLS.
pub(crate) type TlsClient = StreamOwned<ClientConnection, TcpStream>;

/// Runs the client's side of a handshake, to its end as far as the client sees it.
pub(crate) fn handshake(
    config: Arc<ClientConfig>,
    name: &str,
    mut tcp: TcpStream,
) -> std::io::Result<TlsClient> {
    tcp.set_nodelay(true).unwrap();
    tcp.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let mut session = ClientConnection::new(config, name).unwrap();
    while session.is_handshaking() {
        session.complete_io(&mut tcp)?;
    }
    Ok(StreamOwned::new(session, tcp))
}
