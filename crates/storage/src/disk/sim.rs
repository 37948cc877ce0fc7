//! A disk in memory that loses power, fails and lies, all from a seed.
//!
//! For each file it keeps what is synced and the list of what is not; likewise for names. What
//! [`SimDisk::crash`] returns is one of the disks that a loss of power could leave:
//!
//! * of each unsynced write any subset of its pages survives, a page also torn at a sector;
//! * the length may have grown without the bytes, which are zeros then;
//! * of unsynced creations, renames and removals any subset is there;
//! * a failed sync drops what it was asked to sync, and a second one that "succeeds" does not
//!   bring it back, as Linux does.
//!
//! It also stalls, so that a test can look at what goes on meanwhile.
//!
//! Every operation is counted, so that a test can first run to the end, ask how many there were,
//! and then stop the power at each of them.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use carnet_base::{Result, Rng, SeededRng};

use super::{DirectoryLock, Disk, File, real};
use crate::lock::lock;

const PAGE: usize = 4096;
const SECTOR: usize = 512;

/// A simulated directory. Clones share it.
#[derive(Clone)]
pub struct SimDisk(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    resumed: Condvar,
}

#[derive(Clone)]
struct State {
    files: Vec<Content>,
    names: BTreeMap<String, usize>,
    synced_names: BTreeMap<String, usize>,
    unsynced_names: Vec<NameChange>,
    operations: u64,
    syncs: u64,
    trouble: Trouble,
    locked: bool,
    held: bool,
    waiting: usize,
    rng: SeededRng,
}

/// What goes wrong, and when; operations count from 1.
#[derive(Clone, Default)]
struct Trouble {
    fail_at: Option<(u64, io::ErrorKind)>,
    full_from: Option<u64>,
    halt_at: Option<u64>,
    halt_at_sync: Option<u64>,
    halted: bool,
    unsynced_prefix: Option<String>,
}

#[derive(Clone, Default)]
struct Content {
    current: Vec<u8>,
    synced: Vec<u8>,
    unsynced: Vec<Change>,
}

#[derive(Clone)]
enum Change {
    Write { offset: usize, bytes: Vec<u8> },
    Truncate(usize),
}

#[derive(Clone)]
enum NameChange {
    Create { name: String, file: usize },
    Rename { from: String, to: String, file: usize },
    Remove { name: String },
}

/// How an operation goes.
enum Fate {
    Succeeds,
    /// It fails, but may have had any part of its effect.
    Fails(io::Error),
    /// The power is gone; it may have had any part of its effect only if it was the last.
    Dead(io::Error),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Read,
    Write,
    Sync,
}

impl SimDisk {
    /// Makes an empty disk. The seed decides how much of a failed operation has happened.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self::restarted(Vec::new(), BTreeMap::new(), SeededRng::new(seed))
    }

    /// Returns how many operations there were, reads included.
    #[must_use]
    pub fn operations(&self) -> u64 {
        lock(&self.0.state).operations
    }

    /// Returns how many syncs there were, of files and of the directory.
    #[must_use]
    pub fn syncs(&self) -> u64 {
        lock(&self.0.state).syncs
    }

    /// Makes one operation fail: the `operation`-th since the disk was made, counted from 1.
    pub fn fail_at(&self, operation: u64, error: io::ErrorKind) {
        lock(&self.0.state).trouble.fail_at = Some((operation, error));
    }

    /// Lets no file grow and none be made from an operation on: the disk is full.
    pub fn full_from(&self, operation: u64) {
        lock(&self.0.state).trouble.full_from = Some(operation);
    }

    /// Stops the power in the middle of an operation: it and all after it fail.
    pub fn halt_at(&self, operation: u64) {
        lock(&self.0.state).trouble.halt_at = Some(operation);
    }

    /// Stops the power in the middle of the `sync`-th sync, counted from 1.
    pub fn halt_at_sync(&self, sync: u64) {
        lock(&self.0.state).trouble.halt_at_sync = Some(sync);
    }

    /// Stops the power now.
    pub fn halt(&self) {
        lock(&self.0.state).trouble.halted = true;
    }

    /// Lets no operation begin until [`SimDisk::resume`]: the device has stalled.
    pub fn hold(&self) {
        lock(&self.0.state).held = true;
    }

    /// Lets all operations go on.
    pub fn resume(&self) {
        lock(&self.0.state).held = false;
        self.0.resumed.notify_all();
    }

    /// Returns how many operations wait for a stalled device.
    #[must_use]
    pub fn held_operations(&self) -> usize {
        lock(&self.0.state).waiting
    }

    /// From now on acknowledges syncs of files whose names begin so without doing them.
    pub fn lie_about_syncs(&self, prefix: &str) {
        lock(&self.0.state).trouble.unsynced_prefix = Some(prefix.to_owned());
    }

    /// Returns one of the disks that a loss of power could leave, unlocked and without trouble.
    #[must_use]
    pub fn crash(&self, rng: &mut dyn Rng) -> Self {
        let state = lock(&self.0.state);
        let names = state.surviving_names(rng);
        let files = state.files.iter().map(|file| file.crash(rng)).collect();
        Self::restarted(files, names, SeededRng::new(rng.next_u64()))
    }

    /// Returns the disk as the next process finds it when this one was killed: all that was
    /// written is there, synced or not, and it may still be lost to a loss of power.
    #[must_use]
    pub fn kill(&self) -> Self {
        let mut state = lock(&self.0.state).clone();
        state.trouble = Trouble::default();
        (state.locked, state.held, state.waiting) = (false, false, 0);
        Self::with(state)
    }

    /// Returns a file's bytes, synced or not.
    #[must_use]
    pub fn contents(&self, name: &str) -> Option<Vec<u8>> {
        let state = lock(&self.0.state);
        state.names.get(name).map(|&file| state.files[file].current.clone())
    }

    /// Replaces a file's bytes, durably, as bit rot or a person would. It makes the file if need
    /// be, and counts as no operation.
    pub fn plant(&self, name: &str, bytes: Vec<u8>) {
        let mut state = lock(&self.0.state);
        let file = state.files.len();
        state.files.push(Content { synced: bytes.clone(), current: bytes, unsynced: Vec::new() });
        state.names.insert(name.to_owned(), file);
        state.synced_names.insert(name.to_owned(), file);
    }

    fn restarted(files: Vec<Content>, names: BTreeMap<String, usize>, rng: SeededRng) -> Self {
        Self::with(State {
            files,
            synced_names: names.clone(),
            names,
            unsynced_names: Vec::new(),
            operations: 0,
            syncs: 0,
            trouble: Trouble::default(),
            locked: false,
            held: false,
            waiting: 0,
            rng,
        })
    }

    fn with(state: State) -> Self {
        Self(Arc::new(Shared { state: Mutex::new(state), resumed: Condvar::new() }))
    }

    /// Takes the disk for one operation, once it is not held.
    fn enter(&self) -> MutexGuard<'_, State> {
        let mut state = lock(&self.0.state);
        state.waiting += 1;
        while state.held {
            state = self.0.resumed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.waiting -= 1;
        state
    }
}

impl State {
    /// Counts an operation and says how it goes.
    fn begin(&mut self, kind: Kind) -> Fate {
        self.operations += 1;
        let now = self.operations;
        if kind == Kind::Sync {
            self.syncs += 1;
        }
        let trouble = &mut self.trouble;
        let lost = || io::Error::other("the simulated power is gone");
        if trouble.halted {
            return Fate::Dead(lost());
        }
        if trouble.halt_at == Some(now)
            || (kind == Kind::Sync && trouble.halt_at_sync == Some(self.syncs))
        {
            trouble.halted = true;
            return Fate::Fails(lost());
        }
        match trouble.fail_at {
            Some((at, error)) if at == now => Fate::Fails(error.into()),
            _ if kind == Kind::Write && trouble.full_from.is_some_and(|from| now >= from) => {
                Fate::Fails(io::ErrorKind::StorageFull.into())
            }
            _ => Fate::Succeeds,
        }
    }

    /// Runs an operation that happens whole or not at all, also where it fails.
    fn atomically<T>(
        &mut self,
        kind: Kind,
        act: impl FnOnce(&mut Self) -> io::Result<T>,
    ) -> io::Result<T> {
        match self.begin(kind) {
            Fate::Succeeds => act(self),
            Fate::Dead(error) => Err(error),
            Fate::Fails(error) => {
                if self.rng.chance(500) {
                    let _ = act(self);
                }
                Err(error)
            }
        }
    }

    fn find(&self, name: &str) -> io::Result<usize> {
        self.names.get(name).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn surviving_names(&self, rng: &mut dyn Rng) -> BTreeMap<String, usize> {
        let mut names = self.synced_names.clone();
        for change in &self.unsynced_names {
            if rng.chance(500) {
                change.apply(&mut names);
            }
        }
        names
    }
}

impl NameChange {
    fn apply(&self, names: &mut BTreeMap<String, usize>) {
        match self {
            Self::Create { name, file } => {
                names.insert(name.clone(), *file);
            }
            Self::Rename { from, to, file } => {
                names.remove(from);
                names.insert(to.clone(), *file);
            }
            Self::Remove { name } => {
                names.remove(name);
            }
        }
    }
}

impl Content {
    fn change(&mut self, change: Change) {
        change.apply(&mut self.current);
        self.unsynced.push(change);
    }

    fn sync(&mut self) {
        for change in self.unsynced.drain(..) {
            change.apply(&mut self.synced);
        }
    }

    fn crash(&self, rng: &mut dyn Rng) -> Self {
        let mut bytes = self.synced.clone();
        // Drawn once for a file: mostly lost, mixed, or mostly there.
        let survival = [50, 500, 950][usize::try_from(rng.below(3)).unwrap_or(0)];
        for change in &self.unsynced {
            change.apply_in_part(&mut bytes, survival, rng);
        }
        if bytes.len() < self.current.len() && rng.chance(300) {
            let missing = (self.current.len() - bytes.len()) as u64;
            let grown = bytes.len() + usize::try_from(rng.below(missing + 1)).unwrap_or(0);
            bytes.resize(grown, 0);
        }
        Self { current: bytes.clone(), synced: bytes, unsynced: Vec::new() }
    }
}

impl Change {
    fn apply(&self, content: &mut Vec<u8>) {
        match self {
            Self::Write { offset, bytes } => write(content, *offset, bytes),
            Self::Truncate(len) => content.resize(*len, 0),
        }
    }

    /// Applies any subset of the pages, a page also up to some sector only.
    fn apply_in_part(&self, content: &mut Vec<u8>, survival: u64, rng: &mut dyn Rng) {
        match self {
            Self::Truncate(_) if !rng.chance(survival) => {}
            Self::Truncate(len) => content.resize(*len, 0),
            Self::Write { offset, bytes } => {
                let mut at = 0;
                while at < bytes.len() {
                    let end = (at + PAGE - (offset + at) % PAGE).min(bytes.len());
                    if rng.chance(survival) {
                        let torn = rng.chance(100);
                        let keep = if torn { (end - at) / 2 / SECTOR * SECTOR } else { end - at };
                        write(content, offset + at, &bytes[at..at + keep]);
                    }
                    at = end;
                }
            }
        }
    }
}

fn write(content: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    if bytes.is_empty() {
        return;
    }
    let end = offset + bytes.len();
    if content.len() < end {
        content.resize(end, 0);
    }
    content[offset..end].copy_from_slice(bytes);
}

fn place(offset: u64) -> io::Result<usize> {
    usize::try_from(offset).map_err(|_| io::ErrorKind::InvalidInput.into())
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

    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        self.enter().atomically(Kind::Write, |state| {
            let file = state.files.len();
            state.files.push(Content::default());
            let change = NameChange::Create { name: name.to_owned(), file };
            change.apply(&mut state.names);
            state.unsynced_names.push(change);
            Ok(Arc::new(SimFile { disk: self.clone(), name: name.to_owned(), file }) as _)
        })
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        self.enter().atomically(Kind::Read, |state| {
            let file = state.find(name)?;
            Ok(Arc::new(SimFile { disk: self.clone(), name: name.to_owned(), file }) as _)
        })
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.enter().atomically(Kind::Write, |state| {
            let file = state.find(from)?;
            let change = NameChange::Rename { from: from.to_owned(), to: to.to_owned(), file };
            change.apply(&mut state.names);
            state.unsynced_names.push(change);
            Ok(())
        })
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        // A full disk lets go of files.
        self.enter().atomically(Kind::Read, |state| {
            state.find(name)?;
            let change = NameChange::Remove { name: name.to_owned() };
            change.apply(&mut state.names);
            state.unsynced_names.push(change);
            Ok(())
        })
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.enter().atomically(Kind::Read, |state| Ok(state.names.keys().cloned().collect()))
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.enter().atomically(Kind::Sync, |state| {
            state.unsynced_names.clear();
            state.synced_names.clone_from(&state.names);
            Ok(())
        })
    }

    fn path(&self, name: &str) -> String {
        format!("simulated/{name}")
    }
}

struct Unlock(SimDisk);

impl Drop for Unlock {
    fn drop(&mut self) {
        lock(&self.0.0.state).locked = false;
    }
}

struct SimFile {
    disk: SimDisk,
    name: String,
    file: usize,
}

impl File for SimFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.disk.enter().atomically(Kind::Read, |state| {
            let content = &state.files[self.file].current;
            let rest = content.get(place(offset)?..).unwrap_or_default();
            let read = rest.len().min(buffer.len());
            buffer[..read].copy_from_slice(&rest[..read]);
            Ok(read)
        })
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut state = self.disk.enter();
        let offset = place(offset)?;
        let (written, outcome) = match state.begin(Kind::Write) {
            Fate::Succeeds => (bytes.len(), Ok(())),
            Fate::Dead(error) => return Err(error),
            Fate::Fails(error) => {
                let part = state.rng.below(bytes.len() as u64 + 1);
                (usize::try_from(part).unwrap_or(0), Err(error))
            }
        };
        let bytes = bytes[..written].to_vec();
        state.files[self.file].change(Change::Write { offset, bytes });
        outcome
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut state = self.disk.enter();
        let fate = state.begin(Kind::Sync);
        let halted = state.trouble.halted;
        let lies =
            matches!(&state.trouble.unsynced_prefix, Some(prefix) if self.name.starts_with(prefix));
        let content = &mut state.files[self.file];
        match fate {
            Fate::Succeeds if lies => Ok(()),
            Fate::Succeeds => {
                content.sync();
                Ok(())
            }
            // Whatever was on its way when the power went stays undecided until the crash.
            Fate::Fails(error) | Fate::Dead(error) if halted => Err(error),
            Fate::Fails(error) | Fate::Dead(error) => {
                content.unsynced.clear();
                Err(error)
            }
        }
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.disk.enter().atomically(Kind::Write, |state| {
            state.files[self.file].change(Change::Truncate(place(len)?));
            Ok(())
        })
    }

    fn len(&self) -> io::Result<u64> {
        Ok(lock(&self.disk.0.state).files[self.file].current.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(disk: &SimDisk, bytes: &[u8]) -> Arc<dyn File> {
        let file = disk.create("a").unwrap();
        file.write_at(bytes, 0).unwrap();
        file
    }

    #[test]
    fn synced_bytes_and_names_survive_every_crash() {
        let disk = SimDisk::new(1);
        written(&disk, b"kept").sync_data().unwrap();
        disk.sync_dir().unwrap();
        for seed in 0..100 {
            let after = disk.crash(&mut SeededRng::new(seed));
            assert_eq!(after.contents("a").as_deref(), Some(&b"kept"[..]), "seed {seed}");
        }
    }

    #[test]
    fn unsynced_bytes_and_names_survive_some_crashes_only() {
        let disk = SimDisk::new(1);
        written(&disk, &[7; 3 * PAGE]);
        let outcomes: Vec<_> =
            (0..200).map(|seed| disk.crash(&mut SeededRng::new(seed)).contents("a")).collect();
        assert!(outcomes.contains(&None), "the name must get lost");
        assert!(outcomes.contains(&Some(vec![7; 3 * PAGE])), "everything must survive");
        let hole = outcomes
            .iter()
            .flatten()
            .any(|bytes| bytes.len() == 3 * PAGE && bytes[0] == 0 && bytes[2 * PAGE] == 7);
        assert!(hole, "a later page must survive an earlier one");
    }

    #[test]
    fn a_failed_sync_loses_its_bytes_even_if_the_next_one_succeeds() {
        let disk = SimDisk::new(1);
        let file = written(&disk, b"lost");
        disk.sync_dir().unwrap();
        disk.fail_at(disk.operations() + 1, io::ErrorKind::Other);
        assert!(file.sync_data().is_err());
        file.sync_data().unwrap();
        let after = disk.crash(&mut SeededRng::new(3)).contents("a").unwrap();
        assert!(after.iter().all(|&byte| byte == 0));
    }

    #[test]
    fn nothing_works_once_the_power_is_gone() {
        let disk = SimDisk::new(1);
        let file = written(&disk, b"x");
        disk.halt_at(disk.operations() + 1);
        assert!(file.sync_data().is_err());
        assert!(file.write_at(b"y", 0).is_err());
        assert!(disk.list().is_err());
        assert_eq!(disk.contents("a").as_deref(), Some(&b"x"[..]));
    }
}
