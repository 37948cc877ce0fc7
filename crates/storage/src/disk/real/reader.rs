//! Read backends: how reads wait for the device.

use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use carnet_base::{Bytes, Error, Result, Spawn, for_many, waits_for_one};

use super::pool::Pool;
#[cfg(target_os = "linux")]
use super::reactor::Reactor;
use super::request::{Request, again};
use super::watched::{Watched, Watching};
use crate::disk::promise::promise;
use crate::disk::{Place, ReadFuture};
use crate::io::Watch;

/// How reads wait for the device. See docs/design/0014-io-scheduler.md#figures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Backend {
    /// [`Backend::Uring`] if the system permits it, otherwise [`Backend::Pool`].
    #[default]
    Auto,
    /// One thread and an `io_uring` with 256 reads. Linux 5.6 or later, fast from 6.1 on.
    Uring,
    /// Up to 16 threads with one read each.
    Pool,
    /// The caller's thread blocks, and no future is ever pending. For programs whose calls all have
    /// a thread to block, not for executors.
    Inline,
}

pub(super) struct DiskReader {
    way: Way,
    /// Observer of reads that reach the device.
    watch: ArcSwapOption<Watching>,
}

enum Way {
    #[cfg(target_os = "linux")]
    Uring(Reactor),
    Pool(Pool),
    Inline,
}

impl DiskReader {
    pub(super) fn new(backend: Backend, spawn: Arc<dyn Spawn>) -> Result<Self> {
        let way = match backend {
            Backend::Inline => Way::Inline,
            Backend::Pool => Way::Pool(Pool::new(spawn)),
            Backend::Uring => uring(spawn).map_err(|error| {
                Error::unavailable(
                    "io_uring cannot be used here; let the system allow it, or choose another \
                     way to read",
                )
                .with_source(error)
            })?,
            Backend::Auto => match uring(Arc::clone(&spawn)) {
                Ok(way) => way,
                Err(error) => {
                    tracing::info!(%error, "reading with a pool of threads: no io_uring here");
                    Way::Pool(Pool::new(spawn))
                }
            },
        };
        Ok(Self { way, watch: ArcSwapOption::empty() })
    }

    pub(super) fn watch(&self, watch: Arc<dyn Watch>) {
        self.watch.store(Some(Arc::new(Watching(watch))));
    }

    /// Records that a read reaches the device, if there is an observer.
    fn watched(&self) -> Option<Watched> {
        let watching = self.watch.load_full()?;
        Some(Watched::begin(watching))
    }

    pub(super) fn backend(&self) -> Backend {
        match &self.way {
            #[cfg(target_os = "linux")]
            Way::Uring(_) => Backend::Uring,
            Way::Pool(_) => Backend::Pool,
            Way::Inline => Backend::Inline,
        }
    }

    pub(super) fn read(&self, file: &Arc<fs::File>, place: Place) -> ReadFuture {
        match self.begin(file, place) {
            Begun::Done(result) => ready(result),
            Begun::Waits(request, future) => {
                self.submit([request]);
                future
            }
        }
    }

    pub(super) fn read_many(&self, file: &Arc<fs::File>, places: &[Place]) -> Vec<ReadFuture> {
        let mut requests = Vec::new();
        let futures = places
            .iter()
            .map(|&place| match for_many(|| self.begin(file, place)) {
                Begun::Done(result) => ready(result),
                Begun::Waits(request, future) => {
                    requests.push(request);
                    future
                }
            })
            .collect();
        if !requests.is_empty() {
            self.submit(requests);
        }
        futures
    }

    fn submit(&self, requests: impl IntoIterator<Item = Request>) {
        match &self.way {
            #[cfg(target_os = "linux")]
            Way::Uring(reactor) => reactor.submit(requests),
            Way::Pool(pool) => pool.submit(requests),
            Way::Inline => requests.into_iter().for_each(Request::serve),
        }
    }

    /// Returns `true` if a read may begin before it is queued. With a busy device it must not: the
    /// kernel would start it before reads of other levels that wait.
    fn probes_cache(&self) -> bool {
        match &self.way {
            #[cfg(target_os = "linux")]
            Way::Uring(reactor) => !reactor.is_busy(),
            Way::Pool(pool) => !pool.is_busy(),
            Way::Inline => false,
        }
    }

    /// Reads the cached part unless the device is busy, and makes a request for the rest.
    fn begin(&self, file: &Arc<fs::File>, place: Place) -> Begun {
        // Larger offsets are negative for the kernel, where `-1` means the current file position.
        if i64::try_from(place.offset).is_err() {
            return Begun::Done(Err(io::ErrorKind::InvalidInput.into()));
        }
        let mut buffer = vec![0; place.len];
        if waits_for_one() {
            let filled = self.fill_watched(file, &mut buffer, place.offset);
            return Begun::Done(filled.map(|filled| {
                buffer.truncate(filled);
                Bytes::from(buffer)
            }));
        }
        let mut filled = 0;
        if self.probes_cache() {
            while filled < place.len {
                match cached(file, &mut buffer[filled..], place.offset + filled as u64) {
                    Ok(0) => {
                        buffer.truncate(filled);
                        break;
                    }
                    Ok(read) => filled += read,
                    Err(_) => {
                        let (promise, awaited) = promise();
                        let file = Arc::clone(file);
                        let request = Request::new(file, place.offset, buffer, filled, promise)
                            .watched(self.watched());
                        return Begun::Waits(request, Box::pin(awaited));
                    }
                }
            }
            return Begun::Done(Ok(Bytes::from(buffer)));
        }
        let (promise, awaited) = promise();
        let request = Request::new(Arc::clone(file), place.offset, buffer, 0, promise)
            .watched(self.watched());
        Begun::Waits(request, Box::pin(awaited))
    }
}

impl DiskReader {
    /// Fills a buffer on this thread, see [`fill`]; the observer counts only bytes that were not in
    /// the page cache.
    fn fill_watched(&self, file: &fs::File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let is_watched = self.watch.load().is_some();
        let filled = if is_watched { cached(file, buffer, offset).unwrap_or(0) } else { 0 };
        if filled == buffer.len() {
            return Ok(filled);
        }
        let watched = self.watched();
        let rest = fill(file, &mut buffer[filled..], offset + filled as u64)?;
        if rest > 0
            && let Some(watched) = watched
        {
            watched.end(rest);
        }
        Ok(filled + rest)
    }
}

impl fmt::Debug for DiskReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.backend())
    }
}

enum Begun {
    Done(io::Result<Bytes>),
    Waits(Request, ReadFuture),
}

/// Fills a buffer on this thread; returns fewer bytes only at the end of the file.
pub(super) fn fill(file: &fs::File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read_at(&mut buffer[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if again(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

fn ready(result: io::Result<Bytes>) -> ReadFuture {
    Box::pin(std::future::ready(result))
}

#[cfg(target_os = "linux")]
fn uring(spawn: Arc<dyn Spawn>) -> io::Result<Way> {
    Reactor::new(spawn).map(Way::Uring)
}

#[cfg(not(target_os = "linux"))]
fn uring(_: Arc<dyn Spawn>) -> io::Result<Way> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "io_uring requires Linux"))
}

/// Reads the cached part, and fails if nothing is cached; then the kernel has started to read from
/// the device.
#[cfg(target_os = "linux")]
fn cached(file: &fs::File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let buffers = &mut [io::IoSliceMut::new(buffer)];
    Ok(rustix::io::preadv2(file, buffers, offset, rustix::io::ReadWriteFlags::NOWAIT)?)
}

#[cfg(not(target_os = "linux"))]
fn cached(_: &fs::File, _: &mut [u8], _: u64) -> io::Result<usize> {
    Err(io::ErrorKind::WouldBlock.into())
}
