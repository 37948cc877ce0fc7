//! The owner's side: a thread that listens, and one for each request.

use std::io::{self, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use carnet_base::{
    Clock, Error, ErrorKind, Result, Signal, Spawn, Step, SystemClock, Worker, WorkerHandle,
};
use rustix::event::{PollFd, PollFlags, poll};

use super::protocol::{Answer, Done, LINE_BYTES_MAX, Progress, Request};
use super::socket;

/// So many requests are carried out at once; whoever comes then is told to come back.
const REQUESTS_MAX: usize = 4;

/// A request is sent, and each line of the answer taken, within this time.
const PATIENCE: Duration = Duration::from_secs(5);

/// Where the operating system has no room for a connection, the door waits this long.
const PAUSE: Duration = Duration::from_millis(100);

/// Who carries requests out.
pub(crate) trait Owner: Send + Sync + 'static {
    /// Carries a request out; an error of `tell` gives it up where that can be done.
    fn carry_out(
        &self,
        request: &Request,
        tell: &mut dyn FnMut(&Progress) -> Result<()>,
    ) -> Result<Done>;
}

/// A door that is open. It is closed when it is dropped.
pub(crate) struct Door {
    directory: PathBuf,
    socket: socket::Identity,
    shared: Arc<Shared>,
    /// Written to when the door closes: the listener waits for it as well.
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

impl Door {
    /// Opens the door of a directory whose lock the caller holds.
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

impl Drop for Door {
    fn drop(&mut self) {
        self.shared.closed.store(true, Ordering::Release);
        // If it cannot be woken it has ended.
        let _ = self.wake.write_all(&[0]);
        if let Some(listener) = self.listener.take() {
            listener.join();
        }
        if let Err(error) = socket::remove(&self.directory, self.socket) {
            tracing::warn!(%error, "the control socket is left behind");
        }
        let requests = std::mem::take(&mut *self.shared.requests());
        requests.into_iter().for_each(WorkerHandle::join);
    }
}

impl Shared {
    fn requests(&self) -> std::sync::MutexGuard<'_, Vec<WorkerHandle>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
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
    /// Waits in the kernel, not for its signal: a connection rings none.
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
                tracing::warn!(%error, "the control socket takes no connection");
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
        let mut connection = Connection { stream, is_gone: false, admitted };
        if before >= REQUESTS_MAX {
            let busy = Error::new(
                ErrorKind::Overloaded { retry_after: PATIENCE },
                format!("the database carries out {REQUESTS_MAX} requests already: come back"),
            );
            connection.answer(Answer::Failed(busy));
            return;
        }
        let handle = shared.spawn.spawn("carnet-request", Signal::new(), Box::new(connection));
        let mut requests = shared.requests();
        // Joining those that are through takes no time.
        if shared.running.load(Ordering::Acquire) <= 1 {
            let ended = std::mem::take(&mut *requests);
            ended.into_iter().for_each(WorkerHandle::join);
        }
        requests.push(handle);
    }
}

/// Counts a request for as long as it is carried out.
struct Admitted(Arc<Shared>);

impl Drop for Admitted {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::AcqRel);
    }
}

struct Connection {
    stream: UnixStream,
    /// Whoever asked does not listen any more. What was asked for is done all the same.
    is_gone: bool,
    admitted: Admitted,
}

impl Worker for Connection {
    fn step(&mut self) -> Step {
        let answer = match self.serve() {
            Ok(done) => Answer::Done(done),
            Err(error) => Answer::Failed(error),
        };
        self.answer(answer);
        Step::Done
    }
}

impl Connection {
    fn serve(&mut self) -> Result<Done> {
        let lost = |error: io::Error| Error::unavailable("no request came").with_source(error);
        self.stream.set_nonblocking(false).map_err(lost)?;
        self.stream.set_write_timeout(Some(PATIENCE)).map_err(lost)?;
        let request = Request::decode(&read_line(&mut self.stream).map_err(lost)?)?;
        tracing::info!(?request, "asked through the control socket");
        let (owner, shared) = (Arc::clone(&self.admitted.0.owner), Arc::clone(&self.admitted.0));
        owner.carry_out(&request, &mut |progress| {
            if shared.is_closed() {
                return Err(Error::unavailable("the database was closed before it was done"));
            }
            self.answer(Answer::Progress(*progress));
            Ok(())
        })
    }

    /// Sends a line, unless one was not taken before: each would be waited for.
    fn answer(&mut self, answer: Answer) {
        if self.is_gone {
            return;
        }
        match answer.encode() {
            Ok(line) => self.is_gone = self.stream.write_all(&line).is_err(),
            Err(error) => tracing::warn!(%error, "an answer could not be written down"),
        }
    }
}

/// Reads a line without its end, of at most [`LINE_BYTES_MAX`], within [`PATIENCE`].
fn read_line(stream: &mut UnixStream) -> io::Result<Vec<u8>> {
    let (mut line, mut piece) = (Vec::new(), [0; 1024]);
    let begun = SystemClock.now();
    loop {
        // All pieces together have so long: one that comes now and then would hold the door open.
        let left = PATIENCE.saturating_sub(SystemClock.now().since(begun));
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
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a line that does not end"));
        }
    }
}
