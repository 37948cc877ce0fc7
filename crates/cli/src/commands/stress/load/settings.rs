//! Settings of a load.

use super::options::LoadOptions;
use crate::commands::stress::load_kind::LoadKind;

/// A load with its settings.
pub(in crate::commands::stress) struct Load {
    pub(in crate::commands::stress) kind: LoadKind,
    pub(in crate::commands::stress) options: LoadOptions,
    pub(in crate::commands::stress) clients: u16,
    pub(in crate::commands::stress) seconds: u64,
    /// Operations per second of all clients together; `None` for a closed loop.
    pub(in crate::commands::stress) rate: Option<u32>,
    pub(in crate::commands::stress) seed: u64,
}
