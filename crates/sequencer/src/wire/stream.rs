//! The two directions of a connection: incoming frames, and frames that wait to be sent.

#![expect(clippy::disallowed_methods, reason = "its tasks run on the runtime")]

use std::fmt;
use std::future::Future;
use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use carnet_base::sync::lock;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::Notify;
use tokio::time::timeout;

use super::codec::{Malformed, frame_bytes};

/// Capacity above which an empty buffer is released.
const IDLE_BYTES_MAX: usize = 64 << 10;
const READ_BYTES: usize = 16 << 10;
/// Maximum growth of a buffer ahead of the received bytes.
const READ_BYTES_MAX: usize = 1 << 20;

/// A connection, encrypted or not.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// Reason why a connection ended.
#[derive(Debug)]
pub(super) enum Broken {
    Io(io::Error),
    /// The other side closed it.
    Closed,
    Malformed(Malformed),
    /// No byte arrived for too long.
    Silent,
    /// No call used it for long.
    Idle,
    /// More requests are in flight than the limits allow.
    Crowded,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            Self::Closed => f.write_str("the other side closed it"),
            Self::Malformed(what) => write!(f, "the other side sent {what}"),
            Self::Silent => f.write_str("nothing came from the other side for too long"),
            Self::Idle => f.write_str("it was idle"),
            Self::Crowded => f.write_str("the other side has too much under way"),
        }
    }
}

impl From<io::Error> for Broken {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<Malformed> for Broken {
    fn from(malformed: Malformed) -> Self {
        Self::Malformed(malformed)
    }
}

/// Whether the other side has sent anything since the last check.
#[derive(Debug)]
pub(super) struct Activity(AtomicBool);

impl Activity {
    pub(super) const fn new() -> Self {
        Self(AtomicBool::new(true))
    }

    pub(super) fn now(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub(super) fn since_last(&self) -> bool {
        self.0.swap(false, Ordering::Relaxed)
    }
}

/// Frames that arrive on a stream.
pub(super) struct Frames<'a, R> {
    reader: R,
    buffer: BytesMut,
    activity: &'a Activity,
}

impl<'a, R: AsyncRead + Unpin> Frames<'a, R> {
    pub(super) fn new(reader: R, activity: &'a Activity) -> Self {
        Self { reader, buffer: BytesMut::new(), activity }
    }

    /// Waits for the bytes of the next frame.
    pub(super) async fn next(&mut self) -> Result<Bytes, Broken> {
        loop {
            let wanted = frame_bytes(&self.buffer)?;
            match wanted {
                Some(bytes) if bytes <= self.buffer.len() => {
                    return Ok(self.buffer.split_to(bytes).freeze());
                }
                _ => self.read(wanted).await?,
            }
        }
    }

    async fn read(&mut self, wanted: Option<usize>) -> Result<(), Broken> {
        if self.buffer.is_empty() && self.buffer.capacity() > IDLE_BYTES_MAX {
            self.buffer = BytesMut::new();
        }
        let missing = wanted.unwrap_or_default().saturating_sub(self.buffer.len());
        self.buffer.reserve(missing.clamp(READ_BYTES, READ_BYTES_MAX));
        if self.reader.read_buf(&mut self.buffer).await? == 0 {
            return Err(Broken::Closed);
        }
        self.activity.now();
        Ok(())
    }
}

/// Outgoing frames. All that wait go in one write.
#[derive(Debug)]
pub(super) struct Outbox {
    queue: Mutex<Queue>,
    wake: Notify,
    bytes_max: usize,
}

#[derive(Debug, Default)]
struct Queue {
    frames: BytesMut,
    is_closed: bool,
    /// The reason for the close, until the writer has taken it.
    why: Option<Broken>,
}

impl Outbox {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self { queue: Mutex::default(), wake: Notify::new(), bytes_max }
    }

    /// Queues frames for writing. Returns `false` if there is no room or the connection is closed.
    pub(super) fn push(&self, frames: &[u8]) -> bool {
        let mut queue = lock(&self.queue);
        if queue.is_closed || queue.frames.len() + frames.len() > self.bytes_max {
            return false;
        }
        queue.frames.extend_from_slice(frames);
        drop(queue);
        self.wake.notify_one();
        true
    }

    /// Closes the outbox, and the connection with it.
    pub(super) fn close(&self, why: Broken) {
        let mut queue = lock(&self.queue);
        if !queue.is_closed {
            *queue = Queue { frames: BytesMut::new(), is_closed: true, why: Some(why) };
        }
        drop(queue);
        self.wake.notify_one();
    }

    /// Takes the queued frames, and leaves an empty buffer.
    fn swap(&self, written: &mut BytesMut) -> Result<(), Broken> {
        written.clear();
        if written.capacity() > IDLE_BYTES_MAX {
            *written = BytesMut::new();
        }
        let mut queue = lock(&self.queue);
        if queue.is_closed {
            return Err(queue.why.take().unwrap_or(Broken::Closed));
        }
        std::mem::swap(&mut queue.frames, written);
        Ok(())
    }

    /// Writes queued frames, as long as the connection lives.
    pub(super) async fn write_to<W: AsyncWrite + Unpin>(
        &self,
        mut writer: W,
        stall: Duration,
        activity: &Activity,
    ) -> Result<(), Broken> {
        let mut batch = BytesMut::new();
        loop {
            self.wake.notified().await;
            loop {
                self.swap(&mut batch)?;
                if batch.is_empty() {
                    break;
                }
                let mut rest = &batch[..];
                while !rest.is_empty() {
                    let written = in_time(stall, writer.write(rest)).await?;
                    if written == 0 {
                        return Err(Broken::Closed);
                    }
                    rest = &rest[written..];
                    if !rest.is_empty() {
                        // The system's buffer was full and drains only while the other side reads.
                        activity.now();
                    }
                }
                in_time(stall, writer.flush()).await?;
            }
        }
    }
}

async fn in_time<T>(
    limit: Duration,
    done: impl Future<Output = io::Result<T>>,
) -> Result<T, Broken> {
    match timeout(limit, done).await {
        Ok(done) => Ok(done?),
        Err(_) => Err(Broken::Silent),
    }
}

#[cfg(test)]
mod tests {
    use std::pin::{Pin, pin};
    use std::task::{Context, Poll, Waker};

    use super::*;

    /// Records the bytes of each write.
    #[derive(Default)]
    struct Writes(Vec<Vec<u8>>);

    impl AsyncWrite for &mut Writes {
        fn poll_write(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            self.0.push(bytes.to_vec());
            Poll::Ready(Ok(bytes.len()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    #[test]
    fn queued_frames_go_in_one_write() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let _guard = runtime.enter();
        let (outbox, activity, mut writes) = (Outbox::new(8), Activity::new(), Writes::default());
        {
            let mut writing = pin!(outbox.write_to(&mut writes, Duration::MAX, &activity));
            let mut poll = || writing.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            assert!(outbox.push(b"ab") && outbox.push(b"c") && outbox.push(b"def"));
            assert!(!outbox.push(b"ghi"), "there is no room");
            assert!(poll().is_pending());
            assert!(outbox.push(b"ghi"), "there is again");
            assert!(poll().is_pending());
            outbox.close(Broken::Crowded);
            assert!(matches!(poll(), Poll::Ready(Err(Broken::Crowded))));
        }
        assert_eq!(writes.0, [b"abcdef".to_vec(), b"ghi".to_vec()]);
        assert!(!outbox.push(b"x"));
    }
}
