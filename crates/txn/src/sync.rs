//! The locks and atomics of the commit checker and the snapshots: from the standard library, or from
//! shuttle if `--cfg shuttle` builds the models.

#[cfg(not(shuttle))]
pub(crate) use std::hint::spin_loop;
#[cfg(not(shuttle))]
pub(crate) use std::sync::{Mutex, MutexGuard, atomic};

#[cfg(shuttle)]
pub(crate) use shuttle::hint::spin_loop;
#[cfg(shuttle)]
pub(crate) use shuttle::sync::{Mutex, MutexGuard, atomic};
