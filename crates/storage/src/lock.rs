//! Locks that ignore poisoning.
//!
//! A panic under one of the engine's locks leaves the guarded data consistent, because each change
//! cannot panic halfway. A panic that leaves a *commit* incomplete stops the store by a drop guard.
//! Poisoning would only turn that clear error into another panic.

pub(crate) use carnet_base::sync::{lock, read, write};
