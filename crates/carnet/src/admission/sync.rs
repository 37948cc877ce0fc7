//! The lock of a desk: the standard library's, or, where `--cfg shuttle` builds the models, one that
//! lets a scheduler decide which thread runs after each step.

#[cfg(not(shuttle))]
pub(super) use std::sync::{Mutex, MutexGuard};

#[cfg(shuttle)]
pub(super) use shuttle::sync::{Mutex, MutexGuard};
