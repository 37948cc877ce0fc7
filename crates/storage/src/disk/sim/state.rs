//! SimDiskState of a simulated disk, and outcomes of its operations.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use carnet_base::{Bytes, Rng, SeededRng};
use rustix::io::Errno;

use super::content::{Content, NameChange};
use super::kind::Kind;

#[derive(Clone)]
pub(super) struct SimDiskState {
    pub(super) files: Vec<Content>,
    pub(super) names: BTreeMap<String, usize>,
    pub(super) synced_names: BTreeMap<String, usize>,
    pub(super) unsynced_names: Vec<NameChange>,
    /// Number of operations by kind.
    pub(super) counts: [u64; Kind::ALL.len()],
    pub(super) read_bytes: u64,
    pub(super) reads_on_caller: u64,
    pub(super) faults: Faults,
    pub(super) locked: bool,
    /// Files that [`Disk::lock_named`](super::Disk::lock_named) has locked.
    pub(super) locked_names: BTreeSet<String>,
    pub(super) held: bool,
    pub(super) waiting: usize,
    pub(super) rng: SeededRng,
}

/// Faults and when they happen; operations are counted from 1.
#[derive(Clone, Default)]
pub(super) struct Faults {
    pub(super) fail_at: Option<(u64, SimError)>,
    pub(super) fail_nth: Vec<(Kind, u64, SimError)>,
    pub(super) fail_all: Option<(Kind, SimError)>,
    pub(super) full_from: Option<u64>,
    pub(super) full_at_bytes: Option<u64>,
    pub(super) stall_reads: Option<(u64, u64)>,
    pub(super) halt_at: Option<u64>,
    pub(super) halt_at_sync: Option<u64>,
    pub(super) halted: bool,
    pub(super) unsynced_prefix: Option<String>,
    pub(super) replaced: bool,
}

/// Error of an operation that fails.
#[derive(Clone, Copy, Debug)]
pub enum SimError {
    /// Error without a number of the operating system.
    Kind(io::ErrorKind),
    /// Error of the operating system.
    System(Errno),
}

impl From<io::ErrorKind> for SimError {
    fn from(kind: io::ErrorKind) -> Self {
        Self::Kind(kind)
    }
}

impl From<Errno> for SimError {
    fn from(errno: Errno) -> Self {
        Self::System(errno)
    }
}

impl From<SimError> for io::Error {
    fn from(error: SimError) -> Self {
        match error {
            SimError::Kind(kind) => kind.into(),
            SimError::System(errno) => errno.into(),
        }
    }
}

/// Outcome of an operation.
pub(super) enum Outcome {
    Succeeds,
    /// It fails, but may have had any part of its effect.
    Fails(io::Error),
    /// The power is off; only the last operation may have had an effect.
    Dead(io::Error),
}

impl SimDiskState {
    /// Counts an operation and returns its outcome.
    pub(super) fn begin(&mut self, kind: Kind) -> Outcome {
        self.counts[kind as usize] += 1;
        let now = self.now();
        let nth = self.counts[kind as usize];
        let syncs = [Kind::Sync, Kind::SyncDirectory];
        let nth_sync =
            syncs.contains(&kind).then(|| syncs.map(|of| self.counts[of as usize]).iter().sum());
        let faults = &mut self.faults;
        let lost = || io::Error::other("the simulated power is gone");
        if faults.halted {
            return Outcome::Dead(lost());
        }
        let at_sync = nth_sync.is_some() && faults.halt_at_sync == nth_sync;
        if faults.halt_at == Some(now) || at_sync {
            faults.halted = true;
            return Outcome::Fails(lost());
        }
        let mut fails = faults.fail_nth.iter().filter(|(of, at, _)| (*of, *at) == (kind, nth));
        match (faults.fail_at, fails.next()) {
            (Some((at, error)), _) if at == now => Outcome::Fails(error.into()),
            (_, Some((.., error))) => Outcome::Fails((*error).into()),
            _ => match faults.fail_all {
                Some((of, error)) if of == kind => Outcome::Fails(error.into()),
                _ => Outcome::Succeeds,
            },
        }
    }

    /// Like [`SimDiskState::begin`], for operations that a full disk refuses.
    pub(super) fn begin_growing(&mut self, kind: Kind) -> Outcome {
        match self.begin(kind) {
            Outcome::Succeeds if self.faults.full_from.is_some_and(|from| self.now() >= from) => {
                Outcome::Fails(io::ErrorKind::StorageFull.into())
            }
            outcome => outcome,
        }
    }

    fn now(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns how much of a write fits, and an error if not all of it.
    pub(super) fn room(&self, file: usize, offset: usize, len: usize) -> (usize, io::Result<()>) {
        let Some(limit) = self.faults.full_at_bytes else { return (len, Ok(())) };
        let named: BTreeSet<_> = self.names.values().collect();
        let used: u64 = named.iter().map(|&&file| self.files[file].len() as u64).sum();
        let end_max = self.files[file].len() as u64 + limit.saturating_sub(used);
        let fits = usize::try_from(end_max.saturating_sub(offset as u64)).unwrap_or(usize::MAX);
        if len <= fits { (len, Ok(())) } else { (fits, Err(io::ErrorKind::StorageFull.into())) }
    }

    /// Reads from a file, as an operation.
    pub(super) fn read(&mut self, file: usize, offset: u64, len: usize) -> io::Result<Bytes> {
        self.atomically(Kind::Read, |state| {
            let rest = state.files[file].current.get(place(offset)?..).unwrap_or_default();
            let len = rest.len().min(len);
            state.read_bytes += len as u64;
            Ok(Bytes::copy_from_slice(&rest[..len]))
        })
    }

    /// Draws the number of polls by which a read is delayed.
    pub(super) fn stall(&mut self) -> u64 {
        match self.faults.stall_reads {
            Some((chance, polls)) if self.rng.chance(chance) => 1 + self.rng.below(polls.max(1)),
            _ => 0,
        }
    }

    /// Runs an atomic operation; a failed one may have happened.
    pub(super) fn atomically<T>(
        &mut self,
        kind: Kind,
        act: impl FnOnce(&mut Self) -> io::Result<T>,
    ) -> io::Result<T> {
        let outcome = self.begin(kind);
        self.run(outcome, act)
    }

    /// Like [`SimDiskState::atomically`], for operations that a full disk refuses.
    pub(super) fn growing<T>(
        &mut self,
        kind: Kind,
        act: impl FnOnce(&mut Self) -> io::Result<T>,
    ) -> io::Result<T> {
        let outcome = self.begin_growing(kind);
        self.run(outcome, act)
    }

    fn run<T>(
        &mut self,
        outcome: Outcome,
        act: impl FnOnce(&mut Self) -> io::Result<T>,
    ) -> io::Result<T> {
        match outcome {
            Outcome::Succeeds => act(self),
            Outcome::Dead(error) => Err(error),
            Outcome::Fails(error) => {
                if self.rng.chance(500) {
                    let _ = act(self);
                }
                Err(error)
            }
        }
    }

    pub(super) fn find(&self, name: &str) -> io::Result<usize> {
        self.names.get(name).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    pub(super) fn surviving_names(&self, rng: &mut dyn Rng) -> BTreeMap<String, usize> {
        let mut names = self.synced_names.clone();
        for change in &self.unsynced_names {
            if rng.chance(500) {
                change.apply(&mut names);
            }
        }
        names
    }
}

/// Converts an offset; `InvalidInput` if it does not fit.
pub(super) fn place(offset: u64) -> io::Result<usize> {
    usize::try_from(offset).map_err(|_| io::ErrorKind::InvalidInput.into())
}
