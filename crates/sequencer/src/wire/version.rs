//! The version of the protocol between processes.

/// The version that this program speaks.
pub(super) const VERSION: u16 = 2;
