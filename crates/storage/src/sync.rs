//! Locks and atomics of the engine's concurrent parts: those of the standard library or, with
//! `--cfg shuttle`, those of the model checker's scheduler.

#[cfg(not(shuttle))]
pub(crate) use std::sync::{Mutex, MutexGuard, TryLockError, atomic};

#[cfg(shuttle)]
pub(crate) use shuttle::sync::{Mutex, MutexGuard, TryLockError, atomic};

#[cfg(not(shuttle))]
pub(crate) use crate::lock::lock;

#[cfg(shuttle)]
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
