//! The server's side of the network: serves the requests of other processes.

#![expect(clippy::disallowed_methods, reason = "its tasks run on the runtime")]

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use carnet_base::sync::lock;
use carnet_base::{AddressLimit, AddressPlace, Clock as _, EndOnPanic, LogRate, SystemClock};
use tokio::io::{ReadHalf, split};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::codec::{Malformed, Message, decode, encode, id_of};
use super::handshake::{Incarnation, welcome};
use super::limits::Limits;
use super::pause::pause;
use super::refusal::Refusal;
use super::security::Security;
use super::stream::{Activity, Broken, Frames, Outbox, Stream};
use crate::message::{LeaderRequest, Response};
use crate::transport::{Answering, Handler};

/// Length above which a frame is decoded by a separate task: decoding and deciding may take a
/// while, and pings must be answered meanwhile.
const LONG_FRAME_BYTES: usize = 64 << 10;

/// Burst of log lines about refused connections, and the interval for each further one.
const REFUSALS_LOGGED: (u32, Duration) = (10, Duration::from_secs(1));

const NOT_ASKED: Malformed = Malformed("an answer on a connection that carries only requests");

/// State shared by all connections.
pub(super) struct Served {
    security: Security,
    limits: Limits,
    incarnation: Incarnation,
    handler: Mutex<Option<Weak<dyn Handler>>>,
    greetings: Arc<Semaphore>,
    greetings_by_address: Arc<AddressLimit<()>>,
    connections: Arc<Semaphore>,
    refusals: Mutex<LogRate>,
}

/// The slots of a connection during the handshake.
type Greeting = (AddressPlace<()>, OwnedSemaphorePermit);

impl Served {
    pub(super) fn new(security: Security, limits: Limits, incarnation: Incarnation) -> Arc<Self> {
        Arc::new(Self {
            security,
            limits,
            incarnation,
            handler: Mutex::new(None),
            greetings: Arc::new(Semaphore::new(limits.greetings_max)),
            greetings_by_address: AddressLimit::new(limits.greetings_per_address_max),
            refusals: Mutex::new(LogRate::new(REFUSALS_LOGGED.0, REFUSALS_LOGGED.1)),
            connections: Arc::new(Semaphore::new(limits.connections_max)),
        })
    }

    pub(super) fn serve(&self, handler: &Arc<dyn Handler>) {
        *lock(&self.handler) = Some(Arc::downgrade(handler));
    }

    /// Acquires the slots for a handshake, or returns `None` if all are taken or the address has
    /// its share.
    fn greeting(&self, from: SocketAddr) -> Option<Greeting> {
        let place = self.greetings_by_address.enter(from.ip(), || ())?;
        Some((place, Arc::clone(&self.greetings).try_acquire_owned().ok()?))
    }

    fn refused(&self, from: SocketAddr, refusal: &Refusal) {
        if let Some(suppressed) = lock(&self.refusals).admit(SystemClock.now()) {
            tracing::warn!(
                %from, why = %refusal, suppressed, "refused the connection of another process"
            );
        }
    }

    fn handler(&self) -> Option<Arc<dyn Handler>> {
        lock(&self.handler).as_ref().and_then(Weak::upgrade)
    }
}

/// Accepts connections, as long as it is polled.
pub(super) async fn listen(served: Arc<Served>, listener: TcpListener) {
    // Dropping this future drops every connection.
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = connections.join_next() => continue,
        };
        match accepted {
            Ok((stream, from)) => match served.greeting(from) {
                Some(greeting) => {
                    let served = Arc::clone(&served);
                    connections.spawn(converse(served, stream, from, greeting));
                }
                None => served.refused(from, &Refusal::Full),
            },
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection of another process");
                pause(served.limits.retry_max).await;
            }
        }
    }
}

/// Runs the handshake with a client, then serves it as long as the connection lasts.
async fn converse(served: Arc<Served>, stream: TcpStream, from: SocketAddr, greeting: Greeting) {
    let opened = timeout(served.limits.greeting_timeout, Box::pin(open(&served, stream)));
    let stream = match opened.await.unwrap_or(Err(Refusal::Slow)) {
        Ok(stream) => stream,
        Err(refusal) => return served.refused(from, &refusal),
    };
    let Ok(_connection) = Arc::clone(&served.connections).try_acquire_owned() else {
        return served.refused(from, &Refusal::Full);
    };
    drop(greeting);
    let (reader, writer) = split(stream);
    let activity = Activity::new();
    let answers = Arc::new(Answers::new(&served.limits));
    let stall = served.limits.client_silence_max;
    let ended = tokio::select! {
        ended = answers.outbox.write_to(writer, stall, &activity) => ended,
        ended = receive(&served, &answers, reader, &activity) => ended,
        broken = watch(&served.limits, &activity) => Err(broken),
    };
    answers.outbox.close(Broken::Closed);
    match ended {
        Ok(()) | Err(Broken::Closed) => tracing::debug!(%from, "another process closed its \
                                                                connection"),
        Err(broken) => tracing::warn!(%from, why = %broken, "disconnected another process"),
    }
}

async fn open(served: &Served, stream: TcpStream) -> Result<Box<dyn Stream>, Refusal> {
    stream.set_nodelay(true)?;
    let (mut stream, binding): (Box<dyn Stream>, _) = match served.security.tls() {
        None => (Box::new(stream), None),
        Some(tls) => {
            let (stream, binding) = tls.accept(stream).await?;
            (Box::new(stream), binding)
        }
    };
    welcome(&mut stream, served.security.secret(), served.incarnation, binding).await?;
    Ok(stream)
}

async fn watch(limits: &Limits, activity: &Activity) -> Broken {
    let mut ticks = interval(limits.client_silence_max);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        if !activity.since_last() {
            return Broken::Silent;
        }
    }
}

async fn receive(
    served: &Served,
    answers: &Arc<Answers>,
    reader: ReadHalf<Box<dyn Stream>>,
    activity: &Activity,
) -> Result<(), Broken> {
    let mut frames = Frames::new(reader, activity);
    loop {
        let bytes = frames.next().await?;
        let len = bytes.len();
        if len > LONG_FRAME_BYTES {
            let answer = answers.begin(id_of(&bytes), len)?;
            tokio::spawn(answer_long(answer, bytes, served.handler()));
            continue;
        }
        let frame = decode(&bytes)?;
        match frame.message {
            Message::LeaderRequest(request) => {
                let answer = answers.begin(frame.id, len)?;
                match served.handler() {
                    Some(handler) => {
                        let guard = guard(&request);
                        answer_in_turn(answer, guard, handler.handle(request));
                    }
                    // Dropping the answer reports that no process leads here.
                    None => drop(answer),
                }
            }
            Message::Ping => answers.say(0, &Message::Pong),
            Message::Response(_) | Message::Pong => return Err(NOT_ASKED.into()),
        }
    }
}

/// Returns the guard of an answer of the leader. If one panics, the state of the leader is in doubt, while
/// its lease goes on. A forwarded statement is isolated like a client's statement.
fn guard(request: &LeaderRequest) -> Option<EndOnPanic> {
    let is_forwarded = matches!(request, LeaderRequest::Forward { .. });
    (!is_forwarded).then(|| EndOnPanic::new("answer of the leader to another process"))
}

/// Polls an answer once, and leaves the rest to a task, which goes on when the client is gone.
///
/// Polling once here makes requests begin in the order in which they arrive.
fn answer_in_turn(answer: Answer, guard: Option<EndOnPanic>, mut answering: Answering) {
    match answering.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(response) => answer.say(response),
        Poll::Pending => {
            tokio::spawn(async move {
                answer.say(answering.await);
                drop(guard);
            });
        }
    }
}

async fn answer_long(answer: Answer, bytes: Bytes, handler: Option<Arc<dyn Handler>>) {
    let decoded = decode(&bytes).and_then(|frame| match frame.message {
        Message::LeaderRequest(request) => Ok(request),
        _ => Err(NOT_ASKED),
    });
    drop(bytes);
    match decoded {
        Ok(request) => {
            if let Some(handler) = handler {
                let _guard = guard(&request);
                answer.say(handler.handle(request).await);
            }
        }
        Err(malformed) => answer.answers.outbox.close(malformed.into()),
    }
}

/// Requests and answers in flight on one connection.
struct Answers {
    outbox: Outbox,
    under_way: AtomicUsize,
    bytes: AtomicUsize,
    limits: Limits,
}

impl Answers {
    fn new(limits: &Limits) -> Self {
        Self {
            outbox: Outbox::new(limits.answer_bytes_max),
            under_way: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            limits: *limits,
        }
    }

    fn begin(self: &Arc<Self>, id: u64, bytes: usize) -> Result<Answer, Broken> {
        let requests = self.under_way.fetch_add(1, Ordering::Relaxed) + 1;
        let all_bytes = self.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let answer = Answer { answers: Arc::clone(self), id, bytes, is_said: false };
        if requests > self.limits.requests_max || all_bytes > self.limits.request_bytes_max {
            return Err(Broken::Crowded);
        }
        Ok(answer)
    }

    fn say(&self, id: u64, message: &Message) {
        let mut frame = BytesMut::new();
        encode(id, message, &mut frame).expect("answers are short: the texts of errors are cut");
        if self.outbox.push(&frame) {
            return;
        }
        // A long answer that has no room is not worth the connection. A short one takes its place.
        if matches!(message, Message::Response(Response::Forwarded(_))) {
            return self.say(id, &Message::Response(Response::NotLeading));
        }
        self.outbox.close(Broken::Crowded);
    }
}

/// An answer that is owed. If it is dropped, because its task panicked or its runtime stopped, the
/// client is told that no process leads here.
struct Answer {
    answers: Arc<Answers>,
    id: u64,
    bytes: usize,
    is_said: bool,
}

impl Answer {
    fn say(mut self, response: Response) {
        self.is_said = true;
        self.end(response);
    }

    fn end(&self, response: Response) {
        // Before the answer is sent: the client may use the freed room as soon as it reads it.
        self.answers.under_way.fetch_sub(1, Ordering::Relaxed);
        self.answers.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        self.answers.say(self.id, &Message::Response(response));
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        if !self.is_said {
            self.end(Response::NotLeading);
        }
    }
}
