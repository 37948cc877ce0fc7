//! Maximum memory of decoded sections.

/// Maximum memory of a top index: that of a table of terabytes.
pub(super) const TOP_MEMORY_MAX: usize = 1 << 30;

/// Maximum memory of a decoded block or index page.
pub(super) const BLOCK_MEMORY_MAX: usize = 64 << 20;
