//! Compactions that are divided among the workers.

use std::sync::Arc;

use crate::compaction::Parts;
use crate::sync::Mutex;

/// Compactions that are divided among the workers.
pub(super) type Divided = Mutex<Vec<Arc<Mutex<Parts>>>>;
