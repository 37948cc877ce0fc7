//! Tests of certificates in files, and of the number of handshakes.

use std::fs;
use std::io::Write;
use std::net::TcpStream as Socket;
use std::sync::Arc;
use std::time::Duration;

use rcgen::{CertificateParams, KeyPair};
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpSocket};

use super::handshake::{HANDSHAKES_MAX, HANDSHAKES_PER_ADDRESS_MAX};
use super::*;

/// Writes a certificate and its key, and returns the files.
pub(crate) fn files(directory: &TempDir) -> TlsFiles {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let certificate = params.self_signed(&key).unwrap().pem();
    let path = |name: &str| directory.path().join(name);
    fs::write(path("server.crt"), certificate).unwrap();
    fs::write(path("server.key"), key.serialize_pem()).unwrap();
    TlsFiles {
        certificate: path("server.crt"),
        key: path("server.key"),
        client_authority: None,
        client_revocations: None,
        clients: ClientCertificates::None,
    }
}

fn refusal(files: TlsFiles) -> String {
    Tls::read(files).unwrap_err().to_string()
}

#[test]
fn wrong_files_are_named() {
    let directory = tempfile::tempdir().unwrap();
    let good = files(&directory);
    Tls::read(good.clone()).unwrap();
    let missing = TlsFiles { key: "/nowhere/key".into(), ..good.clone() };
    assert!(refusal(missing).contains("cannot read /nowhere/key"));
    let swapped = TlsFiles { certificate: good.key.clone(), ..good.clone() };
    assert!(refusal(swapped).contains("server.key for TLS: it holds no certificate"));
    let other = tempfile::tempdir().unwrap();
    let mismatched = TlsFiles { key: files(&other).key, ..good.clone() };
    assert!(refusal(mismatched).contains("with the key"));
    let without = TlsFiles { clients: ClientCertificates::Required, ..good.clone() };
    assert!(refusal(without.clone()).contains("set tls.client_ca"));
    let unused = TlsFiles { client_authority: Some(good.certificate.clone()), ..good.clone() };
    assert!(refusal(unused).contains("have no effect"));
    let no_list = TlsFiles {
        client_authority: Some(good.certificate.clone()),
        client_revocations: Some(good.certificate.clone()),
        ..without
    };
    assert!(refusal(no_list).contains("no list of revoked certificates"));
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a file that is no database's")]
fn each_change_is_tried_once() {
    let directory = tempfile::tempdir().unwrap();
    let files = files(&directory);
    let tls = Tls::read(files.clone()).unwrap();
    assert!(!tls.reload_if_changed().unwrap());
    let before = tls.drivers();
    let key = fs::read(&files.key).unwrap();
    fs::write(&files.key, "no key").unwrap();
    tls.reload_if_changed().unwrap_err();
    assert!(!tls.reload_if_changed().unwrap(), "the same error is not reported again");
    assert!(Arc::ptr_eq(&before, &tls.drivers()), "the certificates in use stay");
    fs::remove_file(&files.key).unwrap();
    tls.reload_if_changed().unwrap_err();
    fs::write(&files.key, key).unwrap();
    assert!(tls.reload_if_changed().unwrap());
    assert!(!Arc::ptr_eq(&before, &tls.drivers()));
}

/// Clients that have begun a handshake and stop.
struct Stalled {
    clients: Vec<Socket>,
    accepted: Vec<tokio::task::JoinHandle<()>>,
}

/// Starts this number of stalled handshakes from each of some addresses.
async fn stall(handshakes: &Arc<Handshakes>, tls: &Tls, addresses: u8, each: usize) -> Stalled {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let to = listener.local_addr().unwrap();
    let mut stalled = Stalled { clients: Vec::new(), accepted: Vec::new() };
    for last in 1..=addresses {
        for _ in 0..each {
            let socket = TcpSocket::new_v4().unwrap();
            socket.bind(([127, 0, 1, last], 0).into()).unwrap();
            let client = socket.connect(to).await.unwrap().into_std().unwrap();
            (&client).write_all(&[HANDSHAKE_RECORD]).unwrap();
            stalled.clients.push(client);
            let (stream, peer) = listener.accept().await.unwrap();
            let (handshakes, config) = (Arc::clone(handshakes), tls.drivers());
            stalled.accepted.push(tokio::spawn(async move {
                let _ = handshakes.accept(config, stream, peer.ip()).await;
            }));
        }
    }
    stalled
}

#[expect(clippy::disallowed_methods, reason = "a test on a runtime")]
async fn settle() {
    tokio::time::sleep(Duration::from_millis(300)).await;
}

#[tokio::test]
async fn handshakes_in_progress_are_bounded() {
    let directory = tempfile::tempdir().unwrap();
    let tls = Tls::read(files(&directory)).unwrap();
    let handshakes = Arc::new(Handshakes::new());
    let one = stall(&handshakes, &tls, 1, 3 * HANDSHAKES_PER_ADDRESS_MAX).await;
    settle().await;
    assert_eq!(handshakes.in_progress(), HANDSHAKES_PER_ADDRESS_MAX, "of one address");
    let _others = stall(&handshakes, &tls, 40, HANDSHAKES_PER_ADDRESS_MAX).await;
    settle().await;
    assert_eq!(handshakes.in_progress(), HANDSHAKES_MAX, "of all addresses");
    one.accepted.iter().for_each(tokio::task::JoinHandle::abort);
    settle().await;
    assert_eq!(handshakes.in_progress(), HANDSHAKES_MAX, "others take the places");
}

#[test]
fn limits_of_handshakes_are_on_the_page() {
    const PAGE: &str = include_str!("../../../../docs/limits.md");
    let row = PAGE.lines().find(|row| row.starts_with("| TLS handshakes in progress |")).unwrap();
    let limits =
        format!("| {HANDSHAKES_MAX}, of them {HANDSHAKES_PER_ADDRESS_MAX} from one address");
    assert!(row.contains(&limits), "{limits}");
    assert!(row.contains("Signatures at once: half of the processors"), "{row}");
    let processors = std::thread::available_parallelism().unwrap().get();
    assert_eq!(Handshakes::new().signatures_free(), processors.div_ceil(2));
}

#[test]
fn failures_have_remedies() {
    let explain = |error: rustls::Error| {
        HandshakeFailure::explain(&std::io::Error::new(std::io::ErrorKind::InvalidData, error))
    };
    let unknown = rustls::Error::AlertReceived(rustls::AlertDescription::UnknownCA);
    assert!(explain(unknown).contains("give the client the authority"));
    let revoked = rustls::Error::InvalidCertificate(rustls::CertificateError::Revoked);
    assert!(explain(revoked).contains("is revoked"));
    assert!(explain(rustls::Error::NoCertificatesPresented).contains("tls.clients"));
    let plain = std::io::Error::new(std::io::ErrorKind::UnexpectedEof, "the end");
    assert_eq!(HandshakeFailure::explain(&plain), "the end");
}
