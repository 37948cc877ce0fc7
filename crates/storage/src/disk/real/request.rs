//! Request: a pending read of the pool or the ring.

use std::fs;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use carnet_base::{Bytes, ReadLevel, read_level};

use super::watched::Watched;
use crate::disk::promise::Promise;

/// A pending read with its buffer and its promise.
///
/// It owns the descriptor and the buffer, so that both stay valid for the kernel when the file or
/// the future is dropped.
pub(super) struct Request {
    pub(super) file: Arc<fs::File>,
    offset: u64,
    buffer: Vec<u8>,
    filled: usize,
    promise: Promise,
    watched: Option<Watched>,
    level: ReadLevel,
}

impl Request {
    /// Makes a read of `buffer.len()` bytes from `offset` on, of which `filled` are in the buffer.
    /// It belongs to the [`read_level`] of this thread.
    pub(super) fn new(
        file: Arc<fs::File>,
        offset: u64,
        buffer: Vec<u8>,
        filled: usize,
        promise: Promise,
    ) -> Self {
        Self { file, offset, buffer, filled, promise, watched: None, level: read_level() }
    }

    /// Sets the observer of the read's end.
    pub(super) fn watched(self, watched: Option<Watched>) -> Self {
        Self { watched, ..self }
    }

    /// Returns the service level of the read.
    pub(super) fn level(&self) -> ReadLevel {
        self.level
    }

    /// Returns the number of missing bytes.
    pub(super) fn missing(&self) -> usize {
        self.buffer.len() - self.filled
    }

    /// Returns `true` if the read was cancelled.
    pub(super) fn is_cancelled(&self) -> bool {
        self.promise.is_cancelled()
    }

    /// Returns the file offset and the buffer of the missing bytes.
    #[cfg(target_os = "linux")]
    pub(super) fn rest(&mut self) -> (u64, &mut [u8]) {
        (self.offset + self.filled as u64, &mut self.buffer[self.filled..])
    }

    /// Adds the result of one attempt; returns the request if bytes are still missing.
    pub(super) fn advance(mut self, attempt: io::Result<usize>) -> Option<Self> {
        match attempt {
            Ok(0) => self.finish(),
            Ok(read) => {
                self.filled += read;
                if self.filled < self.buffer.len() {
                    return Some(self);
                }
                self.finish();
            }
            Err(error) if again(&error) => return Some(self),
            Err(error) => self.promise.fulfil(Err(error)),
        }
        None
    }

    fn finish(mut self) {
        self.buffer.truncate(self.filled);
        if let Some(watched) = &self.watched {
            watched.end(self.filled);
        }
        self.promise.fulfil(Ok(Bytes::from(self.buffer)));
    }

    /// Reports an error, while the buffer stays allocated.
    #[cfg(target_os = "linux")]
    pub(super) fn fail(&self, error: io::Error) {
        self.promise.settle(Err(error));
    }

    /// Reads on this thread until all bytes are there.
    pub(super) fn serve(mut self) {
        loop {
            let rest = &mut self.buffer[self.filled..];
            let attempt = self.file.read_at(rest, self.offset + self.filled as u64);
            match self.advance(attempt) {
                Some(request) => self = request,
                None => return,
            }
        }
    }
}

pub(super) fn again(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock)
}

#[cfg(test)]
mod tests {
    use carnet_base::block_on;

    use super::*;
    use crate::disk::promise::promise;

    fn after(attempts: impl IntoIterator<Item = io::Result<usize>>) -> Option<io::Result<usize>> {
        let (promise, awaited) = promise();
        let file = Arc::new(tempfile::tempfile().unwrap());
        let mut request = Some(Request::new(file, 0, vec![0; 10], 2, promise));
        for attempt in attempts {
            request = request.expect("it is not done").advance(attempt);
        }
        request.is_none().then(|| block_on(awaited).map(|bytes| bytes.len()))
    }

    #[test]
    fn read_continues_until_full_or_end_of_file() {
        assert!(after([Ok(3)]).is_none());
        assert_eq!(after([Ok(3), Ok(5)]).unwrap().unwrap(), 10);
        assert_eq!(after([Ok(3), Ok(0)]).unwrap().unwrap(), 5);
        assert_eq!(after([Ok(0)]).unwrap().unwrap(), 2);
    }

    #[test]
    fn interrupted_read_is_retried() {
        let interrupted = || Err(io::ErrorKind::Interrupted.into());
        assert!(after([interrupted(), Err(io::ErrorKind::WouldBlock.into())]).is_none());
        assert_eq!(after([interrupted(), Ok(8)]).unwrap().unwrap(), 10);
        let error = after([Ok(1), Err(io::ErrorKind::TimedOut.into())]).unwrap().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
}
