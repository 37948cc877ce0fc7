//! Tries of calls to the cluster, and the waits between them.

use std::time::Duration;

/// Number of tries after which a reader gives a row up; a leader never does.
pub(super) const READER_TRIES: u32 = 8;
/// Wait after the first failed call; each further one is twice as long.
pub(super) const FIRST_WAIT: Duration = Duration::from_millis(2);
pub(super) const LONGEST_WAIT: Duration = Duration::from_millis(250);
