//! Data about service levels that a process holds besides the catalog.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use arc_swap::ArcSwapOption;

/// Maximum number of levels, including dropped ones, whose timeouts are counted.
pub(super) const COUNTED_MAX: usize = 1_000;

/// Data about service levels. See the module documentation.
#[derive(Default)]
pub(super) struct LevelState {
    /// Users, if they are known.
    pub(super) users: ArcSwapOption<BTreeSet<String>>,
    pub(super) timeouts: Mutex<BTreeMap<Arc<str>, u64>>,
}
