//! The state of a simulated disk, and how its operations go.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use carnet_base::{Bytes, Rng, SeededRng};

use super::content::{Content, NameChange};
use super::{Kind, place};

#[derive(Clone)]
pub(super) struct State {
    pub(super) files: Vec<Content>,
    pub(super) names: BTreeMap<String, usize>,
    pub(super) synced_names: BTreeMap<String, usize>,
    pub(super) unsynced_names: Vec<NameChange>,
    /// Of operations, by kind.
    pub(super) counts: [u64; Kind::ALL.len()],
    pub(super) read_bytes: u64,
    pub(super) reads_on_caller: u64,
    pub(super) trouble: Trouble,
    pub(super) locked: bool,
    pub(super) held: bool,
    pub(super) waiting: usize,
    pub(super) rng: SeededRng,
}

/// What goes wrong, and when; operations count from 1.
#[derive(Clone, Default)]
pub(super) struct Trouble {
    pub(super) fail_at: Option<(u64, io::ErrorKind)>,
    pub(super) fail_nth: Vec<(Kind, u64, io::ErrorKind)>,
    pub(super) full_from: Option<u64>,
    pub(super) full_at_bytes: Option<u64>,
    pub(super) stall_reads: Option<(u64, u64)>,
    pub(super) halt_at: Option<u64>,
    pub(super) halt_at_sync: Option<u64>,
    pub(super) halted: bool,
    pub(super) unsynced_prefix: Option<String>,
    pub(super) replaced: bool,
}

/// How an operation goes.
pub(super) enum Fate {
    Succeeds,
    /// It fails, but may have had any part of its effect.
    Fails(io::Error),
    /// The power is gone; it may have had any part of its effect only if it was the last.
    Dead(io::Error),
}

impl State {
    /// Counts an operation and says how it goes.
    pub(super) fn begin(&mut self, kind: Kind) -> Fate {
        self.counts[kind as usize] += 1;
        let now = self.now();
        let nth = self.counts[kind as usize];
        let syncs = [Kind::Sync, Kind::SyncDirectory];
        let nth_sync =
            syncs.contains(&kind).then(|| syncs.map(|of| self.counts[of as usize]).iter().sum());
        let trouble = &mut self.trouble;
        let lost = || io::Error::other("the simulated power is gone");
        if trouble.halted {
            return Fate::Dead(lost());
        }
        let at_sync = nth_sync.is_some() && trouble.halt_at_sync == nth_sync;
        if trouble.halt_at == Some(now) || at_sync {
            trouble.halted = true;
            return Fate::Fails(lost());
        }
        let mut fails = trouble.fail_nth.iter().filter(|(of, at, _)| (*of, *at) == (kind, nth));
        match (trouble.fail_at, fails.next()) {
            (Some((at, error)), _) if at == now => Fate::Fails(error.into()),
            (_, Some((.., error))) => Fate::Fails((*error).into()),
            _ => Fate::Succeeds,
        }
    }

    /// As [`State::begin`], for what a full disk refuses.
    pub(super) fn begin_growing(&mut self, kind: Kind) -> Fate {
        match self.begin(kind) {
            Fate::Succeeds if self.trouble.full_from.is_some_and(|from| self.now() >= from) => {
                Fate::Fails(io::ErrorKind::StorageFull.into())
            }
            fate => fate,
        }
    }

    fn now(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns how much of a write fits, and the error where that is not all.
    pub(super) fn room(&self, file: usize, offset: usize, len: usize) -> (usize, io::Result<()>) {
        let Some(limit) = self.trouble.full_at_bytes else { return (len, Ok(())) };
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

    /// Draws for how many polls a read is late.
    pub(super) fn stall(&mut self) -> u64 {
        match self.trouble.stall_reads {
            Some((chance, polls)) if self.rng.chance(chance) => 1 + self.rng.below(polls.max(1)),
            _ => 0,
        }
    }

    /// Runs an operation that happens whole or not at all, also where it fails.
    pub(super) fn atomically<T>(
        &mut self,
        kind: Kind,
        act: impl FnOnce(&mut Self) -> io::Result<T>,
    ) -> io::Result<T> {
        let fate = self.begin(kind);
        self.run(fate, act)
    }

    /// As [`State::atomically`], for what a full disk refuses.
    pub(super) fn growing<T>(
        &mut self,
        kind: Kind,
        act: impl FnOnce(&mut Self) -> io::Result<T>,
    ) -> io::Result<T> {
        let fate = self.begin_growing(kind);
        self.run(fate, act)
    }

    fn run<T>(
        &mut self,
        fate: Fate,
        act: impl FnOnce(&mut Self) -> io::Result<T>,
    ) -> io::Result<T> {
        match fate {
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
