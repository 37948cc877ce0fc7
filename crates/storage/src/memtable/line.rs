//! Cache line: the unit of an arena's chunks.

/// A cache line; its alignment lets nodes begin at a cache line.
#[repr(align(64))]
#[derive(Clone, Copy)]
pub(super) struct Line(#[expect(dead_code, reason = "only reserves memory")] [u64; 8]);
