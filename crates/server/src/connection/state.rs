//! State machine of a connection, without I/O.
//!
//! ```text
//!              STARTUP, no passwords            AUTH_RESPONSE       right
//!   Greeting ───────────────────────▶ Ready ◀──────────────── Verifying ◀─── Asked
//!      │                               │          │ wrong                      ▲
//!      │ STARTUP, passwords            │          ▼                            │
//!      └───────────────────────────────┼──▶ … ────────────────────────────────┘
//!                                      ▼
//!            anything that breaks the protocol ▶ Closing
//! ```
//!
//! OPTIONS is answered in every phase, because some drivers send it after STARTUP and all use it as
//! a heartbeat. Statements are handed out to run concurrently; the machine never waits for one.
//!
//! The version is that of the first frame, and fixed by STARTUP. A frame of an unsupported version
//! is answered on stream 0, in the highest supported version: drivers read this answer before they
//! reconnect with a lower version.

use crate::auth::{self, Credentials, Refusal};
use crate::backend::User;
use crate::protocol::encoder::Encoding;
use crate::protocol::error::{ErrorCode, ErrorResponse};
use crate::protocol::frame::{Frame, RequestHeader, flags};
use crate::protocol::request::ProtocolRequest;
use crate::protocol::response::Response;
use crate::protocol::statement::Statement;
use crate::protocol::types::EventType;
use crate::protocol::{Opcode, ProtocolError, Version};
use carnet_base::Charge;

/// Actions for the driver, in this order.
pub(super) enum Action {
    /// Send a response.
    Send { stream: i16, response: Response },
    /// Switch reading and writing to the negotiated encoding.
    Negotiated(Encoding),
    /// Find the role of the client's certificate, then call [`Connection::identified`].
    Identify { stream: i16 },
    /// Verify a password, then call [`Connection::verified`].
    Verify { stream: i16, credentials: Credentials },
    /// Open the backend's session.
    Open { user: Option<User>, version: Version, options: Vec<(String, String)> },
    /// Run a statement and send its response.
    Run(Job),
    /// Send events of these types from now on, in addition to earlier ones.
    Subscribe(Vec<EventType>),
}

/// Statement to run.
pub(super) struct Job {
    pub(super) stream: i16,
    pub(super) opcode: Opcode,
    pub(super) statement: Statement,
    /// Whether the client requested a trace.
    pub(super) tracing: bool,
    /// Charges of the request and of its decoded values to the server's budget, until it is answered.
    pub(super) charges: (Charge, Option<Charge>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Greeting,
    Asked,
    Verifying,
    Ready,
    Closing,
}

/// How a client says who it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Login {
    /// It does not.
    None,
    /// By a password.
    Password,
    /// By its certificate, or by a password if no role has the certificate's identities.
    Certificate,
}

/// The state of one connection.
pub(super) struct Connection {
    phase: Phase,
    login: Login,
    encoding: Encoding,
    /// Options of STARTUP, kept until the session is opened.
    options: Vec<(String, String)>,
}

impl Connection {
    pub(super) const fn new(login: Login) -> Self {
        Self {
            phase: Phase::Greeting,
            login,
            encoding: Encoding { version: Version::HIGHEST, lz4: false },
            options: Vec::new(),
        }
    }

    /// Returns the current encoding of responses.
    pub(super) const fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// Returns the STARTUP options, until the session is opened.
    pub(super) fn options(&self) -> &[(String, String)] {
        &self.options
    }

    /// Returns `true` if another frame may be taken: not during a verification, and not after the
    /// end.
    pub(super) fn takes_frames(&self) -> bool {
        !matches!(self.phase, Phase::Verifying | Phase::Closing)
    }

    /// Returns `true` until the client has logged in.
    pub(super) fn is_greeting(&self) -> bool {
        matches!(self.phase, Phase::Greeting | Phase::Asked | Phase::Verifying)
    }

    /// Returns `true` once the client may run statements.
    pub(super) fn is_ready(&self) -> bool {
        self.phase == Phase::Ready
    }

    /// Returns `true` if the connection ends after everything is sent.
    pub(super) fn is_closing(&self) -> bool {
        self.phase == Phase::Closing
    }

    /// Ends the connection after all requests in progress are answered. The end is final: a log-in that is
    /// verified meanwhile is refused.
    pub(super) const fn close(&mut self) {
        self.phase = Phase::Closing;
    }

    /// Decodes a frame, of a statement its head: [`Connection::step`] decodes the rest once it is admitted.
    ///
    /// # Errors
    ///
    /// The actions that refuse a malformed frame.
    pub(super) fn decode(&mut self, frame: &Frame) -> Result<ProtocolRequest, Vec<Action>> {
        let RequestHeader { version, stream, .. } = frame.header;
        if self.phase == Phase::Greeting {
            self.encoding.version = version;
        }
        ProtocolRequest::decode(frame).map_err(|error| self.refuse(stream, &error))
    }

    /// Processes a frame and its request.
    pub(super) fn step(&mut self, frame: Frame, request: ProtocolRequest) -> Vec<Action> {
        let RequestHeader { stream, opcode, .. } = frame.header;
        match (request, self.phase) {
            (ProtocolRequest::Options, _) => vec![Action::Send { stream, response: supported() }],
            (ProtocolRequest::Startup(options), Phase::Greeting) => self.startup(stream, options),
            (ProtocolRequest::AuthResponse(token), Phase::Asked) => {
                match Credentials::parse(token.as_ref()) {
                    Ok(credentials) => {
                        self.phase = Phase::Verifying;
                        vec![Action::Verify { stream, credentials }]
                    }
                    Err(e) => self.refuse(stream, &e),
                }
            }
            (ProtocolRequest::Register(types), Phase::Ready) => {
                vec![Action::Subscribe(types), Action::Send { stream, response: Response::Ready }]
            }
            (ProtocolRequest::Statement(head), Phase::Ready) => match head.decode() {
                Ok(statement) => {
                    let tracing = frame.header.has(flags::TRACING);
                    let charges = (frame.charge, frame.values);
                    vec![Action::Run(Job { stream, opcode, statement, tracing, charges })]
                }
                Err(error) => self.refuse(stream, &error),
            },
            (_, phase) => {
                let why = match phase {
                    Phase::Greeting => "the first request is STARTUP or OPTIONS",
                    Phase::Asked | Phase::Verifying => "the next request is AUTH_RESPONSE",
                    Phase::Ready | Phase::Closing => "the connection has started already",
                };
                let why = format!("{} cannot be asked now: {why}", opcode.name());
                self.refuse(stream, &ProtocolError::malformed(why))
            }
        }
    }

    fn startup(&mut self, stream: i16, options: Vec<(String, String)>) -> Vec<Action> {
        if !options.iter().any(|(name, _)| name.eq_ignore_ascii_case("CQL_VERSION")) {
            let why = "Missing value CQL_VERSION in STARTUP message";
            return self.refuse(stream, &ProtocolError::malformed(why));
        }
        let compression = options.iter().find(|(name, _)| name == "COMPRESSION");
        match compression.map(|(_, value)| value.to_ascii_lowercase()).as_deref() {
            None | Some("") => {}
            Some("lz4") => self.encoding.lz4 = true,
            Some(other) => {
                let why = format!("compression {other:?} is not supported: use lz4 or none");
                return self.refuse(stream, &ProtocolError::malformed(why));
            }
        }
        self.options = options;
        match self.login {
            Login::None => self.ready(stream, None),
            Login::Password => self.ask(stream),
            Login::Certificate => {
                self.phase = Phase::Verifying;
                vec![Action::Identify { stream }]
            }
        }
    }

    fn ask(&mut self, stream: i16) -> Vec<Action> {
        self.phase = Phase::Asked;
        let response = Response::Authenticate(auth::CLASS);
        vec![Action::Send { stream, response }, Action::Negotiated(self.encoding)]
    }

    fn ready(&mut self, stream: i16, user: Option<User>) -> Vec<Action> {
        let open = self.open(user);
        let ready = Action::Send { stream, response: Response::Ready };
        vec![ready, Action::Negotiated(self.encoding), open]
    }

    /// Processes the result of [`Action::Identify`]: `None` if no role has the certificate's identities.
    pub(super) fn identified(
        &mut self,
        stream: i16,
        role: Option<Result<User, Refusal>>,
    ) -> Vec<Action> {
        match role {
            None => self.ask(stream),
            Some(Ok(role)) => self.ready(stream, Some(role)),
            Some(Err(refusal)) => self.refuse_login(stream, refusal),
        }
    }

    fn open(&mut self, user: Option<User>) -> Action {
        self.phase = Phase::Ready;
        let options = std::mem::take(&mut self.options);
        Action::Open { user, version: self.encoding.version, options }
    }

    /// Processes the result of [`Action::Verify`].
    pub(super) fn verified(&mut self, stream: i16, answer: Result<User, Refusal>) -> Vec<Action> {
        match answer {
            Ok(_) if self.is_closing() => {
                let why = "the server is shutting down: connect to another one";
                self.end(stream, ErrorResponse::plain(ErrorCode::Overloaded, why))
            }
            Ok(user) => {
                let open = self.open(Some(user));
                vec![open, Action::Send { stream, response: Response::AuthSuccess }]
            }
            Err(refusal) => self.refuse_login(stream, refusal),
        }
    }

    fn refuse_login(&mut self, stream: i16, refusal: Refusal) -> Vec<Action> {
        let code = match refusal {
            Refusal::Busy | Refusal::TooManyConnections => ErrorCode::Overloaded,
            Refusal::Wrong | Refusal::NoLogin | Refusal::Shadowed => ErrorCode::Authentication,
        };
        self.end(stream, ErrorResponse::plain(code, refusal.why()))
    }

    /// Processes bytes that are not a frame. They belong to no stream.
    pub(super) fn broken(&mut self, error: &ProtocolError) -> Vec<Action> {
        if matches!(error, ProtocolError::UnsupportedVersion(_)) {
            self.encoding.version = Version::HIGHEST;
        }
        self.refuse(0, error)
    }

    /// Processes the header of a frame for which there was no memory.
    pub(super) fn shed(&mut self, header: RequestHeader) -> Vec<Action> {
        if self.phase == Phase::Greeting {
            self.encoding.version = header.version;
        }
        let why = "the server holds too many bytes of requests already: try again later";
        let response = Response::Error(ErrorResponse::plain(ErrorCode::Overloaded, why));
        vec![Action::Send { stream: header.stream, response }]
    }

    fn refuse(&mut self, stream: i16, error: &ProtocolError) -> Vec<Action> {
        self.end(stream, ErrorResponse::plain(ErrorCode::Protocol, error.to_string()))
    }

    fn end(&mut self, stream: i16, error: ErrorResponse) -> Vec<Action> {
        self.close();
        vec![Action::Send { stream, response: Response::Error(error) }]
    }
}

/// Returns the supported STARTUP options. Scylla's are left out, because they would promise shards.
fn supported() -> Response {
    Response::Supported(vec![
        ("CQL_VERSION", vec!["3.4.7"]),
        ("COMPRESSION", vec!["lz4"]),
        ("PROTOCOL_VERSIONS", vec!["4/v4", "5/v5"]),
    ])
}

#[cfg(test)]
mod tests {
    use bytes::{BufMut, Bytes};

    use super::*;
    use carnet_base::MemoryBudget;

    fn frame(version: Version, opcode: Opcode, body: &[u8]) -> Frame {
        let header = RequestHeader { version, flags: 0, stream: 9, opcode, body_len: body.len() };
        let charge = MemoryBudget::new(body.len()).charge(body.len()).unwrap();
        Frame { header, body: Bytes::copy_from_slice(body), charge, values: None }
    }

    fn startup(version: Version, options: &[(&str, &str)]) -> Frame {
        let mut body = Vec::new();
        body.put_u16(u16::try_from(options.len()).unwrap());
        for text in options.iter().flat_map(|(name, value)| [name, value]) {
            body.put_u16(u16::try_from(text.len()).unwrap());
            body.put_slice(text.as_bytes());
        }
        frame(version, Opcode::Startup, &body)
    }

    /// Processes a frame without admission.
    fn step(connection: &mut Connection, frame: Frame) -> Vec<Action> {
        match connection.decode(&frame) {
            Ok(request) => connection.step(frame, request),
            Err(refused) => refused,
        }
    }

    /// Returns a readable line for each action.
    fn story(actions: Vec<Action>) -> Vec<String> {
        let tell = |action| match action {
            Action::Send { stream, response: Response::Error(e) } => {
                format!("{stream}: {:?}: {}", e.code(Version::V4), e.message)
            }
            Action::Send { stream, response } => format!("{stream}: {}", response.opcode().name()),
            Action::Negotiated(encoding) => {
                format!("negotiated {:?} lz4={}", encoding.version, encoding.lz4)
            }
            Action::Identify { stream } => format!("identify {stream}"),
            Action::Verify { credentials, .. } => format!("verify {}", credentials.user),
            Action::Open { user, .. } => format!("open {:?}", user.map(|user| user.name)),
            Action::Run(job) => format!("run {}", job.opcode.name()),
            Action::Subscribe(types) => format!("subscribe {types:?}"),
        };
        actions.into_iter().map(tell).collect()
    }

    fn ann() -> User {
        User { name: "ann".to_owned(), is_role: true }
    }

    const CQL_VERSION: (&str, &str) = ("CQL_VERSION", "3.0.0");
    const QUERY: &[u8] = b"\0\0\0\x01q\0\x01\0";

    #[test]
    fn startup_makes_ready_without_passwords() {
        let mut connection = Connection::new(Login::None);
        assert!(connection.is_greeting());
        let options = [("CQL_VERSION", "4.0.0"), ("DRIVER_CONFIG", "{}"), ("COMPRESSION", "LZ4")];
        let actions = story(step(&mut connection, startup(Version::V5, &options)));
        // Ready is sent in the old framing, later responses in the new one.
        assert_eq!(actions, ["9: READY", "negotiated V5 lz4=true", "open None"]);
        let options = step(&mut connection, frame(Version::V5, Opcode::Options, b""));
        assert_eq!(story(options), ["9: SUPPORTED"]);
        let register = b"\0\x01\0\x0dSCHEMA_CHANGE";
        let actions = story(step(&mut connection, frame(Version::V5, Opcode::Register, register)));
        assert_eq!(actions, ["subscribe [Schema]", "9: READY"]);
    }

    #[test]
    fn statements_require_the_right_password() {
        let mut connection = Connection::new(Login::Password);
        let actions =
            story(step(&mut connection, startup(Version::V4, &[("CQL_VERSION", "3.0.0")])));
        assert_eq!(actions, ["9: AUTHENTICATE", "negotiated V4 lz4=false"]);
        let token = b"\0\0\0\x08\0ann\0one";
        let actions = story(step(&mut connection, frame(Version::V4, Opcode::AuthResponse, token)));
        assert_eq!(actions, ["verify ann"]);
        assert!(!connection.takes_frames(), "nothing is run before the answer");
        let actions = story(connection.verified(9, Ok(ann())));
        assert_eq!(actions, ["open Some(\"ann\")", "9: AUTH_SUCCESS"]);
        let actions = story(step(&mut connection, frame(Version::V4, Opcode::Query, QUERY)));
        assert_eq!(actions, ["run QUERY"]);
    }

    #[test]
    fn role_of_the_certificate_needs_no_password() {
        let started = || {
            let mut connection = Connection::new(Login::Certificate);
            let actions = story(step(&mut connection, startup(Version::V5, &[CQL_VERSION])));
            assert_eq!(actions, ["identify 9"]);
            assert!(!connection.takes_frames(), "nothing is run before the answer");
            connection
        };
        let mut known = started();
        let actions = story(known.identified(9, Some(Ok(ann()))));
        assert_eq!(actions, ["9: READY", "negotiated V5 lz4=false", "open Some(\"ann\")"]);
        assert!(known.is_ready());
        let mut unknown = started();
        let actions = story(unknown.identified(9, None));
        assert_eq!(actions, ["9: AUTHENTICATE", "negotiated V5 lz4=false"]);
        let mut refused = started();
        let actions = story(refused.identified(9, Some(Err(Refusal::NoLogin))));
        assert!(actions[0].starts_with("9: Authentication"), "{actions:?}");
        assert!(refused.is_closing());
    }

    #[test]
    fn wrong_password_ends_the_connection() {
        for refusal in [Refusal::Wrong, Refusal::NoLogin, Refusal::Busy] {
            let mut connection = Connection::new(Login::Password);
            step(&mut connection, startup(Version::V4, &[CQL_VERSION]));
            let token = b"\0\0\0\x08\0ann\0one";
            step(&mut connection, frame(Version::V4, Opcode::AuthResponse, token));
            let actions = story(connection.verified(9, Err(refusal)));
            assert_eq!(actions.len(), 1);
            assert!(connection.is_closing());
        }
    }

    #[test]
    fn requests_out_of_order_end_the_connection() {
        let refused = |passwords, before: &[Opcode], opcode, body: &[u8]| {
            let login = if passwords { Login::Password } else { Login::None };
            let mut connection = Connection::new(login);
            for _ in before {
                step(&mut connection, startup(Version::V4, &[CQL_VERSION]));
            }
            let actions = story(step(&mut connection, frame(Version::V4, opcode, body)));
            assert!(connection.is_closing(), "{actions:?}");
            assert!(!connection.takes_frames());
            actions.concat()
        };
        let early = refused(false, &[], Opcode::Query, QUERY);
        assert!(early.contains("QUERY cannot be asked now: the first request is STARTUP"));
        let unasked = refused(true, &[Opcode::Startup], Opcode::Query, QUERY);
        assert!(unasked.contains("the next request is AUTH_RESPONSE"));
        let token = b"\0\0\0\x08\0ann\0one";
        let nobody_asked = refused(false, &[Opcode::Startup], Opcode::AuthResponse, token);
        assert!(nobody_asked.contains("started already"));
        let twice = refused(false, &[Opcode::Startup], Opcode::Startup, b"\0\0");
        assert!(twice.contains("started already"));
        let malformed =
            refused(false, &[Opcode::Startup], Opcode::Query, b"\0\0\0\x01\xff\0\x01\0");
        assert!(malformed.starts_with("9: Protocol"), "on the request's stream: {malformed}");
    }

    /// The server drains while a password is verified. The driver relies on a closing connection to stay closed.
    #[test]
    fn closing_connection_refuses_verified_login() {
        let mut connection = Connection::new(Login::Password);
        step(&mut connection, startup(Version::V4, &[CQL_VERSION]));
        step(&mut connection, frame(Version::V4, Opcode::AuthResponse, b"\0\0\0\x08\0ann\0one"));
        connection.close();
        let actions = story(connection.verified(9, Ok(ann())));
        assert_eq!(actions, ["9: Overloaded: the server is shutting down: connect to another one"]);
        assert!(connection.is_closing());
        let actions = story(connection.verified(9, Err(Refusal::Wrong)));
        assert!(actions[0].starts_with("9: Authentication"), "{actions:?}");
        assert!(connection.is_closing());
    }

    #[test]
    fn unsupported_compression_is_refused() {
        let mut connection = Connection::new(Login::None);
        let actions = story(step(
            &mut connection,
            startup(Version::V4, &[CQL_VERSION, ("COMPRESSION", "snappy")]),
        ));
        assert_eq!(
            actions,
            ["9: Protocol: compression \"snappy\" is not supported: use lz4 or none"]
        );
        assert!(connection.is_closing());
    }

    #[test]
    fn startup_without_cql_version_is_refused() {
        let mut connection = Connection::new(Login::None);
        let actions = story(step(&mut connection, startup(Version::V4, &[("DRIVER_NAME", "x")])));
        assert_eq!(actions, ["9: Protocol: Missing value CQL_VERSION in STARTUP message"]);
        assert!(connection.is_closing());
    }

    #[test]
    fn version_three_is_refused_by_name() {
        let mut connection = Connection::new(Login::None);
        let actions = story(connection.broken(&ProtocolError::UnsupportedVersion(3)));
        let expected = "0: Protocol: Invalid or unsupported protocol version (3); \
                        supported versions are (4/v4, 5/v5)";
        assert_eq!(actions, [expected]);
    }

    #[test]
    fn unknown_version_is_answered_on_stream_zero() {
        let mut connection = Connection::new(Login::None);
        step(&mut connection, frame(Version::V4, Opcode::Options, b""));
        let actions = story(connection.broken(&ProtocolError::UnsupportedVersion(66)));
        assert!(
            actions[0].starts_with("0: Protocol: Invalid or unsupported protocol version (66); "),
            "{actions:?}"
        );
        assert_eq!(connection.encoding().version, Version::V5);
        assert!(connection.is_closing());
    }

    #[test]
    fn shed_request_can_be_retried() {
        let mut connection = Connection::new(Login::None);
        step(&mut connection, startup(Version::V4, &[CQL_VERSION]));
        let header = frame(Version::V4, Opcode::Query, QUERY).header;
        let actions = story(connection.shed(header));
        assert!(actions[0].starts_with("9: Overloaded"));
        assert!(connection.takes_frames());
    }
}
