use carnet_base::block_on;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use tokio::runtime::{Builder, Runtime};

use super::super::{Secret, Security, TcpNetwork};
use super::*;
use crate::message::{LeaderRequest, Response};
use crate::transport::{Transport, Unanswered};

/// An authority and its signing key.
struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Self { pem, issuer: Issuer::new(params, key) }
    }

    /// Signs a certificate for a name; returns it and its key.
    fn sign(&self, name: &str) -> (String, String) {
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let key = KeyPair::generate().unwrap();
        (params.signed_by(&key, &self.issuer).unwrap().pem(), key.serialize_pem())
    }

    fn tls(&self, name: &str) -> Tls {
        let (certificate, key) = self.sign(name);
        let authority = Some(self.pem.as_bytes());
        Tls::from_pem(certificate.as_bytes(), key.as_bytes(), authority).unwrap()
    }
}

fn secret(text: &str) -> Secret {
    Secret::new(text).unwrap()
}

fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

fn network(runtime: &Runtime, security: Security) -> TcpNetwork {
    let listen = "127.0.0.1:0".parse().unwrap();
    TcpNetwork::bind(listen, None, security, runtime.handle().clone()).unwrap()
}

/// Returns `true` if the client gets an answer from the server; without a handler it is that the
/// server does not lead.
fn reaches(runtime: &Runtime, client: Security, server: Security) -> bool {
    let (client, server) = (network(runtime, client), network(runtime, server));
    let question = || LeaderRequest::Outcome { start: carnet_base::Timestamp::ZERO };
    // A busy machine may need more than one try.
    (0..3).any(|_| match block_on(client.call(server.address(), question())) {
        Ok(response) => matches!(response, Response::NotLeading),
        Err(_) => {
            std::thread::yield_now();
            false
        }
    })
}

const fn tls(tls: Tls) -> Security {
    Security::Tls { tls, secret: None }
}

#[test]
fn certificates_of_one_authority_connect() {
    let (runtime, authority) = (runtime(), Authority::new());
    let side = || tls(authority.tls("127.0.0.1"));
    assert!(reaches(&runtime, side(), side()));
    let with = |text| Security::Tls { tls: authority.tls("127.0.0.1"), secret: Some(secret(text)) };
    let known = "sixteen bytes at least";
    assert!(reaches(&runtime, with(known), with(known)));
    assert!(!reaches(&runtime, with("sixteen other bytes"), with(known)));
    assert!(!reaches(&runtime, side(), with(known)));
}

#[test]
fn strangers_and_other_names_are_refused() {
    let (runtime, authority, other) = (runtime(), Authority::new(), Authority::new());
    let side = || tls(authority.tls("127.0.0.1"));
    assert!(!reaches(&runtime, tls(other.tls("127.0.0.1")), side()), "the client is a stranger");
    assert!(!reaches(&runtime, side(), tls(other.tls("127.0.0.1"))), "the server is a stranger");
    assert!(!reaches(&runtime, side(), tls(authority.tls("127.0.0.2"))), "it has another name");

    // It trusts our authority, but shows a self-signed certificate.
    let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    let key = KeyPair::generate().unwrap();
    let own = params.self_signed(&key).unwrap().pem();
    let believed = Some(authority.pem.as_bytes());
    let unsigned = Tls::from_pem(own.as_bytes(), key.serialize_pem().as_bytes(), believed).unwrap();
    assert!(!reaches(&runtime, tls(unsigned.clone()), side()));
    assert!(!reaches(&runtime, side(), tls(unsigned)));
}

#[test]
fn secret_proves_identity_without_an_authority() {
    let (runtime, authority) = (runtime(), Authority::new());
    let with = |text| {
        let (certificate, key) = authority.sign("whatever");
        let tls = Tls::from_pem(certificate.as_bytes(), key.as_bytes(), None).unwrap();
        Security::Tls { tls, secret: Some(secret(text)) }
    };
    let known = "sixteen bytes at least";
    assert!(reaches(&runtime, with(known), with(known)));
    assert!(!reaches(&runtime, with("sixteen other bytes"), with(known)));
    let Security::Tls { tls, .. } = with(known) else { unreachable!() };
    let nobody = Security::Tls { tls, secret: None };
    let listen = "127.0.0.1:0".parse().unwrap();
    let bound = TcpNetwork::bind(listen, None, nobody, runtime.handle().clone());
    assert!(bound.unwrap_err().to_string().contains("admits any process"));
}

#[test]
fn tls_and_no_tls_do_not_meet() {
    let (runtime, authority) = (runtime(), Authority::new());
    let side = || tls(authority.tls("127.0.0.1"));
    assert!(!reaches(&runtime, side(), Security::Insecure));
    assert!(!reaches(&runtime, Security::Insecure, side()));
}

/// An attacker accepts the connection, opens one to the other side, and forwards all bytes. The
/// proofs are for different connections, so it fails.
#[test]
fn relay_between_tls_connections_fails() {
    let (runtime, authority) = (runtime(), Authority::new());
    let (certificate, key) = authority.sign("whatever");
    let side = || Tls::from_pem(certificate.as_bytes(), key.as_bytes(), None).unwrap();
    let known = || Some(secret("sixteen bytes at least"));
    let server = network(&runtime, Security::Tls { tls: side(), secret: known() });
    let client = network(&runtime, Security::Tls { tls: side(), secret: known() });

    let (place, incarnation) = server.address().as_str().split_once('/').unwrap();
    let (place, between) = (place.to_owned(), side());
    let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = format!("{}/{incarnation}", listener.local_addr().unwrap());
    let address = crate::lease::Address::new(address).unwrap();
    let passed = runtime.spawn(async move {
        let (near, _) = listener.accept().await.unwrap();
        let (mut near, _) = between.accept(near).await.unwrap();
        let far = TcpStream::connect(place).await.unwrap();
        let (mut far, _) = between.connect(far, "127.0.0.1").await.unwrap();
        // It ends when one side leaves.
        let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
    });
    let question = LeaderRequest::Outcome { start: carnet_base::Timestamp::ZERO };
    assert_eq!(block_on(client.call(&address, question)).unwrap_err(), Unanswered::NotSent);
    drop(client);
    runtime.block_on(passed).unwrap();
}

#[test]
fn files_that_hold_something_else_are_named() {
    let authority = Authority::new();
    let (certificate, key) = authority.sign("localhost");
    let (_, other_key) = authority.sign("localhost");
    for (certificate, key, what) in [
        ("", &key[..], "certificate"),
        (&key[..], &key[..], "certificate"),
        (&certificate[..], &certificate[..], "private key"),
        (&certificate[..], &other_key[..], "certificate and key"),
    ] {
        let error = Tls::from_pem(certificate.as_bytes(), key.as_bytes(), None).unwrap_err();
        assert!(error.to_string().contains(&format!("cannot use the {what} ")), "{error}");
    }
    let missing = Tls::from_files(Path::new("no/such.pem"), Path::new("no/such.key"), None);
    assert!(missing.unwrap_err().to_string().contains("no/such.pem"));
}
