//! Lock of a shared gate: the standard library's, or with `--cfg shuttle` one whose scheduler chooses the
//! next thread after each step.

#[cfg(not(shuttle))]
pub(super) use std::sync::{Mutex, MutexGuard};

#[cfg(shuttle)]
pub(super) use shuttle::sync::{Mutex, MutexGuard};
