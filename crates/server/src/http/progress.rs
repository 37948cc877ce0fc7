//! Stream whose client must read its answers.

#![expect(clippy::disallowed_methods, reason = "its tasks run on the runtime")]

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// Stream that ends if its peer takes no byte of an answer for a time.
pub(super) struct Progress<S> {
    stream: S,
    stall_max: Duration,
    /// Time at which the peer is given up; `None` unless an answer waits for it.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl<S> Progress<S> {
    pub(super) const fn new(stream: S, stall_max: Duration) -> Self {
        Self { stream, stall_max, stalled: None }
    }

    /// Notes that a write has moved bytes, or waits for the peer.
    fn note<T>(
        &mut self,
        context: &mut Context<'_>,
        polled: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.stalled = None;
            return polled;
        }
        let stall_max = self.stall_max;
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep(stall_max)));
        ready!(stalled.as_mut().poll(context));
        let why = "the client does not read its answer";
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, why)))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Progress<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Progress<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.note(context, polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(context, bytes);
        self.note(context, polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_flush(context);
        self.note(context, polled)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_shutdown(context);
        self.note(context, polled)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    use tokio::time::timeout;

    use super::*;

    /// A test that waits for a client forever would never end.
    const LONG: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn client_that_reads_nothing_is_given_up() {
        let (stream, _client) = duplex(16);
        let mut stream = Progress::new(stream, Duration::from_millis(50));
        let written = timeout(LONG, stream.write_all(&[0; 64])).await.unwrap();
        assert_eq!(written.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn slow_client_gets_its_answer() {
        let (stream, mut client) = duplex(16);
        let mut stream = Progress::new(stream, Duration::from_millis(200));
        let reads = async {
            let mut read = 0;
            while read < 64 {
                sleep(Duration::from_millis(20)).await;
                read += client.read(&mut [0; 4]).await.unwrap();
            }
        };
        let (written, ()) = tokio::join!(timeout(LONG, stream.write_all(&[0; 64])), reads);
        written.unwrap().unwrap();
    }
}
