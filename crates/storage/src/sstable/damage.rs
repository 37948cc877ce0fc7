//! Description of damage.

/// Description of damage.
pub(super) type Wrong = &'static str;
