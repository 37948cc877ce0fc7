//! The locks and atomics of the sequencer and of the snapshots in use: those of the standard library,
//! or, where `--cfg shuttle` builds the models, such as let a scheduler decide who runs after each
//! step.

#[cfg(not(shuttle))]
pub(crate) use std::hint::spin_loop;
#[cfg(not(shuttle))]
pub(crate) use std::sync::{Mutex, MutexGuard, atomic};

#[cfg(shuttle)]
pub(crate) use shuttle::hint::spin_loop;
#[cfg(shuttle)]
pub(crate) use shuttle::sync::{Mutex, MutexGuard, atomic};
