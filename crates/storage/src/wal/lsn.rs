//! Log sequence numbers.

use std::fmt;

/// Log sequence number: an offset in the whole log, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Lsn(pub(crate) u64);

impl Lsn {
    pub(crate) const fn after(self, bytes: u64) -> Self {
        // 2^64 bytes of log are 500 years at a gigabyte a second.
        Self(self.0.saturating_add(bytes))
    }
}

impl fmt::Display for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
