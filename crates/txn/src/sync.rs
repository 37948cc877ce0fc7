//! The locks and atomics of [`snapshots`](crate::snapshots): those of the standard library, or, where
//! `--cfg shuttle` builds the models, such as let a scheduler decide who runs after each step.

#[cfg(not(shuttle))]
pub(crate) use std::sync::{Mutex, MutexGuard, atomic};

#[cfg(shuttle)]
pub(crate) use shuttle::sync::{Mutex, MutexGuard, atomic};
