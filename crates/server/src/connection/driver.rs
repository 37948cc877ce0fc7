//! Connection driver: moves a connection's bytes and runs its statements.
//!
//! Each connection has one task, which runs this loop in turns:
//!
//! ```text
//!   ┌▶ take frames ▶ decide ▶ poll statements, queue answers ▶ wait for any of ───┐
//!   │     bytes to read · room to write · a statement's end · an event · a drain  │
//!   └─────────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! **Statements** are polled once by this task. Most end there, and the answers of a turn leave in
//! one write. A statement that waits becomes a task of its own, so that the statements after it
//! overlap with it. A turn that has kept the thread for long ends before the next statement: the
//! tasks of other connections run first.
//!
//! **Backpressure.** The driver does not read while too many statements are in progress or wait for
//! their [admission](super::backlog), too many bytes wait to be sent, or a password is being
//! verified: the client's bytes stay in the kernel, and finally with the client.
//!
//! **Ends.** When a client disconnects, its statements are cancelled. After a protocol violation,
//! and in a drain, the client first gets the answers to the requests in progress. Then the server
//! shuts its sending side down and reads on for a moment, because closing a socket with unread
//! bytes would destroy the last answer on its way. The driver cuts off a client that stalls in the
//! middle of a request, in its greeting or in reading answers, whose request takes too long as a
//! whole, or that is idle for too long between requests.

use std::mem::take;
use std::net::SocketAddr;
use std::panic::{self, AssertUnwindSafe};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use std::{fmt, future, io};

use bytes::{Bytes, BytesMut};
use carnet_admission::diagnosis::Why;
use carnet_base::MemoryBudget;
use carnet_base::{AddressPlace, Charge, Moment};
use carnet_cql::{Grant, RequestTimes};
use tokio::net::TcpStream;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::{broadcast, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tracing::debug;

use super::alarm::Alarm;
use super::arrival::{Arrivals, Reading};
use super::backlog::Backlog;
use super::inline::Inline;
use super::pace::{Pace, Turn};
use super::receive::Received;
use super::secure::secure;
use super::shared::Shared;
use super::state::{Action, Connection, Job, Login};
use super::statement::{Answer, Arriving, Request, encode};
use super::stream::{Reader, Stream, Writer};
use super::unsent::Unsent;
use crate::accounts::{Account, Owner};
use crate::auth::Refusal;
use crate::backend::{Arrival, Backend, Client, User};
use crate::clients::Registration;
use crate::failure::Failure;
use crate::protocol::ProtocolError;
use crate::protocol::decoder::{Decoded, FrameDecoder};
use crate::protocol::encoder::FrameEncoder;
use crate::protocol::event::Event;
use crate::protocol::frame::Frame;
use crate::protocol::request::ProtocolRequest;
use crate::protocol::response::{Notes, Response};
use crate::protocol::types::{Consistency, EventType};
use crate::tls::HANDSHAKE_RECORD;

/// Maximum length of a body before the client has logged in.
const GREETING_BODY_MAX: usize = 64 << 10;
/// Buffer space reserved for a read.
const READ_LEN: usize = 16 << 10;
/// Request length in bytes above which decoding moves the thread's other tasks elsewhere.
const IN_PLACE_BYTES_MAX: usize = 2 << 20;
/// Maximum buffer that an idle connection keeps for its next requests.
const KEPT_LEN_MAX: usize = 64 << 10;
/// Interval at which a client that is not read from is checked for a disconnect.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// Time for which a request may wait for memory before its client is told to retry, and the interval
/// of the checks for memory meanwhile.
const MEMORY_PATIENCE: Duration = Duration::from_secs(5);
const MEMORY_INTERVAL: Duration = Duration::from_millis(10);
/// Maximum time without reading answers while answers hold half of their memory.
const STALL_TIMEOUT: Duration = Duration::from_secs(2);

/// Error for the first byte of a TLS handshake.
const TLS_HELLO: ProtocolError = ProtocolError::UnsupportedVersion(HANDSHAKE_RECORD);
const TLS_UNEXPECTED: &str = "the client speaks TLS, and this port does not: give the server a \
                              certificate ([tls] in the settings, --tls-cert and --tls-key), or \
                              switch TLS off in the driver";

/// Serves a client until either side ends the connection.
pub(crate) async fn serve<B: Backend>(
    shared: Arc<Shared<B>>,
    stream: TcpStream,
    peer: SocketAddr,
    place: AddressPlace<MemoryBudget>,
    drain: watch::Receiver<bool>,
) {
    let greeting_deadline = Instant::now() + shared.limits.greeting_timeout;
    // Boxed: a connection needs no memory for its handshake afterwards.
    let secured = Box::pin(secure(&shared, stream, peer, greeting_deadline, drain.clone()));
    let Some(mut stream) = secured.await else { return };
    let budget = place.shared().clone();
    let driver = Driver::new(shared, peer, &stream, budget, greeting_deadline);
    match driver.run(&mut stream, drain).await {
        Ok(()) => stream.linger().await,
        Err(e) => debug!(%peer, error = %e, "connection ended"),
    }
}

/// Result of a task of the connection.
enum Done {
    Answered(Answer),
    Verified { stream: i16, user: String, answer: Result<User, Refusal> },
}

/// Frames taken in a turn.
#[derive(Clone, Copy, Default)]
struct Taken {
    /// Whether a frame was completed.
    completed: bool,
    /// Whether the turn ended before all complete frames were taken.
    ended_early: bool,
    /// Whether there was no room for more requests; complete frames may be left.
    had_no_room: bool,
}

struct Driver<B: Backend> {
    shared: Arc<Shared<B>>,
    peer: SocketAddr,
    connection: Connection,
    registration: Registration,
    decoder: FrameDecoder,
    inbox: BytesMut,
    encoder: FrameEncoder,
    unsent: Arc<Unsent>,
    /// Memory of answers that wait for the socket.
    queued: Charge,
    running: JoinSet<Done>,
    /// Statements that run on this task.
    inline: Inline,
    /// Statements that wait for their admission.
    backlog: Arc<Backlog>,
    /// What the connection shares with others of its user, after the log-in.
    account: Option<Account>,
    /// Identities in the client's certificate, until the log-in.
    identities: Vec<String>,
    session: Option<Arc<B::Session>>,
    events: Option<broadcast::Receiver<Event>>,
    /// Event types that the client registered for.
    event_types: Vec<EventType>,
    /// Deadline of the log-in.
    greeting_deadline: Instant,
    /// Arrival time of the request in progress.
    pace: Pace,
    /// Arrival times of the received bytes.
    arrivals: Arrivals,
    /// Time at which the last received bytes reached the machine.
    arrived: Moment,
    /// Time of the last received bytes.
    read_at: Instant,
    /// Time since which the connection is read from; `None` while it is not.
    reads_since: Option<Instant>,
    /// Time of the last check of a client that is not read from.
    checked_at: Instant,
    /// Time of the last sent bytes, or of queuing the first of the waiting ones.
    written_at: Instant,
    /// Time since which the request in progress waits for memory.
    waits_since: Option<Moment>,
}

impl<B: Backend> Driver<B> {
    fn new(
        shared: Arc<Shared<B>>,
        peer: SocketAddr,
        stream: &Stream,
        budget: MemoryBudget,
        greeting_deadline: Instant,
    ) -> Self {
        let now = Instant::now();
        let knows_identities = shared.authenticator.as_ref().map(|known| known.knows_identities());
        let identities = match knows_identities {
            Some(true) => stream.identities(),
            _ => Vec::new(),
        };
        let login = match knows_identities {
            None => Login::None,
            Some(_) if identities.is_empty() => Login::Password,
            Some(_) => Login::Certificate,
        };
        Self {
            peer,
            connection: Connection::new(login),
            identities,
            account: None,
            registration: shared.clients.register(peer, stream.tls()),
            decoder: FrameDecoder::new(budget, GREETING_BODY_MAX.min(shared.limits.body_bytes_max)),
            inbox: BytesMut::new(),
            encoder: FrameEncoder::new(),
            unsent: Arc::new(Unsent::new(shared.limits.unsent_bytes_max)),
            queued: shared.answers.charge(0).expect("no bytes fit into every budget"),
            running: JoinSet::new(),
            inline: Inline::new(Arc::clone(&shared.lag)),
            backlog: Arc::new(Backlog::new(Arc::clone(&shared.backlogs))),
            session: None,
            events: None,
            event_types: Vec::new(),
            greeting_deadline,
            pace: Pace::default(),
            arrivals: Arrivals::default(),
            arrived: shared.clock.now(),
            read_at: now,
            reads_since: None,
            checked_at: now,
            written_at: now,
            waits_since: None,
            shared,
        }
    }

    /// Runs the loop until the connection has ended.
    async fn run(
        mut self,
        stream: &mut Stream,
        mut drain: watch::Receiver<bool>,
    ) -> io::Result<()> {
        let (reader, mut writer) = stream.split();
        let mut alarm = Alarm::new();
        // An error means that the server is gone, which is a drain too.
        let mut drained = pin!(async move { drop(drain.wait_for(|drains| *drains).await) });
        loop {
            while let Some(done) = self.running.try_join_next() {
                self.finished(done);
            }
            let Taken { completed, ended_early, had_no_room } = self.take_frames();
            self.encoder.seal();
            if self.connection.is_closing() && self.running.is_empty() && self.encoder.is_empty() {
                return Ok(());
            }
            if ended_early {
                self.yield_turn(&writer).await?;
            }
            let (waits, pause) = (self.decoder.waits(), self.pause());
            let has_room = pause.is_zero() && self.has_room();
            // Buffered frames come before other bytes: the client may send no more until they are answered. They are taken
            // at once where room was made meanwhile, for example because the pause has passed.
            let takes_on = ended_early || (had_no_room && has_room);
            let reads = has_room && !takes_on && !waits;
            let writes = !self.encoder.is_empty();
            let mid_frame = self.decoder.is_mid_frame(&self.inbox);
            self.pace.turn(Instant::now(), Turn { completed, mid_frame, reads });
            self.reads_since = reads.then(|| self.reads_since.unwrap_or_else(Instant::now));
            let deadline = self.deadline(mid_frame);
            if reads {
                make_room(&mut self.inbox, self.decoder.expected());
            }
            let checks = !reads || writes;
            if checks {
                self.check_client(&reader)?;
            }
            // Wakes also to check for the client's disconnect, and whether it reads its answers.
            let next_check = checks.then(|| self.checked_at + CHECK_INTERVAL);
            let next_try = waits.then(|| Instant::now() + MEMORY_INTERVAL);
            let paused_until = (!pause.is_zero()).then(|| Instant::now() + pause);
            let deadline_at = deadline.map(|(at, _)| at);
            let wakes_at =
                [deadline_at, next_check, next_try, paused_until].into_iter().flatten().min();
            tokio::select! {
                biased;
                () = &mut drained, if !self.connection.is_closing() => self.connection.close(),
                sent = writer.send(self.encoder.out()), if writes => self.sent(sent?),
                Some(done) = self.running.join_next() => self.finished(done),
                () = self.backlog.changed(), if !reads => {}
                event = next_event(&mut self.events) => self.tell(event),
                () = alarm.passed(wakes_at) => check_deadline(deadline)?,
                read = reader.receive(&mut self.inbox), if reads => self.received(read?)?,
                () = future::ready(()), if takes_on => {}
            }
        }
    }

    /// Sends the answers of a turn that ended early, and lets other tasks run.
    async fn yield_turn(&mut self, writer: &Writer<'_>) -> io::Result<()> {
        if !self.encoder.is_empty() {
            match writer.try_send(self.encoder.out()) {
                Ok(len) => self.sent(len),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        tokio::task::yield_now().await;
        Ok(())
    }

    /// Sheds the request in progress if it has waited for memory for too long, or at all if its client
    /// asks for refusals. Requests behind a shed one have waited as long.
    fn gives_up(&mut self) -> bool {
        if !self.decoder.waits() {
            // While the rest of a request arrives that has waited, the diagnosis does not know of its wait.
            if !self.decoder.is_mid_frame(&self.inbox) {
                self.waits_since = None;
            }
            return false;
        }
        let now = self.shared.clock.now();
        let since = *self.waits_since.get_or_insert(now);
        let is_refused =
            self.session.as_ref().is_some_and(|session| self.shared.backend.refuses(session));
        let is_over = is_refused || now.since(since) >= MEMORY_PATIENCE;
        if is_over {
            self.decoder.give_up();
        }
        is_over
    }

    /// Returns `true` if more requests may be taken now.
    fn takes_requests(&self) -> bool {
        self.has_room() && self.pause().is_zero()
    }

    /// Returns `true` if there is room for more requests.
    fn has_room(&self) -> bool {
        self.connection.takes_frames()
            && self.running.len() < self.shared.limits.requests_per_connection_max
            && self.encoder.len() < self.shared.limits.unsent_bytes_max
            && self.backlog.has_room()
            // The end of one of its statements gives memory back. Without any, the client is told to retry.
            && (self.decoder.waits() || self.running.is_empty() || self.decoder.has_room())
    }

    /// Returns the time for which the connection is not read from, so that its user keeps to its rate.
    fn pause(&self) -> Duration {
        self.account
            .as_ref()
            .map_or(Duration::ZERO, |account| account.wait(|| self.shared.clock.now()))
    }

    /// Checks whether the client reads its answers, and whether a client that is not read from has
    /// closed the connection: its statements would run in vain.
    fn check_client(&mut self, reader: &Reader<'_>) -> io::Result<()> {
        let now = Instant::now();
        if now.duration_since(self.checked_at) < CHECK_INTERVAL {
            return Ok(());
        }
        self.checked_at = now;
        self.check_stall(now)?;
        if self.takes_requests() && !self.decoder.waits() {
            return Ok(());
        }
        let ready = pin!(reader.ready());
        match ready.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Ok(ready)) if ready.is_read_closed() => Err(gone()),
            Poll::Ready(Err(error)) => Err(error),
            _ => Ok(()),
        }
    }

    /// Ends a connection that does not read its answers while answers hold half of their memory.
    fn check_stall(&self, now: Instant) -> io::Result<()> {
        let (used, most) = (self.shared.answers.used(), self.shared.answers.max());
        let is_stalled = !self.encoder.is_empty() && now >= self.written_at + STALL_TIMEOUT;
        if used < most / 2 || !is_stalled {
            return Ok(());
        }
        self.shared.metrics.connections_stalled.add(1);
        let why = "the client does not read its answers, and there is little memory for answers";
        Err(io::Error::new(io::ErrorKind::TimedOut, why))
    }

    fn received(&mut self, received: Received) -> io::Result<()> {
        let Received { len, stamp, is_full } = received;
        if len == 0 {
            return Err(gone());
        }
        self.shared.metrics.received_bytes.add(len as u64);
        self.read_at = Instant::now();
        let clock = &self.shared.clock;
        let reading = Reading { stamp, wall: clock.wall(), now: clock.now(), is_full };
        self.arrived = self.arrivals.read(reading);
        Ok(())
    }

    fn sent(&mut self, len: usize) {
        self.shared.metrics.sent_bytes.add(len as u64);
        self.written_at = Instant::now();
        self.encoder.shrink();
        self.count_queued();
    }

    fn count_queued(&mut self) {
        self.unsent.set_queued(self.encoder.len());
        self.queued.set(self.encoder.held_bytes());
    }

    /// Returns the earliest of the current deadlines, with the reason for ending the connection
    /// then.
    fn deadline(&self, mid_frame: bool) -> Option<(Instant, &'static str)> {
        let limits = &self.shared.limits;
        let greeting = self.connection.is_greeting().then_some(self.greeting_deadline);
        // Only time in which the server reads counts.
        let silent_since = self.reads_since.map(|since| since.max(self.read_at));
        let reading = silent_since.filter(|_| mid_frame).map(|since| since + limits.stall_timeout);
        let frame = self.pace.deadline(self.decoder.announced(), limits.frame_timeout);
        let writing = (!self.encoder.is_empty()).then_some(self.written_at + limits.stall_timeout);
        let is_idle = !mid_frame && self.encoder.is_empty() && self.running.is_empty();
        let idle = silent_since
            .filter(|_| is_idle && !limits.idle_timeout.is_zero())
            .map(|since| since.max(self.written_at) + limits.idle_timeout);
        [
            greeting.map(|at| (at, "the client did not say who it is in time")),
            reading.map(|at| (at, "the client stopped in the middle of a request")),
            frame.map(|at| (at, "a request took too long to arrive")),
            writing.map(|at| (at, "the client does not read its answers")),
            idle.map(|at| (at, "the client was silent for too long")),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Takes complete requests while there is room, until the turn is used up.
    fn take_frames(&mut self) -> Taken {
        self.inline.begin_turn();
        let mut taken = Taken::default();
        while self.takes_requests() {
            taken.ended_early = self.inline.is_used_up();
            if taken.ended_early {
                return taken;
            }
            let bytes = self.decoder.announced().min(self.inbox.len());
            // A compressed body may become several times as long.
            let bytes = if self.decoder.is_compressed() { 8 * bytes } else { bytes };
            match in_place(bytes, || self.decoder.next(&mut self.inbox)) {
                Ok(None) if self.gives_up() => continue,
                Ok(None) => return taken,
                Ok(Some(Decoded::Frame(frame))) => {
                    let waits_since = self.waits_since.take();
                    self.take(frame, waits_since);
                }
                Ok(Some(Decoded::Shed(header))) => {
                    self.shared.metrics.requests_shed.add(1);
                    self.note_shed();
                    let actions = self.connection.shed(header);
                    self.act(actions);
                }
                Err(e) => {
                    debug!(peer = %self.peer, error = %e, "not the native protocol");
                    if self.connection.is_greeting() && e == TLS_HELLO {
                        self.shared.log.connection(self.peer, TLS_UNEXPECTED);
                    }
                    let actions = self.connection.broken(&e);
                    self.act(actions);
                }
            }
            taken.completed = true;
        }
        taken.had_no_room = true;
        taken
    }

    /// Tells the diagnosis how long a request waited for memory that is refused now.
    fn note_shed(&self) {
        if let (Some(session), Some(since)) = (&self.session, self.waits_since) {
            let waited = self.shared.clock.now().since(since);
            self.shared.backend.waited_unread(session, Why::Memory, waited);
        }
    }

    /// Takes a request, which has waited for memory if the time since then is given. A statement requests its
    /// admission first.
    fn take(&mut self, frame: Frame, waits_since: Option<Moment>) {
        self.shared.metrics.requests.get(frame.header.opcode).add(1);
        self.registration.count_request();
        let stream = frame.header.stream;
        let arrived = waits_since.map_or(self.arrived, |since| since.min(self.arrived));
        let unread = waits_since.map(|_| Why::Memory);
        let times = RequestTimes { arrived, read: self.shared.clock.now(), unread };
        if let Some(account) = &self.account {
            account.take(times.read);
        }
        let request = match in_place(frame.body.len(), || self.connection.decode(&frame)) {
            Ok(request) => request,
            Err(refused) => return self.act(refused),
        };
        match self.arrive(&request, frame.charge.bytes(), times) {
            Ok(arrival) => {
                let actions = in_place(frame.body.len(), || self.connection.step(frame, request));
                self.act_on(actions, arrival, times);
            }
            // Before its values are decoded and before a task exists: a refusal must cost less than it saves.
            Err(failure) => {
                let response = Response::Error(failure.into_response(Consistency::default()));
                self.send(stream, response);
            }
        }
    }

    /// Requests the admission of a statement. Requests that the connection refuses have none.
    fn arrive(
        &self,
        request: &ProtocolRequest,
        bytes: usize,
        times: RequestTimes,
    ) -> Result<Arrival, Failure> {
        match (request, &self.session) {
            (ProtocolRequest::Statement(head), Some(session)) if self.connection.is_ready() => {
                self.shared.backend.arrive(session, head.peek(), bytes, times)
            }
            _ => Ok(Arrival::default()),
        }
    }

    fn act(&mut self, actions: Vec<Action>) {
        let read = self.shared.clock.now();
        self.act_on(actions, Arrival::default(), RequestTimes::at(read));
    }

    /// Acts on a frame whose statement, if it has one, has requested its admission.
    fn act_on(&mut self, actions: Vec<Action>, mut arrival: Arrival, times: RequestTimes) {
        for action in actions {
            match action {
                Action::Send { stream, response } => self.send(stream, response),
                Action::Negotiated(encoding) => {
                    self.decoder.negotiated(encoding.version, encoding.lz4);
                    self.encoder.negotiated(encoding);
                    if self.connection.is_greeting() {
                        let options = self.connection.options();
                        self.registration.authenticating(encoding.version, options);
                    }
                }
                Action::Identify { stream } => self.identify(stream),
                Action::Verify { stream, credentials } => {
                    let authenticator = self.shared.authenticator.as_ref().map(Arc::clone);
                    let (user, address) = (credentials.user.clone(), self.peer.ip());
                    self.running.spawn(async move {
                        let answer = match authenticator {
                            Some(authenticator) => authenticator.verify(credentials, address).await,
                            None => Err(Refusal::Wrong),
                        };
                        Done::Verified { stream, user, answer }
                    });
                }
                Action::Open { user, version, options } => {
                    self.decoder.set_body_max(self.shared.limits.body_bytes_max);
                    let name = user.as_ref().map(|user| user.name.as_str());
                    self.registration.ready(version, name, &options);
                    if self.account.is_none() {
                        let owner = Owner::of(name, self.peer.ip());
                        self.account = self.shared.accounts.enter(owner);
                    }
                    let client =
                        Client { address: self.peer, user, version, options, is_watching: false };
                    self.session = Some(Arc::new(self.shared.backend.open(client)));
                }
                Action::Run(job) => self.start(job, take(&mut arrival), times),
                Action::Subscribe(types) => {
                    self.event_types.extend(types);
                    self.event_types.sort_unstable();
                    self.event_types.dedup();
                    self.events.get_or_insert_with(|| self.shared.events.subscribe());
                }
            }
        }
    }

    /// Runs a statement on this task until it ends or waits. If it waits, it becomes a task of its
    /// own.
    fn start(&mut self, job: Job, arrival: Arrival, times: RequestTimes) {
        // A statement comes after STARTUP, which opened the session.
        let Some(session) = self.session.as_ref().map(Arc::clone) else { return };
        let Arrival { admission, found } = arrival;
        let (admission, terms) = admission.unzip();
        let request = Request {
            shared: Arc::clone(&self.shared),
            session,
            encoding: self.connection.encoding(),
            job,
            began: times.arrived,
            grant: Grant { found, ..Grant::default() },
        };
        let statement = Arriving {
            request,
            times,
            terms,
            in_queue: self.backlog.count(admission.as_ref()),
            unsent: Arc::clone(&self.unsent),
            backlog: Arc::clone(&self.backlog),
            admission,
        };
        let waiting = if self.inline.runs(times.read) {
            let polled =
                panic::catch_unwind(AssertUnwindSafe(|| statement.poll_once(&self.shared)));
            self.inline.ran(self.shared.clock.now().since(times.read));
            match polled {
                Ok(Ok(answer)) => return self.answered(answer),
                Ok(Err(waiting)) => waiting,
                Err(_) => return self.broke(&"a statement panicked"),
            }
        } else {
            statement.wait()
        };
        let session =
            Arc::clone(self.session.as_ref().expect("it was open when the statement began"));
        let (shared, unsent) = (Arc::clone(&self.shared), Arc::clone(&self.unsent));
        self.running.spawn(async move {
            let answer = waiting.finish(&shared, &session).await;
            unsent.encode(answer.frame.len());
            Done::Answered(answer)
        });
    }

    fn answered(&mut self, Answer { frame, held }: Answer) {
        self.push(frame);
        drop(held);
    }

    fn finished(&mut self, done: Result<Done, tokio::task::JoinError>) {
        match done {
            Ok(Done::Answered(answer)) => {
                self.unsent.take(answer.frame.len());
                self.answered(answer);
            }
            Ok(Done::Verified { stream, user, answer }) => {
                let answer = answer.and_then(|user| self.enter_account(user));
                // A server that drains refuses the log-in.
                if answer.is_err() || !self.connection.is_closing() {
                    self.shared.logged_in(self.peer, &user, answer.as_ref().err().copied());
                }
                let actions = self.connection.verified(stream, answer);
                self.act(actions);
            }
            // Statements catch their panics, and are cancelled only with their connection.
            Err(e) => self.broke(&e),
        }
    }

    /// Finds the role of the client's certificate.
    fn identify(&mut self, stream: i16) {
        let identities = take(&mut self.identities);
        let authenticator = self.shared.authenticator.as_ref();
        let found = authenticator.and_then(|known| known.identify(&identities));
        let role = found.map(|(role, allowed)| {
            let user = User { name: role.clone(), is_role: true };
            let entered = allowed.and_then(|()| self.enter_account(user));
            self.shared.logged_in(self.peer, &role, entered.as_ref().err().copied());
            entered
        });
        let actions = self.connection.identified(stream, role);
        self.act(actions);
    }

    /// Adds the connection to the account of a user who has logged in.
    fn enter_account(&mut self, user: User) -> Result<User, Refusal> {
        let owner = Owner::of(Some(&user.name), self.peer.ip());
        self.account = Some(self.shared.accounts.enter(owner).ok_or(Refusal::TooManyConnections)?);
        Ok(user)
    }

    /// Ends the connection after the failure of a statement outside of its backend.
    fn broke(&mut self, error: &dyn fmt::Display) {
        self.shared.log.broken(self.peer, error);
        self.connection.close();
    }

    fn tell(&mut self, event: Result<Event, broadcast::error::RecvError>) {
        match event {
            Ok(event) if self.event_types.contains(&event.event_type()) => {
                self.shared.metrics.events.add(1);
                self.send(-1, Response::Event(event));
            }
            Ok(_) => {}
            // It missed some events. A driver that reconnects reads the whole schema and all
            // servers.
            Err(broadcast::error::RecvError::Lagged(missed)) => {
                self.shared.log.behind(self.peer, missed);
                self.connection.close();
            }
            Err(broadcast::error::RecvError::Closed) => self.events = None,
        }
    }

    fn send(&mut self, stream: i16, response: Response) {
        let frame = encode(
            &self.shared.metrics,
            self.connection.encoding(),
            stream,
            response,
            Notes::default(),
        );
        self.push(frame);
    }

    fn push(&mut self, frame: Bytes) {
        if self.encoder.is_empty() {
            self.written_at = Instant::now();
        }
        self.encoder.push(frame);
        self.count_queued();
    }
}

/// Works on this number of bytes. If they are many, the thread's other tasks move to other threads:
/// decompression and checksums do not yield.
fn in_place<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    let is_long = bytes > IN_PLACE_BYTES_MAX;
    if is_long && Handle::current().runtime_flavor() == RuntimeFlavor::MultiThread {
        tokio::task::block_in_place(work)
    } else {
        work()
    }
}

fn gone() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the client has gone")
}

/// Makes room for a read, in one piece for a request whose memory is charged: a buffer that grows
/// leaves several smaller ones to the allocator. The buffer of a long request is released after its
/// answer.
fn make_room(inbox: &mut BytesMut, expected: usize) {
    let behind = if expected == 0 { READ_LEN } else { KEPT_LEN_MAX };
    inbox.reserve(expected.saturating_sub(inbox.len()) + behind);
    if inbox.is_empty() && inbox.capacity() > KEPT_LEN_MAX && expected == 0 {
        *inbox = BytesMut::with_capacity(READ_LEN);
    }
}

/// Waits for the next event; forever if the client has not registered.
async fn next_event(
    events: &mut Option<broadcast::Receiver<Event>>,
) -> Result<Event, broadcast::error::RecvError> {
    match events {
        Some(events) => events.recv().await,
        None => future::pending().await,
    }
}

/// Returns the reason for ending the connection if its deadline has passed.
fn check_deadline(deadline: Option<(Instant, &'static str)>) -> io::Result<()> {
    match deadline {
        Some((at, what)) if at <= Instant::now() => {
            Err(io::Error::new(io::ErrorKind::TimedOut, what))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_connection_keeps_little_memory() {
        let mut inbox = BytesMut::zeroed(16 << 20);
        let body = inbox.split().freeze();
        make_room(&mut inbox, 0);
        assert!(inbox.capacity() <= KEPT_LEN_MAX, "while the request runs");
        drop(body);
        let mut inbox = BytesMut::zeroed(16 << 20);
        drop(inbox.split());
        make_room(&mut inbox, 0);
        assert!(inbox.capacity() <= KEPT_LEN_MAX, "the request's memory is not taken back");
        assert!(inbox.capacity() >= READ_LEN);
    }
}
