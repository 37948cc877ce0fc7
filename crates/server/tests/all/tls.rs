//! Guarantees of connections over TLS.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use carnet::roles::{RoleChanges, Roles};
use carnet::{Db, block_on};
use carnet_base::{Clock, SystemClock};
use carnet_cql::system::ClientList;
use carnet_server::{Authenticator, ClientCertificates, Limits, Tls, TlsFiles};
use rustls::ClientConfig;
use tempfile::TempDir;

use crate::support;
use crate::support::certificates::{
    Authority, Identity, TlsClient, VERSIONS, handshake, self_signed, write,
};
use crate::support::{
    AUTHENTICATE, Client, ERROR, OPTIONS, READY, RESULT, Running, SUPPORTED, frame, pause,
};

const PROTOCOL: i32 = 0x000a;
const NAME: &str = "127.0.0.1";

/// A server over TLS, with its authority and the directory of its files.
struct Secured {
    server: Running,
    authority: Authority,
    files: TlsFiles,
    tls: Arc<Tls>,
    _directory: TempDir,
}

impl Secured {
    fn start() -> Self {
        Self::with(Limits::default(), |_, _| {})
    }

    /// Starts a server, with files that a function changes before.
    fn with(limits: Limits, change: impl FnOnce(&mut TlsFiles, &Authority)) -> Self {
        Self::with_logins(limits, change, None)
    }

    fn with_logins(
        limits: Limits,
        change: impl FnOnce(&mut TlsFiles, &Authority),
        authenticator: Option<Authenticator>,
    ) -> Self {
        let (directory, authority) = (tempfile::tempdir().unwrap(), Authority::new());
        let mut files = write(directory.path(), &authority.sign(NAME));
        change(&mut files, &authority);
        let tls = Arc::new(Tls::read(files.clone()).unwrap());
        let server = Running::over_tls_with(Arc::clone(&tls), limits, authenticator);
        Self { server, authority, files, tls, _directory: directory }
    }

    fn connect(&self, config: Arc<ClientConfig>) -> io::Result<TlsClient> {
        handshake(config, NAME, TcpStream::connect(self.server.address)?)
    }

    fn client(&self, version: u8) -> Client<TlsClient> {
        ready(self.connect(self.authority.client(None, VERSIONS)).unwrap(), version)
    }

    /// Returns the failure of a client that connects and sends a request.
    fn ask(&self, config: Arc<ClientConfig>) -> io::Result<()> {
        ask(self.connect(config)?)
    }
}

/// Starts the protocol.
fn ready(stream: TlsClient, version: u8) -> Client<TlsClient> {
    let mut client = Client::on(stream, version);
    client.startup(&[]);
    assert_eq!(client.receive().opcode, READY);
    client.settle(false);
    client
}

/// Sends a request and waits for its answer. Over TLS 1.3 a client learns here that the server has
/// refused its certificate.
fn ask(mut stream: TlsClient) -> io::Result<()> {
    stream.write_all(&frame(4, 0, OPTIONS, 0, b""))?;
    let mut head = [0; 9];
    stream.read_exact(&mut head)?;
    assert_eq!(head[4], SUPPORTED);
    Ok(())
}

#[test]
fn statements_run_over_both_versions() {
    let secured = Secured::start();
    for version in VERSIONS {
        for protocol in [4, 5] {
            let config = secured.authority.client(None, &[version]);
            let mut client = ready(secured.connect(config).unwrap(), protocol);
            let [listed] = &secured.server.clients.clients()[..] else { panic!("one client") };
            let tls = listed.tls.clone().unwrap();
            assert_eq!(format!("{:?}", version.version), tls.version.replace('.', "_"));
            assert!(tls.cipher_suite.starts_with("TLS_"), "{tls:?}");
            for stream in 0..100 {
                client.query(stream, "warn");
            }
            let mut streams: Vec<i16> = (0..100).map(|_| client.receive().stream).collect();
            streams.sort_unstable();
            assert_eq!(streams, (0..100).collect::<Vec<_>>());
            drop(client);
            secured.server.eventually("it is gone", |metrics| metrics.connections.get() == 0);
        }
    }
}

/// A role logs in by the identity of its certificate, and other clients by a password.
#[test]
fn identity_of_a_certificate_needs_no_password() {
    let db = Db::builder().in_memory();
    let login = RoleChanges { can_login: Some(true), ..RoleChanges::default() };
    let create = |roles: &mut Roles| {
        roles.create("ann", &login)?;
        roles.create("bob", &RoleChanges::default())?;
        roles.add_identity("spiffe://bank/ann", "ann")?;
        roles.add_identity("spiffe://bank/bob", "bob")
    };
    block_on(db.change_roles(create)).unwrap();
    let optional = |files: &mut TlsFiles, authority: &Authority| {
        let path = files.certificate.with_file_name("ca.crt");
        std::fs::write(&path, &authority.pem).unwrap();
        files.client_authority = Some(path);
        files.clients = ClientCertificates::Optional;
    };
    let authenticator = Some(Authenticator::of_roles(db.clone()).unwrap());
    let secured = Secured::with_logins(Limits::default(), optional, authenticator);
    let answer = |uri: Option<&str>, version| {
        let identity = uri.map(|uri| secured.authority.sign_uri(uri));
        let config = secured.authority.client(identity.as_ref(), VERSIONS);
        let mut client = Client::on(secured.connect(config).unwrap(), version);
        client.startup(&[]);
        client.receive().opcode
    };
    for version in [4, 5] {
        let ann = secured.authority.sign_uri("spiffe://bank/ann");
        let config = secured.authority.client(Some(&ann), VERSIONS);
        let mut client = ready(secured.connect(config).unwrap(), version);
        client.query(1, "warn");
        assert_eq!(client.receive().opcode, RESULT);
        let listed = secured.server.clients.clients();
        assert!(listed.iter().any(|client| client.username.as_deref() == Some("ann")));
        assert_eq!(answer(Some("spiffe://bank/bob"), version), ERROR, "it has no LOGIN");
        assert_eq!(answer(Some("spiffe://bank/eve"), version), AUTHENTICATE);
        assert_eq!(answer(None, version), AUTHENTICATE);
    }
    block_on(db.change_roles(|roles: &mut Roles| roles.drop_identity("spiffe://bank/ann")))
        .unwrap();
    assert_eq!(answer(Some("spiffe://bank/ann"), 5), AUTHENTICATE);
}

/// Records are shorter than these requests and answers, and sockets take less at once.
#[test]
fn long_requests_and_answers_arrive_whole() {
    let secured = Secured::start();
    for version in [4, 5] {
        let mut client = secured.client(version);
        let long = format!("warn{}", " ".repeat(1_000_000));
        for stream in 0..4 {
            client.query(stream, &long);
        }
        for stream in 4..8 {
            client.query(stream, "blob 3000000");
        }
        // The server waits for a client that does not read yet.
        pause(Duration::from_millis(300));
        let mut lens: Vec<usize> = (0..8).map(|_| client.receive().body.len()).collect();
        lens.sort_unstable();
        assert!(lens[3] < 1_000 && lens[4] > 3_000_000, "{lens:?}");
    }
}

#[test]
fn closed_connection_ends_with_a_notice() {
    let secured = Secured::start();
    let mut client = secured.client(4);
    client.send_bytes(&frame(4, 1, 0x7f, 0, b""));
    client.receive().assert_error(PROTOCOL, "opcode");
    // Without the notice, reading would fail by an unexpected end.
    client.assert_closed();
}

#[test]
fn client_refuses_other_names_and_authorities() {
    let secured = Secured::start();
    let stranger = Authority::new().client(None, VERSIONS);
    let error = secured.connect(stranger).unwrap_err().to_string();
    assert!(error.contains("UnknownIssuer"), "{error}");
    let tcp = TcpStream::connect(secured.server.address).unwrap();
    let known = secured.authority.client(None, VERSIONS);
    let error = handshake(Arc::clone(&known), "db.example.com", tcp).unwrap_err().to_string();
    assert!(error.contains("not valid for name"), "{error}");
    secured
        .server
        .eventually("failures are counted", |metrics| metrics.tls_handshakes_failed.get() == 2);
    secured.ask(known).unwrap();
}

fn with_clients(clients: ClientCertificates) -> Secured {
    Secured::with(Limits::default(), |files, authority| {
        let path = files.certificate.with_file_name("ca.crt");
        std::fs::write(&path, &authority.pem).unwrap();
        let list = files.certificate.with_file_name("ca.crl");
        std::fs::write(&list, authority.revoke(7)).unwrap();
        (files.client_authority, files.client_revocations) = (Some(path), Some(list));
        files.clients = clients;
    })
}

/// Certificates that the server refuses.
fn refused(authority: &Authority) -> [(&'static str, Identity); 4] {
    [
        ("CertificateExpired", authority.sign_expired("driver")),
        ("CertificateRevoked", authority.sign_numbered("driver", 7)),
        ("UnknownCA", Authority::new().sign("driver")),
        ("UnknownCA", self_signed("driver")),
    ]
}

#[test]
fn required_certificate_is_verified() {
    let secured = with_clients(ClientCertificates::Required);
    for version in VERSIONS {
        let ask = |identity: Option<&Identity>| {
            secured.ask(secured.authority.client(identity, &[version]))
        };
        ask(Some(&secured.authority.sign_numbered("driver", 8))).unwrap();
        for (alert, identity) in refused(&secured.authority) {
            let error = ask(Some(&identity)).unwrap_err().to_string();
            assert!(error.contains(alert), "{alert}: {error}");
        }
        let error = ask(None).unwrap_err().to_string();
        assert!(
            error.contains("CertificateRequired") || error.contains("HandshakeFailure"),
            "{error}"
        );
    }
}

#[test]
fn optional_certificate_is_verified_if_shown() {
    let secured = with_clients(ClientCertificates::Optional);
    let ask =
        |identity: Option<&Identity>| secured.ask(secured.authority.client(identity, VERSIONS));
    ask(None).unwrap();
    ask(Some(&secured.authority.sign("driver"))).unwrap();
    for (alert, identity) in refused(&secured.authority) {
        let error = ask(Some(&identity)).unwrap_err().to_string();
        assert!(error.contains(alert), "{alert}: {error}");
    }
}

#[test]
fn plaintext_is_answered_by_an_error() {
    let secured = Secured::start();
    for (sent, received, stream) in [(4, 4, 3), (5, 5, 3), (66, 5, 0)] {
        let mut client = Client::connect(secured.server.address, received);
        client.send_bytes(&frame(sent, 3, OPTIONS, 0, b""));
        let response = client.receive();
        assert_eq!((response.version, response.stream), (received, stream));
        response.assert_error(PROTOCOL, "requires TLS");
        client.assert_closed();
    }
    // No version of the protocol.
    let mut tcp = TcpStream::connect(secured.server.address).unwrap();
    tcp.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    let ended = tcp.read_to_end(&mut answer);
    assert!(ended.is_ok() || ended.is_err_and(|e| e.kind() == ErrorKind::ConnectionReset));
    assert_eq!(answer, b"");
    secured
        .server
        .eventually("failures are counted", |metrics| metrics.tls_handshakes_failed.get() == 4);
}

#[test]
fn tls_on_a_plain_port_is_answered_by_an_error() {
    let server = Running::start();
    let config = Authority::new().client(None, VERSIONS);
    let tcp = TcpStream::connect(server.address).unwrap();
    let mut copy = tcp.try_clone().unwrap();
    let error = handshake(config, NAME, tcp).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidData, "{error}");
    // The client read an error of the protocol, and not an end.
    let mut rest = Vec::new();
    let _ = copy.shutdown(Shutdown::Write);
    let _ = copy.read_to_end(&mut rest);
    server.client(4).query(1, "warn");
}

/// A client's greeting of TLS 1.1, without extensions.
const HELLO_1_1: &[u8] = b"\x16\x03\x01\x00\x2d\x01\x00\x00\x29\x03\x02\
    0123456789abcdef0123456789abcdef\x00\x00\x02\xc0\x13\x01\x00";

#[test]
fn older_versions_are_refused() {
    let secured = Secured::start();
    let mut tcp = TcpStream::connect(secured.server.address).unwrap();
    tcp.write_all(HELLO_1_1).unwrap();
    let mut answer = Vec::new();
    tcp.read_to_end(&mut answer).unwrap();
    // A fatal alert: such a client names neither a version nor a signature that the server has.
    let [0x15, 3, _, 0, 2, 2, alert] = answer[..] else { panic!("{answer:?}") };
    assert!([40, 70].contains(&alert), "{alert}");
}

#[test]
fn slow_handshakes_end_and_leave_others_alone() {
    let limits = Limits { greeting_timeout: Duration::from_secs(2), ..Limits::default() };
    let secured = Secured::with(limits, |_, _| {});
    let slow: Vec<TcpStream> = (0..100)
        .map(|_| {
            let mut tcp = TcpStream::connect(secured.server.address).unwrap();
            tcp.write_all(&HELLO_1_1[..5]).unwrap();
            tcp
        })
        .collect();
    secured.server.eventually("they are accepted", |metrics| metrics.tls_handshakes.get() == 100);
    let begun = SystemClock.now();
    let elsewhere = secured.server.connect_from("127.0.0.2", secured.server.address);
    let config = secured.authority.client(None, VERSIONS);
    ask(handshake(Arc::clone(&config), NAME, elsewhere).unwrap()).unwrap();
    let waited = SystemClock.now().since(begun);
    assert!(waited < Duration::from_secs(1), "{waited:?}");
    for mut tcp in slow {
        tcp.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let ended = tcp.read(&mut [0; 16]);
        assert!(matches!(ended, Ok(0) | Err(_)), "{ended:?}");
    }
    assert!(SystemClock.now().since(begun) < Duration::from_secs(8));
    secured.server.eventually("they are counted", |metrics| metrics.tls_handshakes.get() == 0);
    secured.ask(config).unwrap();
}

/// Every client gets its turn.
#[test]
fn thousand_handshakes_at_once_succeed() {
    let limits = Limits { greeting_timeout: Duration::from_secs(60), ..Limits::default() };
    let secured = Secured::with(limits, |_, _| {});
    let config = secured.authority.client(None, VERSIONS);
    let address = secured.server.address;
    let sockets: Vec<TcpStream> =
        (0..1_000).map(|_| TcpStream::connect(address).unwrap()).collect();
    secured.server.eventually("they are accepted", |metrics| metrics.connections.get() == 1_000);
    let streams = thread::scope(|scope| {
        let clients: Vec<_> = sockets
            .chunks(50)
            .map(|sockets| {
                let config = &config;
                scope.spawn(move || {
                    let connect = |tcp: &TcpStream| {
                        handshake(Arc::clone(config), NAME, tcp.try_clone().unwrap()).unwrap()
                    };
                    sockets.iter().map(connect).collect::<Vec<_>>()
                })
            })
            .collect();
        clients.into_iter().flat_map(|client| client.join().unwrap()).collect::<Vec<_>>()
    });
    streams.into_iter().for_each(|stream| ask(stream).unwrap());
    assert_eq!(secured.server.metrics.tls_handshakes_failed.get(), 0);
}

#[test]
fn changed_files_are_loaded_without_a_restart() {
    let limits = Limits { certificate_interval: Duration::from_millis(20), ..Limits::default() };
    let secured = Secured::with(limits, |_, _| {});
    let mut open = secured.client(5);
    let directory = secured.files.certificate.parent().unwrap();
    // The certificate alone does not fit the key that is in use.
    let next = Authority::new();
    let identity = next.sign(NAME);
    std::fs::write(&secured.files.certificate, &identity.certificate).unwrap();
    assert!(secured.tls.reload().unwrap_err().to_string().contains("server.crt with the key"));
    pause(Duration::from_millis(200));
    secured.client(4);

    write(directory, &identity);
    let config = next.client(None, VERSIONS);
    let mut tries = 0;
    while secured.ask(Arc::clone(&config)).is_err() {
        tries += 1;
        assert!(tries < 500, "the new certificate is not used");
        pause(Duration::from_millis(10));
    }
    assert!(secured.ask(secured.authority.client(None, VERSIONS)).is_err(), "the old one is used");
    open.query(1, "warn");
    assert_eq!(open.receive().opcode, RESULT);

    std::fs::write(&secured.files.key, "no key").unwrap();
    pause(Duration::from_millis(200));
    secured.ask(config).unwrap();
}

#[test]
fn drain_ends_handshakes() {
    let mut secured = Secured::start();
    let mut tcp = TcpStream::connect(secured.server.address).unwrap();
    tcp.write_all(&HELLO_1_1[..5]).unwrap();
    secured.server.eventually("it is accepted", |metrics| metrics.tls_handshakes.get() == 1);
    let begun = SystemClock.now();
    secured.server.shut_down();
    secured.server.join();
    assert!(SystemClock.now().since(begun) < Duration::from_secs(5));
}

#[test]
fn sessions_are_charged_to_the_memory() {
    let secured = Secured::start();
    let (_, before) = support::get(secured.server.http, "/metrics");
    let _client = secured.client(4);
    let (_, after) = support::get(secured.server.http, "/metrics");
    let bytes = |text: &str| -> usize {
        let name = "carnet_memory_bytes{owner=\"connections\"} ";
        text.lines().find_map(|line| line.strip_prefix(name)).unwrap().parse().unwrap()
    };
    assert_eq!(bytes(&after) - bytes(&before), 96 << 10);
}

/// Bytes that follow a handshake at random do not harm the server.
#[test]
fn garbage_ends_only_its_connection() {
    let secured = Secured::start();
    let mut bystander = secured.client(5);
    for seed in 0..50_u8 {
        let config = secured.authority.client(None, VERSIONS);
        let stream = secured.connect(config).unwrap();
        let mut tcp = stream.sock;
        let record = [0x14 + seed % 5, 3, 3, 0, 40 + seed];
        tcp.write_all(&record).unwrap();
        tcp.write_all(&[seed; 100]).unwrap();
        let mut answer = Vec::new();
        let _ = tcp.read_to_end(&mut answer);
    }
    bystander.query(1, "warn");
    assert_eq!(bystander.receive().opcode, RESULT);
}
