//! Tests of arrival times and of unsent bytes over TLS.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use carnet_base::{Clock, SystemClock};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, crypto::aws_lc_rs};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::super::receive::request_stamps;
use super::*;
use crate::tls::Tls;
use crate::tls::tests::files;

/// The client's session and socket, so that a test can divide records.
struct Sender {
    session: ClientConnection,
    tcp: TcpStream,
}

impl Sender {
    /// Encrypts bytes as one record.
    fn record(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut record = Vec::new();
        self.session.writer().write_all(bytes).unwrap();
        self.session.write_tls(&mut record).unwrap();
        record
    }
}

async fn connect() -> (Sender, Secured) {
    let directory = tempfile::tempdir().unwrap();
    let files = files(&directory);
    let tls = Tls::read(files.clone()).unwrap();
    let mut roots = RootCertStore::empty();
    let certificate = fs::read(&files.certificate).unwrap();
    roots.add(CertificateDer::from_pem_slice(&certificate).unwrap()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    request_stamps(&listener).unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (server, _) = listener.accept().await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let (client, server) = tokio::join!(
        TlsConnector::from(Arc::new(config)).connect(name, client),
        TlsAcceptor::from(tls.drivers()).accept(server),
    );
    let (tcp, session) = client.unwrap().into_inner();
    (Sender { session, tcp }, Secured::new(server.unwrap()))
}

#[expect(clippy::disallowed_methods, reason = "the test waits for the kernel")]
async fn pause(time: Duration) {
    tokio::time::sleep(time).await;
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn kernel_tells_when_a_record_was_complete() {
    let (mut client, server) = connect().await;
    let mut inbox = BytesMut::new();
    // Several attempts: the kernel begins to stamp packets a moment after the first socket requests it.
    for _ in 0..100 {
        let record = client.record(b"abc");
        let (first, last) = record.split_at(10);
        client.tcp.write_all(first).await.unwrap();
        let early = {
            let receive = server.receive(&mut inbox);
            let mut receive = std::pin::pin!(receive);
            tokio::select! {
                biased;
                received = &mut receive => Some(received),
                () = pause(Duration::from_millis(30)) => None,
            }
        };
        assert!(early.is_none(), "a part of a record was received");
        let before_last = SystemClock.wall();
        client.tcp.write_all(last).await.unwrap();
        pause(Duration::from_millis(30)).await;
        let before_read = SystemClock.wall();
        let received = server.receive(&mut inbox).await.unwrap();
        assert_eq!((received.len, received.is_full), (3, false));
        assert!(inbox.ends_with(b"abc"));
        if let Some(stamp) = received.stamp {
            assert!(before_last.0 - 1_000 <= stamp.0, "{before_last:?} {stamp:?}");
            // A busy machine may take a packet later than it was sent.
            if stamp.0 < before_read.0 - 20_000 {
                return;
            }
        }
    }
    panic!("no stamp of the arrival came");
}

/// Bytes count as unsent until the socket has taken their record.
#[tokio::test]
async fn bytes_leave_the_buffer_with_their_record() {
    let (mut client, server) = connect().await;
    let sent: Vec<u8> = (0..8 << 20).map(|at: usize| at.to_be_bytes()[6]).collect();
    let mut out = BytesMut::from(&sent[..]);
    let mut len = 0;
    let full = loop {
        match server.try_send(&mut out) {
            Ok(sent) => len += sent,
            Err(error) => break error,
        }
    };
    assert_eq!(full.kind(), io::ErrorKind::WouldBlock);
    assert_eq!(out.len(), sent.len() - len);
    assert!(len > 0 && len % RECORD_LEN_MAX == 0, "{len}");
    assert_eq!(lock(&server.session).encrypted, RECORD_LEN_MAX, "the record in progress");
    let send = async {
        while !out.is_empty() {
            server.send(&mut out).await.unwrap();
        }
    };
    let expected = sent.len();
    let receive = async {
        let (mut received, mut bytes) = (Vec::new(), vec![0; 1 << 16]);
        while received.len() < expected {
            let len = client.tcp.read(&mut bytes).await.unwrap();
            let mut read = &bytes[..len];
            while !read.is_empty() {
                client.session.read_tls(&mut read).unwrap();
                client.session.process_new_packets().unwrap();
                let mut reader = client.session.reader();
                while let Ok(chunk) = reader.fill_buf() {
                    let len = chunk.len();
                    received.extend_from_slice(chunk);
                    reader.consume(len);
                }
            }
        }
        received
    };
    let ((), received) = tokio::join!(send, receive);
    assert!(received == sent);
}
