//! Tests of the HTTP port beyond loopback, without leaving it.

use std::fs;

use carnet::{Db, Uuid};
use carnet_base::SystemClock;
use carnet_cql::Executor;
use carnet_cql::system::NodeInfo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore, crypto::aws_lc_rs};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio_rustls::TlsConnector;

use super::*;
use crate::executor::CqlBackend;
use crate::hash_password;
use crate::tls::tests::files;
use crate::users::Users;

const TOKEN: &str = "0123456789abcdef";

async fn get(mut stream: impl AsyncRead + AsyncWrite + Unpin, token: &str) -> String {
    let request = format!("GET /livez HTTP/1.1\r\nAuthorization: Bearer {token}\r\n\r\n");
    let mut answer = Vec::new();
    let _ = stream.write_all(request.as_bytes()).await;
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer).lines().next().unwrap_or_default().to_owned()
}

/// Begins a session of the dashboard, and returns the cookie that the answer sets.
async fn begin_session(mut stream: impl AsyncRead + AsyncWrite + Unpin) -> String {
    let body = "{\"user\":\"ann\",\"password\":\"one\"}";
    let request = format!(
        "POST /api/login HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let cookie = answer.lines().find_map(|line| line.strip_prefix("set-cookie: "));
    cookie.unwrap_or(&answer).to_owned()
}

#[tokio::test]
async fn monitors_use_tls_beyond_loopback() {
    let directory = tempfile::tempdir().unwrap();
    let files = files(&directory);
    let loopback = SocketAddr::from(([127, 0, 0, 1], 0));
    let config = Config {
        http: Some(loopback),
        http_token: Some(HttpToken::new(TOKEN).unwrap()),
        tls: Some(Arc::new(Tls::read(files.clone()).unwrap())),
        ..Config::new(loopback)
    };
    let db = Db::builder().in_memory();
    let backend = CqlBackend::new(Executor::new(db, NodeInfo::local(Uuid::nil())));
    let users = Users::parse(&format!("ann:{}", hash_password("one").unwrap())).unwrap();
    let users = Some(Authenticator::of_users(Arc::new(users)));
    let mut server = Server::bind(config, backend, users, Arc::new(SystemClock)).await.unwrap();
    let shared = Arc::get_mut(&mut server.shared).unwrap();
    assert!(!shared.monitoring.over_tls, "on loopback");
    // As if it had another address.
    shared.monitoring.over_tls = true;
    let http = server.http_addr().unwrap().unwrap();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let served = tokio::spawn(server.run(async {
        let _ = stopped.await;
    }));

    let mut roots = RootCertStore::empty();
    let certificate = fs::read(&files.certificate).unwrap();
    roots.add(CertificateDer::from_pem_slice(&certificate).unwrap()).unwrap();
    let client = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let connector = TlsConnector::from(Arc::new(client));
    let connect = async || {
        let tcp = TcpStream::connect(http).await.unwrap();
        connector.connect(ServerName::try_from("localhost").unwrap(), tcp).await.unwrap()
    };
    let right = get(connect().await, TOKEN).await;
    let wrong = get(connect().await, "0123456789abcdeF").await;
    let plain = get(TcpStream::connect(http).await.unwrap(), TOKEN).await;
    let cookie = begin_session(connect().await).await;
    drop(stop);
    served.await.unwrap();
    assert!(cookie.ends_with("; HttpOnly; SameSite=Strict; Secure"), "{cookie}");
    assert_eq!(right, "HTTP/1.1 200 OK");
    assert_eq!(wrong, "HTTP/1.1 401 Unauthorized");
    assert!(!plain.contains("HTTP"), "{plain:?}");
}
