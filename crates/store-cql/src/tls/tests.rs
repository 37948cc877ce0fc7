//! TLS handshakes in memory.
use std::io::{Read, Write};
use std::path::PathBuf;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConnection, RootCertStore, ServerConfig, ServerConnection};

use super::*;

const NODE: &str = "127.0.0.1";

struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    fn signs(&self, name: &str) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        (params.signed_by(&key, &self.0).unwrap().pem(), key.serialize_pem())
    }

    fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        roots.add(self.0.der().clone()).unwrap();
        roots
    }
}

/// Returns the configuration of a node with a certificate for a name; it requires certificates of
/// clients if `of_clients` is given.
fn node(authority: &Authority, name: &str, of_clients: Option<&Authority>) -> ServerConfig {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .unwrap();
    let config = match of_clients {
        Some(clients) => {
            let roots = Arc::new(clients.roots());
            let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider);
            config.with_client_cert_verifier(verifier.build().unwrap())
        }
        None => config.with_no_client_auth(),
    };
    let (certificate, key) = authority.signs(name);
    let certificate = CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap();
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
    config.with_single_cert(vec![certificate], key).unwrap()
}

struct Files(tempfile::TempDir);

impl Files {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    fn tls(&self, authority: &Authority) -> TlsFiles {
        let ca = self.file("ca.pem", &authority.0.pem());
        TlsFiles { ca, checks_names: true, identity: None }
    }
}

/// Runs a handshake and sends some data, without a network.
fn meet(files: &TlsFiles, node: ServerConfig) -> Result<(), String> {
    let name = ServerName::try_from(NODE).unwrap();
    let mut client = ClientConnection::new(client_config(files).unwrap(), name).unwrap();
    let mut server = ServerConnection::new(Arc::new(node)).unwrap();
    client.writer().write_all(b"OPTIONS").unwrap();
    let mut heard = Vec::new();
    for _ in 0..10 {
        let mut wire = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut wire).unwrap();
        }
        server.read_tls(&mut &*wire).unwrap();
        server.process_new_packets().map_err(|error| error.to_string())?;
        let _ = server.reader().read_to_end(&mut heard);
        let mut wire = Vec::new();
        while server.wants_write() {
            server.write_tls(&mut wire).unwrap();
        }
        client.read_tls(&mut &*wire).unwrap();
        client.process_new_packets().map_err(|error| error.to_string())?;
    }
    assert_eq!(heard, b"OPTIONS");
    Ok(())
}

#[test]
fn node_certificate_needs_address_and_authority() {
    let (files, ours, others) = (Files::new(), Authority::new(), Authority::new());
    let tls = files.tls(&ours);
    assert_eq!(meet(&tls, node(&ours, NODE, None)), Ok(()));
    for (authority, name) in [(&others, NODE), (&ours, "127.0.0.2"), (&ours, "node.example")] {
        let refused = meet(&tls, node(authority, name, None)).unwrap_err();
        assert!(refused.contains("certificate"), "{refused}");
    }
}

#[test]
fn names_can_be_ignored_but_not_authorities() {
    let (files, ours, others) = (Files::new(), Authority::new(), Authority::new());
    let tls = TlsFiles { checks_names: false, ..files.tls(&ours) };
    assert_eq!(meet(&tls, node(&ours, "node.example", None)), Ok(()));
    assert!(meet(&tls, node(&others, "node.example", None)).is_err());
    assert!(meet(&tls, node(&others, NODE, None)).is_err());
}

#[test]
fn a_client_shows_its_certificate() {
    let (files, ours, of_clients) = (Files::new(), Authority::new(), Authority::new());
    let tls = files.tls(&ours);
    assert!(meet(&tls, node(&ours, NODE, Some(&of_clients))).is_err());
    let (certificate, key) = of_clients.signs("carnet");
    let identity = (files.file("cert.pem", &certificate), files.file("key.pem", &key));
    let tls = TlsFiles { identity: Some(identity), ..tls };
    assert_eq!(meet(&tls, node(&ours, NODE, Some(&of_clients))), Ok(()));
    assert!(meet(&tls, node(&ours, NODE, Some(&ours))).is_err());
}

#[test]
fn files_that_cannot_be_used_are_named() {
    let (files, ours) = (Files::new(), Authority::new());
    let tls = files.tls(&ours);
    let error = |tls: &TlsFiles| client_config(tls).unwrap_err().to_string();
    let empty = files.file("empty.pem", "nothing here");
    let absent = files.0.path().join("absent.pem");
    let (certificate, key) = ours.signs("carnet");
    let (certificate, key) = (files.file("c.pem", &certificate), files.file("k.pem", &key));
    let (_, other) = ours.signs("other");
    let other = files.file("other.pem", &other);
    assert!(error(&TlsFiles { ca: absent, ..tls.clone() }).contains("absent.pem"));
    assert!(error(&TlsFiles { ca: empty.clone(), ..tls.clone() }).contains("empty.pem"));
    for (identity, named) in [
        ((empty.clone(), key.clone()), "empty.pem"),
        ((certificate.clone(), empty), "empty.pem"),
        ((certificate, other), "c.pem"),
    ] {
        let said = error(&TlsFiles { identity: Some(identity), ..tls.clone() });
        assert!(said.contains(named), "{said}");
    }
}
