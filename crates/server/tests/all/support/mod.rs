//! A server on the toy backend, and a client that encodes the protocol byte by byte.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use carnet_base::{Clock, SystemClock};
use carnet_server::protocol::compression;
use carnet_server::protocol::segment::{self, PAYLOAD_LEN_MAX};
use carnet_server::{
    Authenticator, Backend, Clients, Config, Dashboard, Drain, Events, HttpToken, Limits, Metrics,
    Server, Tls, Users,
};
use tokio::net::TcpSocket;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

pub(crate) mod certificates;
pub(crate) mod toy;

pub(crate) const ERROR: u8 = 0x00;
pub(crate) const STARTUP: u8 = 0x01;
pub(crate) const READY: u8 = 0x02;
pub(crate) const AUTHENTICATE: u8 = 0x03;
pub(crate) const OPTIONS: u8 = 0x05;
pub(crate) const SUPPORTED: u8 = 0x06;
pub(crate) const QUERY: u8 = 0x07;
pub(crate) const RESULT: u8 = 0x08;
pub(crate) const PREPARE: u8 = 0x09;
pub(crate) const EXECUTE: u8 = 0x0a;
pub(crate) const REGISTER: u8 = 0x0b;
pub(crate) const EVENT: u8 = 0x0c;
pub(crate) const AUTH_RESPONSE: u8 = 0x0f;
pub(crate) const AUTH_SUCCESS: u8 = 0x10;

/// Password line of the user `ann` with the password `one`, whose hash is cheap to verify.
pub(crate) const PASSWORDS: &str =
    "ann:$argon2id$v=19$m=8,t=1,p=1$c29tZXNhbHQ$d17tMH7Q1CdaUEKQ4nz7hOTfxJW0p6Muqb0f8nJuJAE";

/// A server that runs until it is dropped or drained.
pub(crate) struct Running {
    runtime: Runtime,
    pub(crate) address: SocketAddr,
    pub(crate) http: SocketAddr,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) events: Events,
    pub(crate) clients: Clients,
    shutdown: Option<oneshot::Sender<()>>,
    served: Option<JoinHandle<Drain>>,
}

/// Log lines of a server.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    /// Returns the lines that contain a text.
    pub(crate) fn lines(&self, part: &str) -> Vec<String> {
        let log = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        log.lines().filter(|line| line.contains(part)).map(str::to_owned).collect()
    }
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Running {
    pub(crate) fn start() -> Self {
        Self::with(Limits::default(), None)
    }

    pub(crate) fn with(limits: Limits, passwords: Option<&str>) -> Self {
        Self::of(toy::Toy::default(), limits, passwords)
    }

    pub(crate) fn of<B: Backend>(backend: B, limits: Limits, passwords: Option<&str>) -> Self {
        Self::on(Runtime::new().unwrap(), backend, limits, passwords)
    }

    pub(crate) fn on_one_thread<B: Backend>(backend: B) -> Self {
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(1).enable_all().build().unwrap();
        Self::on(runtime, backend, Limits::default(), None)
    }

    /// Starts a server whose log lines are collected.
    pub(crate) fn logged<B: Backend>(backend: B) -> (Self, Log) {
        let log = Log::default();
        let of_threads = log.clone();
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        runtime.enable_all().worker_threads(2).on_thread_start(move || {
            let writer = of_threads.clone();
            let lines = tracing_subscriber::fmt().with_ansi(false);
            let lines = lines.with_writer(move || writer.clone());
            // The thread has this log until it ends.
            std::mem::forget(tracing::subscriber::set_default(lines.finish()));
        });
        (Self::on(runtime.build().unwrap(), backend, Limits::default(), None), log)
    }

    /// Starts a server whose connections are over TLS, with log-ins.
    pub(crate) fn over_tls_with(
        tls: Arc<Tls>,
        limits: Limits,
        authenticator: Option<Authenticator>,
    ) -> Self {
        let config = Config { tls: Some(tls), limits, ..Self::config() };
        Self::with_config(Runtime::new().unwrap(), toy::Toy::default(), config, authenticator)
    }

    /// Starts a server whose monitors show a token.
    pub(crate) fn with_http_token(token: HttpToken, passwords: Option<&str>) -> Self {
        let config = Config { http_token: Some(token), ..Self::config() };
        let users = authenticator(passwords);
        Self::with_config(Runtime::new().unwrap(), toy::Toy::default(), config, users)
    }

    /// Starts a server that browsers reach by a name.
    pub(crate) fn with_http_host(name: &str) -> Self {
        let config = Config { http_hosts: vec![name.to_owned()], ..Self::config() };
        Self::with_config(Runtime::new().unwrap(), toy::Toy::default(), config, None)
    }

    /// Starts a server with a part of the dashboard.
    pub(crate) fn with_dashboard(dashboard: Dashboard) -> Self {
        let config = Config { dashboard, ..Self::config() };
        Self::with_config(Runtime::new().unwrap(), toy::Toy::default(), config, None)
    }

    /// Starts a server with these users, which may be replaced, and a token for monitors.
    pub(crate) fn with_users(users: &Arc<Users>, token: HttpToken) -> Self {
        let authenticator = Authenticator::of_users(Arc::clone(users));
        let config = Config { http_token: Some(token), ..Self::config() };
        let (runtime, toy) = (Runtime::new().unwrap(), toy::Toy::default());
        Self::with_config(runtime, toy, config, Some(authenticator))
    }

    fn config() -> Config {
        let loopback = SocketAddr::from(([127, 0, 0, 1], 0));
        Config { http: Some(loopback), ..Config::new(loopback) }
    }

    fn on<B: Backend>(
        runtime: Runtime,
        backend: B,
        limits: Limits,
        passwords: Option<&str>,
    ) -> Self {
        let config = Config { limits, ..Self::config() };
        Self::with_config(runtime, backend, config, authenticator(passwords))
    }

    fn with_config<B: Backend>(
        runtime: Runtime,
        backend: B,
        config: Config,
        authenticator: Option<Authenticator>,
    ) -> Self {
        Self::with_clock(runtime, backend, config, authenticator, Arc::new(SystemClock))
    }

    /// Starts a server whose time is told by a clock.
    pub(crate) fn on_clock(clock: Arc<dyn Clock>, limits: Limits) -> Self {
        let config = Config { limits, ..Self::config() };
        Self::with_clock(Runtime::new().unwrap(), toy::Toy::default(), config, None, clock)
    }

    fn with_clock<B: Backend>(
        runtime: Runtime,
        backend: B,
        config: Config,
        authenticator: Option<Authenticator>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let clients = config.clients.clone();
        let server = Server::bind(config, backend, authenticator, clock);
        let server = runtime.block_on(server).unwrap();
        let address = server.local_addr().unwrap();
        let http = server.http_addr().unwrap().unwrap();
        let (metrics, events) = (server.metrics(), server.events());
        let (shutdown, asked) = oneshot::channel();
        let served = runtime.spawn(server.run(async {
            let _ = asked.await;
        }));
        let (shutdown, served) = (Some(shutdown), Some(served));
        Self { runtime, address, http, metrics, events, clients, shutdown, served }
    }

    pub(crate) fn connect_from(&self, source: &str, to: SocketAddr) -> TcpStream {
        let source = SocketAddr::new(source.parse().unwrap(), 0);
        let stream = self.runtime.block_on(async {
            let socket = TcpSocket::new_v4().unwrap();
            socket.bind(source).unwrap();
            socket.connect(to).await.unwrap()
        });
        let stream = stream.into_std().unwrap();
        stream.set_nonblocking(false).unwrap();
        stream
    }

    /// Starts a drain of the server, and returns at once.
    pub(crate) fn shut_down(&mut self) {
        self.shutdown.take().unwrap().send(()).unwrap();
    }

    /// Waits until the server has drained.
    pub(crate) fn join(&mut self) {
        self.runtime.block_on(self.served.take().unwrap()).unwrap();
    }

    /// Waits until a condition holds, for at most ten seconds.
    pub(crate) fn eventually(&self, what: &str, mut is_so: impl FnMut(&Metrics) -> bool) {
        for _ in 0..10_000 {
            if is_so(&self.metrics) {
                return;
            }
            pause(Duration::from_millis(1));
        }
        panic!("never happened: {what}");
    }

    pub(crate) fn client(&self, version: u8) -> Client {
        self.client_from("127.0.0.1", version)
    }

    /// Connects from another address of the loopback network.
    pub(crate) fn client_from(&self, source: &str, version: u8) -> Client {
        let mut client = Client::over(self.connect_from(source, self.address), version);
        client.startup(&[]);
        assert_eq!(client.receive().opcode, READY);
        client.settle(false);
        client
    }
}

fn authenticator(passwords: Option<&str>) -> Option<Authenticator> {
    passwords.map(|text| Authenticator::of_users(Arc::new(Users::parse(text).unwrap())))
}

#[expect(clippy::disallowed_methods, reason = "a test waits for the wall clock")]
pub(crate) fn pause(time: Duration) {
    std::thread::sleep(time);
}

/// A response as received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Response {
    pub(crate) version: u8,
    pub(crate) flags: u8,
    pub(crate) stream: i16,
    pub(crate) opcode: u8,
    pub(crate) body: Bytes,
}

impl Response {
    /// Returns an error's code and message.
    pub(crate) fn error(&self) -> (i32, String) {
        assert_eq!(self.opcode, ERROR, "{self:?}");
        let mut body = self.body.clone();
        if self.has_payload() {
            self.split_payload(&mut body);
        }
        let code = body.get_i32();
        let len = usize::from(body.get_u16());
        (code, String::from_utf8(body[..len].to_vec()).unwrap())
    }

    fn has_payload(&self) -> bool {
        self.flags & 4 != 0
    }

    /// Removes the custom payload and returns it.
    fn split_payload(&self, body: &mut Bytes) -> BTreeMap<String, String> {
        let entry = |body: &mut Bytes| {
            let name_len = usize::from(body.get_u16());
            let name = body.split_to(name_len);
            let value_len = usize::try_from(body.get_i32()).unwrap();
            let value = body.split_to(value_len);
            let text = |bytes: Bytes| String::from_utf8(bytes.to_vec()).unwrap();
            (text(name), text(value))
        };
        (0..body.get_u16()).map(|_| entry(body)).collect()
    }

    /// Returns an entry of the custom payload.
    pub(crate) fn payload(&self, name: &str) -> Option<String> {
        if !self.has_payload() {
            return None;
        }
        self.split_payload(&mut self.body.clone()).remove(name)
    }

    /// Returns the retry delay of the custom payload, in milliseconds.
    pub(crate) fn retry_after_ms(&self) -> Option<u64> {
        self.payload("retry_after_ms").map(|value| value.parse().unwrap())
    }

    pub(crate) fn assert_error(&self, code: i32, words: &str) {
        let (found, message) = self.error();
        assert_eq!(found, code, "{message}");
        assert!(message.contains(words), "{message:?} does not say {words:?}");
    }
}

/// Connection, from the client's side.
pub(crate) struct Client<S = TcpStream> {
    pub(crate) tcp: S,
    version: u8,
    segmented: bool,
    lz4: bool,
    received: BytesMut,
    frames: BytesMut,
}

impl Client {
    pub(crate) fn connect(address: SocketAddr, version: u8) -> Self {
        Self::over(TcpStream::connect(address).unwrap(), version)
    }

    pub(crate) fn over(tcp: TcpStream, version: u8) -> Self {
        tcp.set_nodelay(true).unwrap();
        tcp.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        Self::on(tcp, version)
    }
}

impl<S: Read + Write> Client<S> {
    /// Uses a stream that is set up.
    pub(crate) fn on(tcp: S, version: u8) -> Self {
        let (received, frames) = (BytesMut::new(), BytesMut::new());
        Self { tcp, version, segmented: false, lz4: false, received, frames }
    }

    /// Switches to the encoding that STARTUP negotiated.
    pub(crate) fn settle(&mut self, lz4: bool) {
        self.segmented = self.version == 5;
        self.lz4 = lz4;
    }

    pub(crate) fn try_send_bytes(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.tcp.write_all(bytes)
    }

    pub(crate) fn send_bytes(&mut self, bytes: &[u8]) {
        self.tcp.write_all(bytes).unwrap();
    }

    pub(crate) fn send(&mut self, stream: i16, opcode: u8, flags: u8, body: &[u8]) {
        let frame = frame(self.version, stream, opcode, flags, body);
        if !self.segmented {
            return self.send_bytes(&frame);
        }
        let mut out = BytesMut::new();
        let whole = frame.len() <= PAYLOAD_LEN_MAX;
        for part in frame.chunks(PAYLOAD_LEN_MAX) {
            segment::put(&mut out, part, whole, self.lz4);
        }
        self.send_bytes(&out);
    }

    pub(crate) fn startup(&mut self, options: &[(&str, &str)]) {
        let mut body = Vec::new();
        let all = [("CQL_VERSION", "3.0.0")];
        let all = all.iter().chain(options);
        body.put_u16(u16::try_from(1 + options.len()).unwrap());
        for text in all.flat_map(|(name, value)| [name, value]) {
            put_string(&mut body, text);
        }
        self.send(0, STARTUP, 0, &body);
    }

    pub(crate) fn query(&mut self, stream: i16, text: &str) {
        self.query_with_flags(stream, 0, text);
    }

    pub(crate) fn query_with_flags(&mut self, stream: i16, flags: u8, text: &str) {
        let mut body = Vec::new();
        body.put_i32(i32::try_from(text.len()).unwrap());
        body.put_slice(text.as_bytes());
        body.put_u16(1);
        body.put_slice(if self.version == 5 { &[0; 4] } else { &[0] });
        self.send(stream, QUERY, flags, &body);
    }

    pub(crate) fn log_in(&mut self, user: &str, password: &str) {
        let token = format!("\0{user}\0{password}");
        let mut body = Vec::new();
        body.put_i32(i32::try_from(token.len()).unwrap());
        body.put_slice(token.as_bytes());
        self.send(1, AUTH_RESPONSE, 0, &body);
    }

    pub(crate) fn register(&mut self) {
        self.register_for(&["SCHEMA_CHANGE"]);
    }

    pub(crate) fn register_for(&mut self, types: &[&str]) {
        let mut body = Vec::new();
        body.put_u16(types.len().try_into().unwrap());
        for name in types {
            body.put_u16(name.len().try_into().unwrap());
            body.put_slice(name.as_bytes());
        }
        self.send(1, REGISTER, 0, &body);
        assert_eq!(self.receive().opcode, READY);
    }

    /// Receives the next response.
    pub(crate) fn receive(&mut self) -> Response {
        self.try_receive().expect("the server closed the connection")
    }

    /// Receives the next response, `None` if the server has closed the connection.
    pub(crate) fn try_receive(&mut self) -> Option<Response> {
        loop {
            if let Some(response) = self.take() {
                return Some(response);
            }
            let mut buffer = [0; 65_536];
            match self.tcp.read(&mut buffer) {
                Ok(0) => return None,
                Ok(len) => self.received.extend_from_slice(&buffer[..len]),
                Err(e) if e.kind() == ErrorKind::ConnectionReset => return None,
                Err(e) => panic!("{e}"),
            }
        }
    }

    fn take(&mut self) -> Option<Response> {
        if self.segmented {
            while let Some(segment) = segment::take(&mut self.received, self.lz4).unwrap() {
                self.frames.extend_from_slice(&segment.payload);
            }
        } else {
            self.frames.unsplit(self.received.split());
        }
        let header = self.frames.get(..9)?;
        let len = usize::try_from(u32::from_be_bytes(header[5..].try_into().unwrap())).unwrap();
        if self.frames.len() < 9 + len {
            return None;
        }
        let mut head = self.frames.split_to(9);
        let (direction, flags) = (head.get_u8(), head.get_u8());
        assert_eq!(direction & 0x80, 0x80, "a response");
        let (stream, opcode) = (head.get_i16(), head.get_u8());
        let mut body = self.frames.split_to(len).freeze();
        if flags & 1 != 0 {
            let (len, block) = compression::split_prefixed(&body, 1 << 28).unwrap();
            body = compression::decompress(&block, len).unwrap();
        }
        Some(Response { version: direction & 0x7f, flags, stream, opcode, body })
    }

    /// Checks that the server has closed the connection after the received responses.
    pub(crate) fn assert_closed(&mut self) {
        assert_eq!(self.try_receive(), None);
    }
}

pub(crate) fn frame(version: u8, stream: i16, opcode: u8, flags: u8, body: &[u8]) -> Vec<u8> {
    let mut out = vec![version, flags];
    out.put_i16(stream);
    out.put_u8(opcode);
    out.put_i32(i32::try_from(body.len()).unwrap());
    out.put_slice(body);
    out
}

pub(crate) fn put_string(out: &mut Vec<u8>, text: &str) {
    out.put_u16(u16::try_from(text.len()).unwrap());
    out.put_slice(text.as_bytes());
}

/// Sends a request to the HTTP port, and returns the status line and the body.
pub(crate) fn http(address: SocketAddr, request: &str) -> (String, String) {
    http_over(TcpStream::connect(address).unwrap(), request)
}

pub(crate) fn http_over(mut tcp: TcpStream, request: &str) -> (String, String) {
    tcp.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    tcp.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    tcp.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.lines().next().unwrap().to_owned(), body.to_owned())
}

pub(crate) fn get(address: SocketAddr, path: &str) -> (String, String) {
    http(address, &format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"))
}
