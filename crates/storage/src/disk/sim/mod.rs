//! Simulated disk in memory, with power failures, errors and unreliable syncs, all from a seed.
//!
//! For each file it keeps the synced contents and the list of unsynced changes; likewise for names.
//! [`SimDisk::crash`] returns one of the disks that a power failure could leave:
//!
//! * of each unsynced write any subset of pages survives, and a page may be torn at a sector;
//! * the length may have grown without the bytes, which are zeros then;
//! * of unsynced creations, renames and removals any subset survives;
//! * a failed sync loses its writes, and a later sync that succeeds does not restore them, like on
//!   Linux; only a sync that the system refuses (no descriptors, interrupted) loses nothing.
//!
//! With [`SimDisk::set_device`] operations take the time of a device, including stalls and a
//! reduced rate.
//!
//! A test can hold the disk to inspect concurrent work: then blocking operations block their
//! threads, and [`File::read`]s stay pending.
//!
//! Operations are counted, in total and by kind. So a test can run to the end, get the number of
//! operations, and then stop the power at each of them, or limit the number of reads.
//!
//! A [`File::read`] is counted when it is called or, if the disk is held, when it continues. A
//! vectored write is one write, torn between pages and not between its pieces. A preallocation is
//! one write of zeros. [`Disk::link`] is always a copy, whose steps are separate operations. An
//! eviction is not counted.

mod content;
mod device;
mod kind;
mod state;
#[cfg(test)]
mod tests;
mod timed;
mod timed_device;

use std::collections::{BTreeMap, BTreeSet};
use std::future::{Future, ready};
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use carnet_base::{Bytes, Result, Rng, SeededRng, for_many, waits_for_one};

use self::content::{Change, Content, NameChange};
pub use self::device::{Device, DeviceOptions};
pub use self::kind::Kind;
pub use self::state::SimError;
use self::state::{Faults, Outcome, SimDiskState, place};
use self::timed_device::Timed;
use super::copy::copy;
use super::promise::{Promise, promise};
use super::{DirectoryLock, Disk, File, Place, ReadFuture, Shortage, real};
use crate::io::{Direction, Watch};
use crate::lock::lock;

/// A simulated directory. Clones share it.
#[derive(Clone)]
pub struct SimDisk(Arc<Shared>);

struct Shared {
    state: Mutex<SimDiskState>,
    resumed: Condvar,
    /// Pending reads of a held disk. Locked after the state.
    pending: Mutex<Vec<Pending>>,
    /// Device, if operations take time.
    timed: Mutex<Option<Timed>>,
}

struct Pending {
    file: usize,
    offset: u64,
    len: usize,
    promise: Promise,
}

impl SimDisk {
    /// Makes an empty disk. The seed determines the partial effects of failed operations.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self::restarted(Vec::new(), BTreeMap::new(), SeededRng::new(seed))
    }

    /// Returns the number of operations, including reads.
    #[must_use]
    pub fn operations(&self) -> u64 {
        lock(&self.0.state).counts.iter().sum()
    }

    /// Returns the number of operations of a kind.
    #[must_use]
    pub fn count(&self, kind: Kind) -> u64 {
        lock(&self.0.state).counts[kind as usize]
    }

    /// Returns the number of bytes read.
    #[must_use]
    pub fn read_bytes(&self) -> u64 {
        lock(&self.0.state).read_bytes
    }

    /// Returns the number of reads that another disk would run on the calling thread, because the
    /// caller [waits for one read only](waits_for_one).
    #[must_use]
    pub fn reads_on_caller(&self) -> u64 {
        lock(&self.0.state).reads_on_caller
    }

    /// Returns the number of syncs of files and of the directory.
    #[must_use]
    pub fn syncs(&self) -> u64 {
        self.count(Kind::Sync) + self.count(Kind::SyncDirectory)
    }

    /// Makes one operation fail: the `operation`-th since the disk was made, from 1.
    pub fn fail_at(&self, operation: u64, error: impl Into<SimError>) {
        lock(&self.0.state).faults.fail_at = Some((operation, error.into()));
    }

    /// Makes one operation of a kind fail: the `nth` since the disk was made, from 1. May be called
    /// several times.
    pub fn fail_nth(&self, kind: Kind, nth: u64, error: impl Into<SimError>) {
        lock(&self.0.state).faults.fail_nth.push((kind, nth, error.into()));
    }

    /// Makes all operations of a kind fail from now on, until the next call; `None` ends it.
    pub fn fail_all(&self, failing: Option<(Kind, SimError)>) {
        lock(&self.0.state).faults.fail_all = failing;
    }

    /// Limits the total size of all named files: a write beyond the limit writes only the part that
    /// fits. Removing files frees space.
    pub fn full_at_bytes(&self, bytes: u64) {
        lock(&self.0.state).faults.full_at_bytes = Some(bytes);
    }

    /// Ends the shortage of space that [`SimDisk::full_at_bytes`] or [`SimDisk::full_from`] began.
    pub fn free_space(&self) {
        let faults = &mut lock(&self.0.state).faults;
        (faults.full_at_bytes, faults.full_from) = (None, None);
    }

    /// Delays some [`File::read`]s: with a probability of `per_mille` a read is pending for 1 to
    /// `polls_max` polls, and requests another poll each time.
    pub fn stall_reads(&self, per_mille: u64, polls_max: u64) {
        lock(&self.0.state).faults.stall_reads = Some((per_mille, polls_max));
    }

    /// Makes the disk full from an operation on: files cannot grow or be created.
    pub fn full_from(&self, operation: u64) {
        lock(&self.0.state).faults.full_from = Some(operation);
    }

    /// Cuts the power during an operation: it and all later ones fail.
    pub fn halt_at(&self, operation: u64) {
        lock(&self.0.state).faults.halt_at = Some(operation);
    }

    /// Cuts the power during the `sync`-th sync, from 1.
    pub fn halt_at_sync(&self, sync: u64) {
        lock(&self.0.state).faults.halt_at_sync = Some(sync);
    }

    /// Cuts the power now.
    pub fn halt(&self) {
        lock(&self.0.state).faults.halted = true;
    }

    /// Blocks all operations until [`SimDisk::resume`], like a stalled device.
    pub fn hold(&self) {
        lock(&self.0.state).held = true;
    }

    /// Resumes all operations.
    pub fn resume(&self) {
        let mut state = lock(&self.0.state);
        state.held = false;
        let pending = std::mem::take(&mut *lock(&self.0.pending));
        let served: Vec<_> = pending
            .into_iter()
            .filter(|read| !read.promise.is_cancelled())
            .map(|read| (state.read(read.file, read.offset, read.len), read.promise))
            .collect();
        drop(state);
        self.0.resumed.notify_all();
        for (result, promise) in served {
            promise.fulfil(result);
        }
    }

    /// Returns the number of operations that wait for a held disk.
    #[must_use]
    pub fn held_operations(&self) -> usize {
        let state = lock(&self.0.state);
        let pending = lock(&self.0.pending);
        state.waiting + pending.iter().filter(|read| !read.promise.is_cancelled()).count()
    }

    /// Replaces the directory: later writes go to a directory that no path refers to.
    pub fn replace_directory(&self) {
        lock(&self.0.state).faults.replaced = true;
    }

    /// From now on acknowledges syncs of files with a name prefix without syncing them.
    pub fn lie_about_syncs(&self, prefix: &str) {
        lock(&self.0.state).faults.unsynced_prefix = Some(prefix.to_owned());
    }

    /// Returns one of the disks that a power failure could leave, unlocked and without faults.
    #[must_use]
    pub fn crash(&self, rng: &mut dyn Rng) -> Self {
        let state = lock(&self.0.state);
        let names = state.surviving_names(rng);
        let files = state.files.iter().map(|file| file.crash(rng)).collect();
        Self::restarted(files, names, SeededRng::new(rng.next_u64()))
    }

    /// Returns the disk as the next process finds it after this one was killed: all writes are
    /// there, synced or not, and unsynced ones may still be lost by a power failure.
    #[must_use]
    pub fn kill(&self) -> Self {
        let mut state = lock(&self.0.state).clone();
        state.faults = Faults::default();
        state.locked_names.clear();
        (state.locked, state.held, state.waiting) = (false, false, 0);
        Self::with(state)
    }

    /// Returns a file's bytes, synced or not.
    #[must_use]
    pub fn contents(&self, name: &str) -> Option<Vec<u8>> {
        let state = lock(&self.0.state);
        state.names.get(name).map(|&file| state.files[file].current.clone())
    }

    /// Replaces a file's bytes durably, like bit rot or a user. Creates the file if necessary; not
    /// counted as an operation.
    pub fn plant(&self, name: &str, bytes: Vec<u8>) {
        let mut state = lock(&self.0.state);
        let file = state.files.len();
        state.files.push(Content { synced: bytes.clone(), current: bytes, unsynced: Vec::new() });
        state.names.insert(name.to_owned(), file);
        state.synced_names.insert(name.to_owned(), file);
    }

    /// Inverts a byte of a file durably, like bit rot: open files see it. Not counted as an
    /// operation.
    ///
    /// # Panics
    ///
    /// If the byte does not exist.
    pub fn rot(&self, name: &str, at: usize) {
        let mut state = lock(&self.0.state);
        let file = state.names[name];
        let Content { synced, current, .. } = &mut state.files[file];
        current[at] ^= 0xff;
        if let Some(byte) = synced.get_mut(at) {
            *byte ^= 0xff;
        }
    }

    fn restarted(files: Vec<Content>, names: BTreeMap<String, usize>, rng: SeededRng) -> Self {
        Self::with(SimDiskState {
            files,
            synced_names: names.clone(),
            names,
            unsynced_names: Vec::new(),
            counts: [0; Kind::ALL.len()],
            read_bytes: 0,
            reads_on_caller: 0,
            faults: Faults::default(),
            locked: false,
            locked_names: BTreeSet::new(),
            held: false,
            waiting: 0,
            rng,
        })
    }

    fn with(state: SimDiskState) -> Self {
        let (resumed, pending) = (Condvar::new(), Mutex::default());
        let timed = Mutex::default();
        Self(Arc::new(Shared { state: Mutex::new(state), resumed, pending, timed }))
    }

    /// Locks the state for one operation, when the disk is not held.
    fn enter(&self) -> MutexGuard<'_, SimDiskState> {
        let mut state = lock(&self.0.state);
        state.waiting += 1;
        while state.held {
            state = self.0.resumed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.waiting -= 1;
        state
    }
}

impl Disk for SimDisk {
    fn lock(&self) -> Result<DirectoryLock> {
        let mut state = lock(&self.0.state);
        if state.locked {
            return Err(real::held("simulated", "0"));
        }
        state.locked = true;
        Ok(DirectoryLock::new(Unlock(self.clone())))
    }

    fn lock_named(&self, name: &str, waits: bool) -> io::Result<Option<DirectoryLock>> {
        if !self.exists(name)? {
            self.make(name, false)?;
        }
        let mut state = lock(&self.0.state);
        while state.locked_names.contains(name) {
            if !waits {
                return Ok(None);
            }
            state = self.0.resumed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.locked_names.insert(name.to_owned());
        Ok(Some(DirectoryLock::new(UnlockNamed(self.clone(), name.to_owned()))))
    }

    fn check_directory(&self) -> Result<()> {
        match lock(&self.0.state).faults.replaced {
            true => Err(real::displaced("simulated")),
            false => Ok(()),
        }
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        self.make(name, false)
    }

    fn create_bulk(&self, name: &str) -> io::Result<Arc<dyn File>> {
        self.make(name, true)
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        self.open_as(name, false)
    }

    fn open_bulk(&self, name: &str) -> io::Result<Arc<dyn File>> {
        self.open_as(name, true)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.enter().growing(Kind::Rename, |state| {
            let file = state.find(from)?;
            let change = NameChange::Rename { from: from.to_owned(), to: to.to_owned(), file };
            change.apply(&mut state.names);
            state.unsynced_names.push(change);
            Ok(())
        })
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.enter().atomically(Kind::Remove, |state| {
            state.find(name)?;
            let change = NameChange::Remove { name: name.to_owned() };
            change.apply(&mut state.names);
            state.unsynced_names.push(change);
            Ok(())
        })
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.enter().atomically(Kind::List, |state| Ok(state.names.keys().cloned().collect()))
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.enter().atomically(Kind::SyncDirectory, |state| {
            state.unsynced_names.clear();
            state.synced_names.clone_from(&state.names);
            Ok(())
        })
    }

    fn path(&self, name: &str) -> String {
        format!("simulated/{name}")
    }

    fn watch_reads(&self, watch: Arc<dyn Watch>) {
        self.watch_device(watch);
    }

    fn link(&self, name: &str, to: &dyn Disk) -> io::Result<()> {
        copy(self, name, to)
    }
}

struct Unlock(SimDisk);

impl Drop for Unlock {
    fn drop(&mut self) {
        lock(&self.0.0.state).locked = false;
    }
}

struct UnlockNamed(SimDisk, String);

impl Drop for UnlockNamed {
    fn drop(&mut self) {
        let Self(disk, name) = self;
        lock(&disk.0.state).locked_names.remove(name);
        disk.0.resumed.notify_all();
    }
}

struct SimFile {
    disk: SimDisk,
    name: String,
    file: usize,
    /// Opened for bulk I/O, which requires whole blocks.
    bulk: bool,
}

impl SimDisk {
    fn open_as(&self, name: &str, bulk: bool) -> io::Result<Arc<dyn File>> {
        self.enter().atomically(Kind::Open, |state| {
            let file = state.find(name)?;
            Ok(Arc::new(SimFile { disk: self.clone(), name: name.to_owned(), file, bulk }) as _)
        })
    }

    fn make(&self, name: &str, bulk: bool) -> io::Result<Arc<dyn File>> {
        self.enter().growing(Kind::Create, |state| {
            let file = state.files.len();
            state.files.push(Content::default());
            let change = NameChange::Create { name: name.to_owned(), file };
            change.apply(&mut state.names);
            state.unsynced_names.push(change);
            Ok(Arc::new(SimFile { disk: self.clone(), name: name.to_owned(), file, bulk }) as _)
        })
    }
}

impl SimFile {
    /// Checks the alignment of bulk I/O: offsets, lengths and memory are multiples of a block.
    fn check(&self, bytes: &[u8], offset: u64) {
        let aligned = offset.is_multiple_of(4096)
            && bytes.len().is_multiple_of(4096)
            && bytes.as_ptr().addr().is_multiple_of(4096);
        assert!(aligned || !self.bulk, "{} bytes at {offset} of a bulk file", bytes.len());
    }

    /// Writes all bytes or, if that fails, some of the first ones.
    fn write(&self, state: &mut SimDiskState, bytes: Vec<u8>, offset: u64) -> io::Result<()> {
        let offset = place(offset)?;
        let (written, outcome) = match state.begin_growing(Kind::Write) {
            Outcome::Succeeds => state.room(self.file, offset, bytes.len()),
            Outcome::Dead(error) => return Err(error),
            Outcome::Fails(error) => {
                let part = state.rng.below(bytes.len() as u64 + 1);
                (usize::try_from(part).unwrap_or(0), Err(error))
            }
        };
        let mut bytes = bytes;
        bytes.truncate(written);
        state.files[self.file].change(Change::Write { offset, bytes });
        outcome
    }
}

impl File for SimFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.check(buffer, offset);
        self.disk.occupy(Direction::Read, buffer.len());
        let bytes = self.disk.enter().read(self.file, offset, buffer.len())?;
        buffer[..bytes.len()].copy_from_slice(&bytes);
        Ok(bytes.len())
    }

    fn read(self: Arc<Self>, offset: u64, len: usize) -> ReadFuture {
        let mut state = lock(&self.disk.0.state);
        state.reads_on_caller += u64::from(waits_for_one());
        if state.held {
            let (promise, awaited) = promise();
            lock(&self.disk.0.pending).push(Pending { file: self.file, offset, len, promise });
            return Box::pin(awaited);
        }
        let result = state.read(self.file, offset, len);
        if let Some(mut read) = self.disk.begin_read(len) {
            return Box::pin(async move {
                (&mut read.wait).await;
                read.end();
                result
            });
        }
        match state.stall() {
            0 => Box::pin(ready(result)),
            polls => Box::pin(Late { polls, result: Some(result) }),
        }
    }

    fn read_many(self: Arc<Self>, places: &[Place]) -> Vec<ReadFuture> {
        let read = |place: &Place| for_many(|| Arc::clone(&self).read(place.offset, place.len));
        places.iter().map(read).collect()
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.check(bytes, offset);
        self.disk.occupy(Direction::Write, bytes.len());
        self.write(&mut self.disk.enter(), bytes.to_vec(), offset)
    }

    fn write_vectored_at(&self, pieces: &mut [IoSlice<'_>], offset: u64) -> io::Result<()> {
        let bytes = pieces.iter().flat_map(|piece| piece.iter().copied()).collect();
        self.write(&mut self.disk.enter(), bytes, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut state = self.disk.enter();
        let outcome = state.begin(Kind::Sync);
        let halted = state.faults.halted;
        let lies =
            matches!(&state.faults.unsynced_prefix, Some(prefix) if self.name.starts_with(prefix));
        let content = &mut state.files[self.file];
        match outcome {
            Outcome::Succeeds if lies => Ok(()),
            Outcome::Succeeds => {
                content.sync();
                Ok(())
            }
            // Writes in flight when the power failed stay undecided until the crash.
            Outcome::Fails(error) | Outcome::Dead(error) if halted => Err(error),
            // The system refused the call before it began.
            Outcome::Fails(error) if is_refusal(&error) => Err(error),
            Outcome::Fails(error) | Outcome::Dead(error) => {
                content.unsynced.clear();
                Err(error)
            }
        }
    }

    fn preallocate(&self, len: u64) -> io::Result<()> {
        let mut state = self.disk.enter();
        let now = state.files[self.file].len();
        let zeros = vec![0; place(len)?.saturating_sub(now)];
        self.write(&mut state, zeros, now as u64)
    }

    fn evict(&self) -> io::Result<()> {
        Ok(())
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.disk.enter().growing(Kind::Write, |state| {
            state.files[self.file].change(Change::Truncate(place(len)?));
            Ok(())
        })
    }

    fn len(&self) -> io::Result<u64> {
        Ok(lock(&self.disk.0.state).files[self.file].len() as u64)
    }
}

/// Returns `true` for the error of a sync that loses no writes.
fn is_refusal(error: &io::Error) -> bool {
    Shortage::of(error).is_some_and(|shortage| !shortage.loses_writes())
}

/// A read that completes after some polls.
struct Late {
    polls: u64,
    result: Option<io::Result<Bytes>>,
}

impl Future for Late {
    type Output = io::Result<Bytes>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if self.polls > 0 {
            self.polls -= 1;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let ended = || Err(io::Error::other("a read was polled after its end"));
        Poll::Ready(self.result.take().unwrap_or_else(ended))
    }
}
