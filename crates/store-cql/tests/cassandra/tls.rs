//! A node that requires encryption, a client's certificate and a password.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use carnet_base::{Bytes, ErrorKind, Result, SystemClock, block_on};
use carnet_store::cluster::{ReadMode, Register, Registers, SetAnswer};
use carnet_store_cql::{CqlCluster, CqlOptions, Credentials, Replication, TlsFiles};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

use crate::node::start_with;

/// Certificates of an authority that is created for the test.
struct Certificates {
    folder: tempfile::TempDir,
    authority: CertifiedIssuer<'static, KeyPair>,
}

impl Certificates {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap());
        Self { folder: tempfile::tempdir().unwrap(), authority: authority.unwrap() }
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        fs::write(&path, text).unwrap();
        path
    }

    fn authority(&self) -> PathBuf {
        self.file("ca.pem", &self.authority.pem())
    }

    fn signed(&self, name: &str) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        (params.signed_by(&key, &self.authority).unwrap().pem(), key.serialize_pem())
    }
}

fn settings(node: &Path, authority: &Path) -> String {
    format!(
        "authenticator: PasswordAuthenticator
client_encryption_options:
  enabled: true
  optional: false
  require_client_auth: true
  ssl_context_factory:
    class_name: org.apache.cassandra.security.PEMBasedSslContextFactory
  keystore: {}
  truststore: {}",
        node.display(),
        authority.display()
    )
}

fn connect(options: &CqlOptions) -> Result<CqlCluster> {
    block_on(Box::pin(CqlCluster::connect(options, Arc::new(SystemClock))))
}

/// Waits for the first role, which a node creates ten seconds after its start.
#[expect(clippy::disallowed_methods, reason = "nothing but time says when a node has its role")]
fn connect_in_time(options: &CqlOptions) -> CqlCluster {
    for _ in 0..90 {
        match connect(options) {
            Ok(cluster) => return cluster,
            Err(_) => thread::sleep(Duration::from_secs(1)),
        }
    }
    connect(options).unwrap()
}

#[test]
fn strict_node_accepts_only_full_credentials() {
    let ours = Certificates::new();
    let (certificate, key) = ours.signed("127.0.0.1");
    let node = ours.file("node.pem", &format!("{key}{certificate}"));
    let Some(node) = start_with(&settings(&node, &ours.authority())) else { return };
    let (certificate, key) = ours.signed("carnet");
    let identity = (ours.file("client.pem", &certificate), ours.file("client.key", &key));
    let tls = TlsFiles { ca: ours.authority(), checks_names: true, identity: Some(identity) };
    let credentials = Credentials { user: "cassandra".into(), password: "cassandra".into() };
    let options = CqlOptions {
        replication: Replication::EveryDatacenter(1),
        tls: Some(tls.clone()),
        credentials: Some(credentials.clone()),
        ..CqlOptions::new(vec![node.contact_point.clone()], "encrypted")
    };
    let cluster = connect_in_time(&options);
    let value = Bytes::from_static(b"sealed");
    let set = block_on(cluster.compare_and_set(Register::Lease, None, &value)).unwrap();
    assert_eq!(set, SetAnswer::Applied);
    let read = block_on(cluster.read_register(Register::Lease, ReadMode::Serial)).unwrap();
    assert_eq!(read, Some(value));

    let others = Certificates::new();
    let wrong = Credentials { password: "s3cret".into(), ..credentials };
    for (what, options) in [
        ("no TLS", CqlOptions { tls: None, ..options.clone() }),
        ("no certificate", with_tls(&options, TlsFiles { identity: None, ..tls.clone() })),
        ("another authority", with_tls(&options, TlsFiles { ca: others.authority(), ..tls })),
        ("a wrong password", CqlOptions { credentials: Some(wrong), ..options.clone() }),
        ("no password", CqlOptions { credentials: None, ..options.clone() }),
    ] {
        let error = connect(&options).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{what}");
        assert!(!format!("{error:?}").contains("s3cret"), "{what}: {error:?}");
    }
}

fn with_tls(options: &CqlOptions, tls: TlsFiles) -> CqlOptions {
    CqlOptions { tls: Some(tls), ..options.clone() }
}
