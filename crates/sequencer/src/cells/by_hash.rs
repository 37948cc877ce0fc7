//! The hasher of tables that are keyed by the hashes of cells.

use std::hash::{BuildHasherDefault, DefaultHasher};

/// The keys are hashes of whole cell keys already, and this hasher gives the same result in every
/// run.
pub(crate) type ByHash = BuildHasherDefault<DefaultHasher>;
