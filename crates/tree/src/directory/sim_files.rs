//! A simulated directory that can lose power.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};

use carnet_base::{Bytes, Rng, SeededRng};

use super::files::{Files, Lock};
use crate::job::lock;

/// A directory in memory that can lose power. Then files that were not synced may be truncated or
/// empty, and each name that was not synced refers to its old or its new file.
#[derive(Clone, Default)]
pub(crate) struct SimFiles(Arc<Mutex<SimState>>);

#[derive(Default)]
struct SimState {
    files: BTreeMap<String, Content>,
    durable: BTreeMap<String, Content>,
    operations: u64,
    halt_at: Option<u64>,
    fail_at: Option<u64>,
    locks: BTreeMap<String, Arc<()>>,
}

#[derive(Clone)]
struct Content {
    bytes: Bytes,
    is_synced: bool,
}

impl SimFiles {
    pub(crate) fn operations(&self) -> u64 {
        lock(&self.0).operations
    }

    /// Makes the power fail in the middle of an operation: it and all later ones return errors.
    pub(crate) fn halt_at(&self, operation: u64) {
        lock(&self.0).halt_at = Some(operation);
    }

    /// Makes one operation fail, before or after its effect.
    pub(crate) fn fail_at(&self, operation: u64) {
        lock(&self.0).fail_at = Some(operation);
    }

    /// Returns a possible state after a loss of power.
    pub(crate) fn crash(&self, rng: &mut SeededRng) -> Self {
        let state = lock(&self.0);
        let mut left = state.durable.clone();
        let names: Vec<String> = state.files.keys().chain(state.durable.keys()).cloned().collect();
        for name in names {
            if rng.chance(500) {
                match state.files.get(&name) {
                    Some(content) => left.insert(name, content.clone()),
                    None => left.remove(&name),
                };
            }
        }
        for content in left.values_mut().filter(|content| !content.is_synced) {
            let len = rng.below(content.bytes.len() as u64 + 1);
            content.bytes.truncate(usize::try_from(len).expect("it is below a length"));
            content.is_synced = true;
        }
        let state = SimState { files: left.clone(), durable: left, ..SimState::default() };
        Self(Arc::new(Mutex::new(state)))
    }

    /// Runs an operation. The power may fail before or after its effect.
    fn operate<T>(&self, work: impl FnOnce(&mut SimState) -> T) -> io::Result<T> {
        let state = &mut *lock(&self.0);
        state.operations += 1;
        let number = state.operations;
        if state.halt_at.is_some_and(|halt| halt < number) {
            return Err(io::Error::other("the power is off"));
        }
        // Every other failure comes after the effect.
        let is_late = number.is_multiple_of(2);
        let fails = state.halt_at == Some(number) || state.fail_at == Some(number);
        if fails && !is_late {
            return Err(io::Error::other("the disk failed"));
        }
        let result = work(state);
        if fails {
            Err(io::Error::other("the disk failed after the operation"))
        } else {
            Ok(result)
        }
    }
}

impl Files for SimFiles {
    fn read(&self, name: &str) -> io::Result<Option<Bytes>> {
        self.operate(|state| state.files.get(name).map(|content| content.bytes.clone()))
    }

    fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let content = |is_synced| Content { bytes: Bytes::copy_from_slice(bytes), is_synced };
        self.operate(|state| state.files.insert(name.to_owned(), content(false)))?;
        self.operate(|state| {
            state.files.insert(name.to_owned(), content(true));
            // A replaced file's durable name refers to the new bytes.
            if let Some(durable) = state.durable.get_mut(name) {
                *durable = content(true);
            }
        })
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.operate(|state| {
            if let Some(content) = state.files.remove(from) {
                state.files.insert(to.to_owned(), content);
            }
        })
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.operate(|state| drop(state.files.remove(name)))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.operate(|state| state.files.keys().cloned().collect())
    }

    fn sync(&self) -> io::Result<()> {
        self.operate(|state| state.durable.clone_from(&state.files))
    }

    fn lock(&self, name: &str) -> io::Result<Lock> {
        self.try_lock(name)?.ok_or_else(|| io::Error::other("a simulated lock is held"))
    }

    fn try_lock(&self, name: &str) -> io::Result<Option<Lock>> {
        let state = &mut *lock(&self.0);
        let held = state.locks.entry(name.to_owned()).or_default();
        state
            .files
            .entry(name.to_owned())
            .or_insert(Content { bytes: Bytes::new(), is_synced: true });
        Ok((Arc::strong_count(held) == 1).then(|| Box::new(Arc::clone(held)) as Lock))
    }
}
