//! Server side of the control socket: one listener thread, and one thread per request.

use std::io::{self, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use carnet_base::{
    Clock, Error, ErrorKind, Result, Signal, Spawn, Step, SystemClock, Worker, WorkerHandle, lock,
};
use rustix::event::{PollFd, PollFlags, poll};

use super::protocol::{ControlReply, ControlRequest, Done, LINE_BYTES_MAX, Progress};
use super::{peer, socket};

/// Maximum number of concurrent requests; further ones are refused as `Overloaded`.
const REQUESTS_MAX: usize = 4;

/// Timeout for receiving a request, and for sending each line of the reply.
const LINE_TIMEOUT: Duration = Duration::from_secs(5);

/// Pause after the operating system refuses a connection for lack of resources.
const PAUSE: Duration = Duration::from_millis(100);

/// Carries out requests.
pub(crate) trait Owner: Send + Sync + 'static {
    /// Carries out a request; an error of `tell` aborts it if that is possible.
    fn carry_out(
        &self,
        request: &ControlRequest,
        tell: &mut dyn FnMut(&Progress) -> Result<()>,
    ) -> Result<Done>;
}

/// An open control socket. Dropping it closes the socket.
pub(crate) struct ControlServer {
    directory: PathBuf,
    socket: socket::Identity,
    shared: Arc<Shared>,
    /// Wakes the listener, which polls the other end, when the socket closes.
    wake: UnixStream,
    listener: Option<WorkerHandle>,
}

struct Shared {
    owner: Arc<dyn Owner>,
    spawn: Arc<dyn Spawn>,
    closed: AtomicBool,
    running: AtomicUsize,
    requests: Mutex<Vec<WorkerHandle>>,
}

impl ControlServer {
    /// Opens the control socket of a directory; the caller holds the directory's lock.
    pub(crate) fn open(
        directory: &Path,
        spawn: &Arc<dyn Spawn>,
        owner: Arc<dyn Owner>,
    ) -> Result<Self> {
        let failed = |error: io::Error| {
            let path = directory.join(socket::NAME);
            Error::unavailable(format!("cannot open the control socket {}", path.display()))
                .with_source(error)
        };
        let (listener, socket) = socket::listen(directory).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let (wake, woken) = UnixStream::pair().map_err(failed)?;
        let shared = Arc::new(Shared {
            owner,
            spawn: Arc::clone(spawn),
            closed: AtomicBool::new(false),
            running: AtomicUsize::new(0),
            requests: Mutex::default(),
        });
        let listener = Listener { listener, woken, shared: Arc::clone(&shared) };
        let handle = spawn.spawn("carnet-control", Signal::new(), Box::new(listener));
        let directory = directory.to_path_buf();
        Ok(Self { directory, socket, shared, wake, listener: Some(handle) })
    }
}

impl Drop for ControlServer {
    fn drop(&mut self) {
        self.shared.closed.store(true, Ordering::Release);
        // A failure means that the listener has ended.
        let _ = self.wake.write_all(&[0]);
        if let Some(listener) = self.listener.take() {
            listener.join();
        }
        if let Err(error) = socket::remove(&self.directory, self.socket) {
            tracing::warn!(%error, "cannot remove the control socket");
        }
        let requests = std::mem::take(&mut *self.shared.requests());
        requests.into_iter().for_each(WorkerHandle::join);
    }
}

impl Shared {
    fn requests(&self) -> std::sync::MutexGuard<'_, Vec<WorkerHandle>> {
        lock(&self.requests)
    }

    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }
}

struct Listener {
    listener: UnixListener,
    woken: UnixStream,
    shared: Arc<Shared>,
}

impl Worker for Listener {
    /// Blocks in `poll` instead of on its signal, because a connection does not wake a signal.
    fn step(&mut self) -> Step {
        let mut awaited =
            [PollFd::new(&self.listener, PollFlags::IN), PollFd::new(&self.woken, PollFlags::IN)];
        let waited = poll(&mut awaited, None);
        if self.shared.is_closed() {
            return Step::Done;
        }
        match waited.map_err(io::Error::from).and_then(|_| self.listener.accept()) {
            Ok((stream, _)) => {
                self.admit(stream);
                Step::Again
            }
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock
                        | io::ErrorKind::Interrupted
                        | io::ErrorKind::ConnectionAborted
                ) =>
            {
                Step::Again
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection on the control socket");
                Step::Idle(Some(PAUSE))
            }
        }
    }
}

impl Listener {
    fn admit(&self, stream: UnixStream) {
        let shared = &self.shared;
        let before = shared.running.fetch_add(1, Ordering::AcqRel);
        let admitted = Admitted(Arc::clone(shared));
        let is_permitted = peer::is_permitted(&stream);
        let mut connection = Connection { stream, is_gone: false, admitted };
        if !is_permitted.is_ok_and(|permitted| permitted) {
            let why = "the control socket answers the user of the database's process and root only";
            connection.answer(ControlReply::Failed(Error::invalid(why)));
            return;
        }
        if before >= REQUESTS_MAX {
            let busy = Error::new(
                ErrorKind::Overloaded { retry_after: LINE_TIMEOUT },
                format!("the database is running {REQUESTS_MAX} requests already; try again later"),
            );
            connection.answer(ControlReply::Failed(busy));
            return;
        }
        let handle = shared.spawn.spawn("carnet-request", Signal::new(), Box::new(connection));
        let mut requests = shared.requests();
        // If this request is the only one, all earlier threads have ended, and joining them does
        // not block.
        if shared.running.load(Ordering::Acquire) <= 1 {
            let ended = std::mem::take(&mut *requests);
            ended.into_iter().for_each(WorkerHandle::join);
        }
        requests.push(handle);
    }
}

/// Counts a request while it runs.
struct Admitted(Arc<Shared>);

impl Drop for Admitted {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::AcqRel);
    }
}

struct Connection {
    stream: UnixStream,
    /// Whether the client has stopped reading. Its request runs on all the same.
    is_gone: bool,
    admitted: Admitted,
}

impl Worker for Connection {
    fn step(&mut self) -> Step {
        let answer = match self.serve() {
            Ok(done) => ControlReply::Done(done),
            Err(error) => ControlReply::Failed(error),
        };
        self.answer(answer);
        Step::Done
    }
}

impl Connection {
    fn serve(&mut self) -> Result<Done> {
        let lost =
            |error: io::Error| Error::unavailable("no request was received").with_source(error);
        self.stream.set_nonblocking(false).map_err(lost)?;
        self.stream.set_write_timeout(Some(LINE_TIMEOUT)).map_err(lost)?;
        let request = ControlRequest::decode(&read_line(&mut self.stream).map_err(lost)?)?;
        tracing::info!(?request, "request on the control socket");
        let (owner, shared) = (Arc::clone(&self.admitted.0.owner), Arc::clone(&self.admitted.0));
        owner.carry_out(&request, &mut |progress| {
            if shared.is_closed() {
                return Err(Error::unavailable(
                    "the database was closed before the request was complete",
                ));
            }
            self.answer(ControlReply::Progress(*progress));
            Ok(())
        })
    }

    /// Sends a line, unless an earlier one failed: each further one could block until its timeout.
    fn answer(&mut self, answer: ControlReply) {
        if self.is_gone {
            return;
        }
        match answer.encode() {
            Ok(line) => self.is_gone = self.stream.write_all(&line).is_err(),
            Err(error) => tracing::warn!(%error, "cannot encode a reply of the control socket"),
        }
    }
}

/// Reads a line without its end, of at most [`LINE_BYTES_MAX`], within [`LINE_TIMEOUT`].
fn read_line(stream: &mut UnixStream) -> io::Result<Vec<u8>> {
    let (mut line, mut piece) = (Vec::new(), [0; 1024]);
    let begun = SystemClock.now();
    loop {
        // The timeout covers all pieces together: a client that sends slowly must not hold a slot
        // forever.
        let left = LINE_TIMEOUT.saturating_sub(SystemClock.now().since(begun));
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        let read = match stream.read(&mut piece) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        if let Some(end) = piece[..read].iter().position(|&byte| byte == b'\n') {
            line.extend_from_slice(&piece[..end]);
            return Ok(line);
        }
        line.extend_from_slice(&piece[..read]);
        if line.len() > LINE_BYTES_MAX {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a line is too long"));
        }
    }
}
