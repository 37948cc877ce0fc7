//! Ctrl-C: ends the running statement or question, and not the program.
//!
//! The signal sets a flag. Waits and reads of this module fail while it is set. At a terminal the
//! shell clears it before the next statement. A script stops, and its exit code tells why.

use std::fs::{File, OpenOptions};
use std::future::{Future, poll_fn};
use std::io::{self, IsTerminal, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::pin::{Pin, pin};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Poll, Waker};

use anyhow::{Context, Result, anyhow};
use carnet_base::lock;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::io::Errno;
use tokio::signal::unix::{SignalKind, signal};

/// Exit code of a program that SIGINT has ended.
pub(crate) const EXIT_CODE: u8 = 130;
/// Interval in which a read of standard input looks at the flag.
const READ_INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

static IS_PRESSED: AtomicBool = AtomicBool::new(false);
/// Waker of the running statement.
static WAKER: Mutex<Option<Waker>> = Mutex::new(None);

/// Takes Ctrl-C over for the rest of the process.
///
/// # Errors
///
/// If the signal cannot be taken over.
pub(crate) fn watch() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let mut signals = {
        let _within = runtime.enter();
        signal(SignalKind::interrupt()).context("cannot watch for Ctrl-C")?
    };
    let run = move || {
        runtime.block_on(async {
            while signals.recv().await.is_some() {
                IS_PRESSED.store(true, Ordering::SeqCst);
                if let Some(waker) = lock(&WAKER).take() {
                    waker.wake();
                }
            }
        });
    };
    let named = std::thread::Builder::new().name("interrupt".into());
    named.spawn(run).context("cannot start a thread").map(|_| ())
}

/// Returns `true` if Ctrl-C was pressed since [`clear`].
pub(crate) fn is_pressed() -> bool {
    IS_PRESSED.load(Ordering::SeqCst)
}

/// Clears the flag.
pub(crate) fn clear() {
    IS_PRESSED.store(false, Ordering::SeqCst);
}

/// Fails if Ctrl-C was pressed.
///
/// # Errors
///
/// If it was pressed.
pub(crate) fn check() -> Result<()> {
    if is_pressed() { Err(interrupted()) } else { Ok(()) }
}

fn interrupted() -> anyhow::Error {
    anyhow!("interrupted")
}

/// Runs a future until it is complete, or until Ctrl-C is pressed: then the future is dropped.
///
/// # Errors
///
/// If Ctrl-C was pressed.
pub(crate) async fn until_pressed<F: Future>(future: F) -> Result<F::Output> {
    let mut future = pin!(future);
    poll_fn(|context| {
        *lock(&WAKER) = Some(context.waker().clone());
        // The flag is read behind the waker's registration, so that no press is missed.
        if is_pressed() {
            return Poll::Ready(Err(interrupted()));
        }
        future.as_mut().poll(context).map(Ok)
    })
    .await
}

/// Returns to the caller's executor once, which lets [`until_pressed`] look at the flag.
pub(crate) fn yield_now() -> Pin<Box<dyn Future<Output = ()> + Send>> {
    let mut has_yielded = false;
    Box::pin(poll_fn(move |context| {
        if std::mem::replace(&mut has_yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }))
}

/// Standard input, without a buffer. A read fails once Ctrl-C is pressed.
pub(crate) struct Stdin {
    /// The terminal, opened once more so that reads do not block: Ctrl-C discards typed lines,
    /// also between a poll and its read.
    terminal: Option<File>,
}

impl Stdin {
    pub(crate) fn new() -> Self {
        let terminal = io::stdin().is_terminal().then(open_terminal);
        Self { terminal: terminal.and_then(Result::ok) }
    }
}

#[expect(clippy::disallowed_methods, reason = "a terminal, not a file of the database")]
fn open_terminal() -> io::Result<File> {
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).map_err(io::Error::other)?;
    OpenOptions::new().read(true).custom_flags(flags).open("/dev/stdin")
}

impl Read for Stdin {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let stdin = io::stdin();
        loop {
            if is_pressed() {
                return Err(io::Error::other("interrupted"));
            }
            let mut ready = [PollFd::new(&stdin, PollFlags::IN)];
            match poll(&mut ready, Some(&READ_INTERVAL)) {
                Ok(0) | Err(Errno::INTR) => continue,
                Ok(_) => {}
                Err(error) => return Err(error.into()),
            }
            let read = match &self.terminal {
                Some(terminal) => rustix::io::read(terminal, &mut *into),
                None => rustix::io::read(&stdin, &mut *into),
            };
            match read {
                Err(Errno::AGAIN | Errno::INTR) => {}
                read => return Ok(read?),
            }
        }
    }
}

/// Reads a line of standard input; `None` at its end.
///
/// # Errors
///
/// If Ctrl-C was pressed, or the input cannot be read.
pub(crate) fn read_line() -> io::Result<Option<String>> {
    let mut line = Vec::new();
    let mut byte = [0];
    let mut stdin = Stdin::new();
    while stdin.read(&mut byte)? > 0 {
        if byte[0] == b'\n' {
            return Ok(Some(String::from_utf8_lossy(&line).into_owned()));
        }
        line.push(byte[0]);
    }
    Ok((!line.is_empty()).then(|| String::from_utf8_lossy(&line).into_owned()))
}
